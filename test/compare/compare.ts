/**
 * Holds this service against another version of it over one chain: `npm run compare -- --other DIR`, where DIR
 * is an installed checkout of the other version. Both follow the same seeded devnet. While it trades, their
 * event streams are recorded; when it rests, every projected figure is compared, then some thousand responses:
 * status, headers and body. Prints each difference once and exits with 1 if there is any.
 * Prose (`detail`, `message`, descriptions), request ids, times of detection and cursors are not compared.
 */
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { request } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { clickHousePassword, natsToken } from '../../infra/local/secret.ts';
import { type Call, type Document, type Known, requests } from './requests.ts';

const OWN = join(import.meta.dirname, '../..');
const IN_FLIGHT = 4;
const TRIES = 4;
/** What only one side sends in its first moments was sent by the other before it was received. */
const EDGE_MS = 3_000;

const { values } = parseArgs({
  options: {
    other: { type: 'string' },
    seed: { type: 'string', default: '7' },
    seconds: { type: 'string', default: '60' },
    matches: { type: 'string', default: '2000' },
    known: { type: 'string' },
  },
});
/** Differences that are meant, by their text: `header etag`. */
const known = values.known === undefined ? undefined : new RegExp(values.known);
const other = values.other;
if (other === undefined) {
  process.stderr.write(
    'usage: npm run compare -- --other DIR [--seed N] [--seconds N] [--matches N] [--known REGEXP]\n',
  );
  process.exit(2);
}

type Line = Readonly<Record<string, unknown>>;
type Ready = { url: string; key: string; clickhouse_url: string; nats_url: string };
type Keys = Readonly<Record<'pro' | 'demo' | 'individual', string>>;
type Side = {
  readonly name: string;
  readonly ready: Ready;
  readonly keys: Keys;
  /** With the user who may do everything. */
  readonly clickHouse: string;
};

