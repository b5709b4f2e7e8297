/**
 * Requests for a comparison of two services: every operation of the OpenAPI document with each value that a
 * parameter allows and several that it does not, for many traders and markets, plus what no document
 * lists: wrong methods, bodies and keys, conditional and compressed requests, CORS, CSV.
 */

export type Call = {
  readonly method: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Name of the key to send; 'pro' if left out. */
  readonly key?: 'pro' | 'demo' | 'individual' | 'none' | 'wrong';
  /** Sends the ETag of the same request's first response, so both sides revalidate their own. */
  readonly revalidates?: boolean;
};

type Schema = {
  readonly enum?: readonly unknown[];
  readonly type?: string;
  readonly minimum?: number;
  readonly maximum?: number;
};
type Parameter = { readonly name: string; readonly in: string; readonly schema?: Schema };
type Operation = { readonly parameters?: readonly Parameter[] };
export type Document = { readonly paths: Record<string, Record<string, Operation>> };

/** What exists on the chain: the values of path parameters. */
export type Known = {
  readonly traders: readonly string[];
  readonly markets: readonly { readonly id: string; readonly slug: string }[];
  readonly tags: readonly string[];
};

const WRONG = ['', '-1', '0', '1.5', '1e9', 'abc', '%00', '99999999999999999999', "' OR 1=1"];
const CSV = { Accept: 'text/csv' };

/** A sequence that is the same for the same seed: requests are compared, not sampled anew. */
function* randoms(seed: number): Generator<number> {
  for (let state = seed; ; ) {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    yield state / 2 ** 32;
  }
}

/** Endless or account-changing operations have comparisons of their own. */
const LEFT_OUT =
  /^\/(streams|sessions|v1\/stream)|\/user\/(keys|telemetry)|^\/v2\/(final_matches|status)/;

export function requests(document: Document, known: Known, seed: number): Call[] {
  const random = randoms(seed);
  const pick = <T>(values: readonly T[]): T => {
    const value = values[Math.floor((random.next().value ?? 0) * values.length)];
    if (value === undefined) throw new Error('nothing to pick from');
    return value;
  };
  const operations = Object.entries(document.paths).flatMap(([path, { get }]) =>
    get === undefined || LEFT_OUT.test(path) ? [] : [{ path, operation: get }],
  );
  const calls: Call[] = [];
  for (const { path, operation } of operations) {
    const query = (operation.parameters ?? []).filter((parameter) => parameter.in === 'query');
    const fill = () => fillPath(path, known, pick);
    for (let i = 0; i < 10; i++) {
      calls.push({ method: 'GET', path: fill() });
      calls.push({ method: 'GET', path: fill(), headers: CSV });
    }
    for (const parameter of query) {
      for (const value of [...allowed(parameter, known, pick), ...WRONG]) {
        const search = `${parameter.name}=${encodeURIComponent(value)}`;
        calls.push({ method: 'GET', path: `${fill()}?${search}` });
      }
      for (const key of ['demo', 'individual'] as const) {
        const value = pick(allowed(parameter, known, pick));
        const search = `${parameter.name}=${encodeURIComponent(value)}`;
        calls.push({ method: 'GET', path: `${fill()}?${search}`, key });
      }
    }
    for (let i = 0; i < 30 && query.length > 0; i++) {
      const search = query
        .filter(() => (random.next().value ?? 0) < 0.4)
        .map(({ name }) => name)
        .map((name, at) => [name, query.find((one) => one.name === name), at] as const)
        .map(([name, parameter]) => {
          const values = parameter === undefined ? [''] : allowed(parameter, known, pick);
          return `${name}=${encodeURIComponent(pick(values))}`;
        });
      const headers = i % 6 === 0 ? CSV : {};
      calls.push({ method: 'GET', path: `${fill()}?${search.join('&')}`, headers });
    }
    calls.push(...oddities(fill()));
  }
  for (const path of [
    '/',
    '/openapi.json',
    '/docs',
    '/healthz',
    '/readyz',
    '/nothing',
    '/v1/',
    '/v3/x',
  ]) {
    calls.push(...oddities(path));
  }
  for (const path of [
    '/streams',
    '/streams/nothing',
    '/streams/nothing/meta',
    '/sessions',
    '/sessions/history',
    '/v2/user/keys',
    '/v1/stream/orders?tags=',
    '/v1/stream/orders?nothing=1',
    '/v1/stream/orders?min_price=101',
    '/v2/final_matches?after=x',
    '/v2/status?x=1',
  ]) {
    calls.push({ method: 'GET', path, key: 'none' }, { method: 'GET', path, key: 'wrong' });
    if (!path.startsWith('/v2/status')) calls.push({ method: 'GET', path });
  }
  const bodies = [
    '',
    '{',
    '[]',
    '{}',
    '{"name":""}',
    '{"name":"x","tags":"y"}',
    '{"name":"x","addresses":["0x1"]}',
    JSON.stringify({ name: 'x'.repeat(65) }),
    'x'.repeat(300_000),
  ];
  for (const body of bodies) {
    for (const path of ['/streams', '/v2/user/keys']) {
      for (const type of ['application/json', 'text/plain']) {
        calls.push({ method: 'POST', path, body, headers: { 'Content-Type': type } });
      }
    }
    calls.push({
      method: 'PUT',
      path: '/streams/nothing/meta',
      body,
      headers: { 'Content-Type': 'application/json' },
    });
  }
  return calls;
}

function fillPath(path: string, known: Known, pick: <T>(values: readonly T[]) => T): string {
  return path
    .replace('{address}', () =>
      pick([...known.traders, pick(known.traders).toUpperCase(), 'nobody', `0x${'0'.repeat(40)}`]),
    )
    .replace(/\{(id|id_or_slug)\}/, () => {
      const market = pick(known.markets);
      return pick([market.id, market.id, market.slug, 'no-such-market', '0', '999999999']);
    });
}

function allowed(
  { name, schema }: Parameter,
  known: Known,
  pick: <T>(values: readonly T[]) => T,
): string[] {
  if (schema?.enum !== undefined) return schema.enum.map(String);
  if (name === 'tag')
    return ['all', 'sports', 'esports', pick(known.tags), pick(known.tags).toUpperCase()];
  if (name === 'addresses')
    return [pick(known.traders), `${pick(known.traders)},${pick(known.traders)}`];
  if (schema?.type === 'boolean') return ['true', 'false'];
  if (name === 'from' || name === 'to')
    return [String(Math.floor(Date.now() / 86_400_000) * 86_400 - 604_800)];
  const most = Math.min(schema?.maximum ?? 50, 100);
  return [String(schema?.minimum ?? 1), String(most), '7'];
}

/** One path in every way that is not a plain GET with a valid key. */
function oddities(path: string): Call[] {
  return [
    ...['HEAD', 'OPTIONS', 'POST', 'PUT', 'DELETE', 'PATCH'].map((method) => ({ method, path })),
    { method: 'GET', path, key: 'none' },
    { method: 'GET', path, key: 'wrong' },
    { method: 'GET', path, revalidates: true },
    { method: 'GET', path, headers: { 'Accept-Encoding': 'gzip' } },
    { method: 'GET', path, headers: { 'Accept-Encoding': 'br' } },
    { method: 'GET', path, headers: { 'Accept-Encoding': 'identity' } },
    { method: 'GET', path, headers: { Accept: 'image/png' } },
    { method: 'GET', path, headers: { Origin: 'https://elsewhere.example' } },
    { method: 'GET', path: `${path}${path.includes('?') ? '&' : '?'}unknown=1` },
    { method: 'GET', path: `${path}/` },
  ];
}