/** Runs a program of a checkout with that checkout's own Node. */
function run(checkout: string, args: readonly string[], env: NodeJS.ProcessEnv) {
  const node = join(checkout, 'node_modules/.bin/node');
  const child = spawn(node, args, {
    cwd: checkout,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ready = Promise.withResolvers<Line>();
  createInterface({ input: child.stdout }).on('line', (text) => {
    if (!text.startsWith('{')) return;
    const line = JSON.parse(text) as Line;
    if (line.event === 'ready') ready.resolve(line);
  });
  child.once('exit', (code) => ready.reject(new Error(`${args[0]} ended with ${code}`)));
  return { child, ready: ready.promise };
}

function fileOf(checkout: string, ...names: readonly string[]): string {
  const name = names.find((one) => existsSync(join(checkout, one)));
  if (name === undefined) throw new Error(`${checkout} has none of ${names.join(', ')}`);
  return name;
}

function issueKey(checkout: string, env: NodeJS.ProcessEnv, tier: string): string {
  const args = [
    'run',
    '--silent',
    'keys',
    '--',
    'issue',
    '--tier',
    tier,
    '--account',
    `compare-${tier}`,
  ];
  const text = execFileSync('npm', [...args, '--label', 'compare'], {
    cwd: checkout,
    env: { ...process.env, ...env },
    encoding: 'utf8',
  });
  const key = /fs_\w+/.exec(text)?.[0];
  if (key === undefined) throw new Error(`no key in ${text}`);
  return key;
}

type Response = { status: number; headers: Record<string, string>; body: string };

/** node:http rather than fetch, which decompresses and hides headers. */
async function send(side: Side, call: Call, etag?: string): Promise<Response> {
  const headers: Record<string, string> = { ...call.headers };
  const key = call.key ?? 'pro';
  if (key === 'wrong') headers['X-Service-Key'] = 'fs_pro_wrong';
  else if (key !== 'none') headers['X-Service-Key'] = side.keys[key];
  if (etag !== undefined) headers['If-None-Match'] = etag;
  const sent = request(`${side.ready.url}${call.path}`, {
    method: call.method,
    headers,
    agent: false,
  });
  sent.end(call.body);
  const [response] = await once(sent, 'response');
  // An event stream never ends; its events are compared elsewhere.
  if (String(response.headers['content-type']).startsWith('text/event-stream')) {
    sent.destroy();
    return { status: response.statusCode, headers: response.headers, body: '(events)' };
  }
  const chunks: Buffer[] = [];
  for await (const chunk of response) chunks.push(chunk);
  const raw = Buffer.concat(chunks);
  const encoding = response.headers['content-encoding'];
  let body = raw;
  if (raw.length > 0 && encoding === 'gzip') body = gunzipSync(raw);
  if (raw.length > 0 && encoding === 'br') body = brotliDecompressSync(raw);
  const result = { status: response.statusCode, headers: response.headers, body: body.toString() };
  if (result.status === 429) {
    await delay(Number(result.headers['retry-after'] ?? 1) * 1_000);
    return send(side, call, etag);
  }
  return result;
}

/** Headers whose values differ from response to response on one server, too. */
const VOLATILE = new Set([
  'date',
  'x-request-id',
  'ratelimit',
  'content-length',
  'age',
  'retry-after',
]);
const PROSE = new Set([
  'detail',
  'message',
  'request_id',
  'description',
  'summary',
  'next_cursor',
  'title',
  'key',
]);

/** Ids of keys, streams and sessions, and times of their creation. */
const RANDOM =
  /^[0-9a-f]{16}$|^[0-9a-f]{8}(-[0-9a-f]{4}){3}-|^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z$/;

function canonical({ status, headers, body }: Response, call: Call): Record<string, unknown> {
  const shown = Object.entries(headers).map(([name, value]) => {
    if (VOLATILE.has(name)) return [name, '(any)'];
    // A cursor is opaque, an entity tag follows the bytes of prose too.
    if (name === 'link') return [name, String(value).replaceAll(/cursor=[^>&]*/g, 'cursor=(any)')];
    if (name === 'etag' && call.path.startsWith('/openapi')) return [name, '(any)'];
    return [name, value];
  });
  return { status, headers: Object.fromEntries(shown), body: canonicalBody(body, call) };
}

function canonicalBody(body: string, call: Call): unknown {
  if (call.path === '/' || call.path.startsWith('/docs')) return body === '' ? '' : '(page)';
  if (!/^[[{]/.test(body)) return body;
  // As text after masking, so that the order of fields counts.
  return JSON.stringify(
    JSON.parse(body, (key, value) =>
      typeof value === 'string' && (PROSE.has(key) || RANDOM.test(value)) ? '(any)' : value,
    ),
  );
}

/** Where two canonical responses differ, as `where: one ≠ other`; of the bodies the first place. */
function differences(one: Record<string, unknown>, two: Record<string, unknown>): string[] {
  if (one.status !== two.status) return [`status: ${one.status} ≠ ${two.status}`];
  const [a, b] = [one.headers as Record<string, unknown>, two.headers as Record<string, unknown>];
  const found = [...new Set([...Object.keys(a), ...Object.keys(b)])]
    .filter((name) => JSON.stringify(a[name]) !== JSON.stringify(b[name]))
    .map((name) => `header ${name}: ${JSON.stringify(a[name])} ≠ ${JSON.stringify(b[name])}`);
  if (one.body === two.body) return found;
  const [x, y] = [String(one.body), String(two.body)];
  let at = 0;
  while (x[at] === y[at]) at += 1;
  const around = (text: string) => text.slice(Math.max(0, at - 60), at + 60);
  return [...found, `body at ${at}: …${around(x)} ≠ …${around(y)}`];
}

async function compareResponses(sides: readonly [Side, Side], calls: readonly Call[]) {
  const found = new Map<string, { count: number; example: string }>();
  const statuses = new Map<number, number>();
  let next = 0;
  const worker = async () => {
    for (let call = calls[next++]; call !== undefined; call = calls[next++]) {
      let differing: readonly string[] = [];
      let status = 0;
      if (next % 500 === 0) process.stderr.write(`${next} of ${calls.length} requests\n`);
      // The clock moves between two requests; a real difference stays.
      for (let attempt = 0; attempt < TRIES; attempt++) {
        const [one, two] = await Promise.all(sides.map((side) => asked(side, call)));
        if (one === undefined || two === undefined) throw new Error('two sides');
        status = one.status;
        const all = differences(canonical(one, call), canonical(two, call));
        differing = all.filter((text) => known?.test(text) !== true);
        if (differing.length === 0) break;
        await delay(150 * (attempt + 1));
      }
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      for (const text of differing) {
        const kind = `${call.path.split('?')[0]?.replaceAll(/0[xX][0-9a-fA-F]{40}|\d+/g, '…')} ${text.split(':')[0]}`;
        const before = found.get(kind) ?? {
          count: 0,
          example: `${call.method} ${call.path} ${JSON.stringify(call.headers ?? {})} ${call.key ?? ''}\n    ${text}`,
        };
        found.set(kind, { ...before, count: before.count + 1 });
      }
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
  return { found, statuses };
}

async function asked(side: Side, call: Call): Promise<Response> {
  if (!call.revalidates) return send(side, call);
  const first = await send(side, call);
  return send(side, call, first.headers.etag);
}

/** Events of a stream until the signal aborts, as `event data` with what may differ masked. */
async function listen(side: Side, path: string, signal: AbortSignal, lastEventId?: string) {
  const startedAt = performance.now();
  const events: { id: string; text: string; isEarly: boolean }[] = [];
  const headers: Record<string, string> = { 'X-Service-Key': side.keys.pro };
  if (lastEventId !== undefined) headers['Last-Event-ID'] = lastEventId;
  const response = await fetch(`${side.ready.url}${path}`, { headers, signal });
  const shown = JSON.stringify([...response.headers].filter(([name]) => !VOLATILE.has(name)));
  const reading = (async () => {
    let text = '';
    const decoder = new TextDecoder();
    for await (const chunk of response.body ?? []) {
      text += decoder.decode(chunk, { stream: true });
      const blocks = text.split('\n\n');
      text = blocks.pop() ?? '';
      for (const block of blocks) {
        const id = /^id: (.*)$/m.exec(block)?.[1] ?? '';
        const masked = block
          .replace(/^id: .*\n?/m, '')
          .replaceAll(/\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\.\d{3}Z/g, '(time)');
        if (/^(data|event):/m.test(masked))
          events.push({ id, text: masked, isEarly: performance.now() - startedAt < EDGE_MS });
      }
    }
  })().catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
  return { headers: shown, status: response.status, events, reading };
}

/** Creates a managed stream and returns its path. */
async function createStream(side: Side): Promise<string> {
  const body = JSON.stringify({ name: 'compare', tags: ['crypto', 'sports', 'politics'] });
  const headers = { 'Content-Type': 'application/json' };
  const created = await send(side, { method: 'POST', path: '/streams', headers, body });
  return `/streams/${(JSON.parse(created.body) as { id: string }).id}`;
}

/** Tables whose rows must be the same on both sides; columns of bookkeeping are left out. */
const TABLES = {
  bookings:
    'kind, block_number, block_time, log_index, event_log_index, tx_hash, condition_id, trader, order_hash, is_taker, side, outcome_index, token_id, shares, usdc, fee, realised_pnl, realised_cost, position_outcome, position_shares, position_cost, position_fees, leg',
  trader_hours: '*',
  trader_markets:
    'trader, condition_id, realised_pnl, realised_cost, fee, maker_volume, taker_volume, fills, settlements, last_trade_at',
  market_traders:
    'condition_id, trader, realised_pnl, realised_cost, fee, maker_volume, taker_volume, fills, settlements, last_trade_at',
  resolutions: 'condition_id, payout_0, payout_1',
};

async function figures({ clickHouse }: Side, table: string, columns: string): Promise<string> {
  const final = table === 'bookings' ? '' : ' FINAL';
  const sql = `SELECT count(), sum(cityHash64(*)) FROM (SELECT ${columns} FROM fillstream.${table}${final})`;
  const response = await fetch(clickHouse, { method: 'POST', body: sql });
  const text = await response.text();
  if (!response.ok) throw new Error(`${table}: ${text}`);
  return text.trim();
}

async function main(otherCheckout: string): Promise<number> {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-compare-'));
  const print = (line: string) => process.stdout.write(`${line}\n`);
  const started: ReturnType<typeof run>[] = [];
  let differences = 0;
  try {
    const devnet = run(
      OWN,
      [
        fileOf(OWN, 'infra/local/devnet/main.ts', 'infra/devnet/main.ts'),
        ...['--data', `${directory}/devnet`, '--seed', values.seed, '--history-days', '20'],
        ...['--history-matches', values.matches, '--demo-rate', '10'],
      ],
      {},
    );
    started.push(devnet);
    const chain = await devnet.ready;
    const env = {
      RPC_URL: String(chain.rpc_url),
      GAMMA_URL: String(chain.gamma_url),
      CHAIN: 'devnet',
    };
    const open = async (name: string, checkout: string): Promise<Side> => {
      const up = fileOf(checkout, 'infra/local/up.ts', 'infra/up.ts');
      const service = run(
        checkout,
        [up, '--json', '--port', '0', '--data', `${directory}/${name}`],
        env,
      );
      started.push(service);
      const ready = (await service.ready) as unknown as Ready;
      const data = `${directory}/${name}`;
      // Version 0.1 has no secrets.
      const isOpen = !existsSync(`${data}/nats/token`);
      const token = isOpen ? {} : { NATS_TOKEN: natsToken(`${data}/nats`) };
      const user = isOpen
        ? { user: 'default' }
        : { user: 'service', password: clickHousePassword(`${data}/clickhouse`) };
      const access = { NATS_URL: ready.nats_url, ...token };
      const key = (tier: string) => issueKey(checkout, access, tier);
      return {
        name,
        ready,
        clickHouse: new URL(`?${new URLSearchParams(user)}`, ready.clickhouse_url).href,
        keys: { pro: key('pro'), demo: key('demo'), individual: key('individual') },
      };
    };
    const sides = [await open('other', otherCheckout), await open('own', OWN)] as const;
    const [one, two] = sides;
    print(`both ready: ${one.ready.url} (other), ${two.ready.url} (own)`);

    // Events, while the devnet trades.
    const paths = [
      '/v1/stream/orders',
      '/v1/stream/orders?format=json',
      '/v1/stream/orders?format=json&min_usdc=20&tags=crypto,sports',
    ];
    const stop = new AbortController();
    const managed = await Promise.all(sides.map(createStream));
    const received = await Promise.all([
      ...paths.map((path) => Promise.all(sides.map((side) => listen(side, path, stop.signal)))),
      Promise.all(sides.map((side, i) => listen(side, managed[i] ?? '', stop.signal))),
    ]);
    paths.push('a managed stream');
    await delay(Number(values.seconds) * 1_000);
    devnet.child.kill('SIGUSR2');
    // Voids may still come; the last match is final within a few blocks.
    await delay(15_000);
    stop.abort();
    for (const [index, listeners] of received.entries()) {
      await Promise.all(listeners.map(({ reading }) => reading));
      const [a, b] = listeners;
      if (a === undefined || b === undefined) continue;
      const early = new Set(
        [...a.events, ...b.events].filter(({ isEarly }) => isEarly).map(({ text }) => text),
      );
      const [x, y] = [a.events, b.events].map((events) =>
        events
          .map(({ text }) => text)
          .filter((text) => !early.has(text))
          .toSorted(),
      );
      const isSame = JSON.stringify(x) === JSON.stringify(y) && a.headers === b.headers;
      print(
        `${paths[index]}: ${x?.length} and ${y?.length} events, ${isSame ? 'the same' : 'DIFFERENT'}`,
      );
      if (isSame) continue;
      differences += 1;
      if (a.headers !== b.headers) print(`    ${a.headers}\n    ${b.headers}`);
      print(
        `    only other: ${x
          ?.filter((text) => !y?.includes(text))
          .slice(0, 2)
          .join('\n')}`,
      );
      print(
        `    only own: ${y
          ?.filter((text) => !x?.includes(text))
          .slice(0, 2)
          .join('\n')}`,
      );
    }
    // Each side resumes behind its own first event and must send the rest again.
    for (const side of [0, 1] as const) {
      const first = received[1]?.[side];
      if (first === undefined || first.events.length < 2) continue;
      const again = new AbortController();
      const rest = await listen(sides[side], paths[1] ?? '', again.signal, first.events[0]?.id);
      for (let i = 0; i < 100 && rest.events.length < first.events.length - 1; i++)
        await delay(100);
      again.abort();
      await rest.reading;
      const isSame =
        JSON.stringify(rest.events.map(({ id }) => id)) ===
        JSON.stringify(first.events.slice(1).map(({ id }) => id));
      print(
        `resumed on ${sides[side].name}: ${rest.events.length} events, ${isSame ? 'the same' : 'DIFFERENT'}`,
      );
      if (!isSame) differences += 1;
    }

    // Figures, when both have projected the whole chain.
    for (const [table, columns] of Object.entries(TABLES)) {
      let found: readonly string[] = [];
      for (let i = 0; i < 60; i++) {
        found = await Promise.all(sides.map((side) => figures(side, table, columns)));
        if (found[0] === found[1]) break;
        await delay(500);
      }
      print(
        `${table}: ${found[0] === found[1] ? `${found[0]?.split('\t')[0]} rows, the same` : `DIFFERENT ${found.join(' ≠ ')}`}`,
      );
      if (found[0] !== found[1]) differences += 1;
    }

    // Responses. Boards of the longer windows are refreshed every few minutes: refresh them now.
    for (const { clickHouse } of sides) {
      for (const frame of ['1h', '4h', '1d', '3d', '7d', '30d']) {
        for (const verb of ['REFRESH', 'WAIT']) {
          await fetch(clickHouse, {
            method: 'POST',
            body: `SYSTEM ${verb} VIEW fillstream.leaderboard_${frame}_mv`,
          });
        }
      }
    }
    await delay(6_000);
    const json = async <T>(path: string): Promise<T> =>
      JSON.parse((await send(two, { method: 'GET', path })).body) as T;
    const document = await json<Document>('/openapi.json');
    const known = await knownOf(json);
    const calls = requests(document, known, Number(values.seed));
    const { found, statuses } = await compareResponses(sides, calls);
    print(
      `${calls.length} requests: ${[...statuses]
        .toSorted()
        .map(([status, count]) => `${count} × ${status}`)
        .join(', ')}`,
    );
    for (const [kind, { count, example }] of found)
      print(`DIFFERENT ${count} × ${kind}\n    ${example}`);
    differences += found.size;
    print(differences === 0 ? 'No difference.' : `${differences} kinds of difference.`);
  } finally {
    for (const { child } of started.toReversed()) {
      if (child.exitCode !== null) continue;
      child.kill('SIGTERM');
      await once(child, 'exit');
    }
    rmSync(directory, { recursive: true, force: true });
  }
  return differences === 0 ? 0 : 1;
}

async function knownOf(json: <T>(path: string) => Promise<T>): Promise<Known> {
  type Board = { traders: { profile: { address: string } }[] };
  type Markets = { markets: { market: { id: number; slug: string; tags?: string[] } }[] };
  const board = await json<Record<string, unknown>>(
    '/v2/analytics/leaderboard?time_frame=30D&limit=100',
  );
  const list = Object.values(board).find(Array.isArray) as Board['traders'];
  const traders = list.map((entry) => entry.profile.address).slice(0, 40);
  const markets = new Map<string, string>();
  const tags = new Set<string>();
  for (const trader of traders.slice(0, 15)) {
    const page = await json<Record<string, unknown>>(`/v2/traders/${trader}/markets?limit=50`);
    for (const entry of Object.values(page).find(Array.isArray) as Markets['markets']) {
      const market = entry.market ?? entry;
      markets.set(String(market.id), market.slug);
      for (const tag of market.tags ?? []) tags.add(tag);
    }
  }
  return {
    traders,
    markets: [...markets].slice(0, 60).map(([id, slug]) => ({ id, slug })),
    tags: tags.size === 0 ? ['crypto'] : [...tags],
  };
}

process.exitCode = await main(other);
