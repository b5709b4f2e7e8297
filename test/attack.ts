/**
 * Attacks on a running api, and what a well-behaved client feels meanwhile: random bad requests over raw
 * sockets, and connections that send their heads a byte at a time. Seeded, so that a run can be repeated.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { random } from './support/ledger-generator.ts';

export type Target = {
  readonly host: string;
  readonly port: number;
  /** Valid keys, of different accounts, so that their rates do not end an attack early. */
  readonly keys: readonly [string, ...string[]];
};

export type Attack = {
  readonly seed: number;
  /** How many bad requests had this status; 0 = the connection was closed without an answer. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Answers that held what no client may see. */
  readonly leaks: readonly string[];
};

const ANSWER_MS_MAX = 30_000;
/** Of stacks, foreign errors, our paths and our stores. */
const LEAK =
  /\bat .+\.(ts|js):\d|node_modules|ECONN|ClickHouse|DB::|Exception|SELECT |KV_|127\.0\.0\.1:\d|fs_(demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{32}/;

/** Sends bad requests, `parallel` at a time. */
export async function sendBadRequests(
  { host, port, keys }: Target,
  options: { readonly count: number; readonly parallel: number; readonly seed: number },
): Promise<Attack> {
  const generator = random(options.seed);
  const below = (limit: number) => Math.floor(generator() * limit);
  const statuses = new Map<number, number>();
  const leaks: string[] = [];
  let left = options.count;
  async function worker(): Promise<void> {
    while (left > 0) {
      left -= 1;
      const request = badRequest(below, keys[below(keys.length)] ?? keys[0]);
      const answer = await exchange(host, port, request);
      const status = Number(/^HTTP\/1\.[01] (\d{3})/.exec(answer)?.[1] ?? 0);
      statuses.set(status, (statuses.get(status) ?? 0) + 1);
      // What the client sent itself is no leak, nor is the key that a lucky POST made.
      if (status !== 201 && LEAK.test(withoutEcho(answer, request)))
        leaks.push(answer.slice(0, 500));
    }
  }
  await Promise.all(Array.from({ length: options.parallel }, worker));
  return { seed: options.seed, statuses, leaks };
}

/** Opens connections that send a byte of a head every so often; `open` tells how many are left. */
export async function openSlowConnections(
  { host, port }: Target,
  options: { readonly count: number; readonly everyMs: number },
): Promise<{ readonly open: () => number; close(): void }> {
  const sockets: Socket[] = [];
  const head = `GET /v1/analytics/leaderboard HTTP/1.1\r\nHost: x\r\nX-Slow: ${'a'.repeat(4_000)}`;
  for (let n = 0; n < options.count; n += 1) {
    const socket = connect(port, host);
    socket.on('error', () => undefined);
    sockets.push(socket);
    if (n % 100 === 99) await delay(10);
  }
  let at = 0;
  const timer = setInterval(() => {
    const byte = head.charAt(at % head.length);
    at += 1;
    for (const socket of sockets) if (socket.writable) socket.write(byte);
  }, options.everyMs);
  return {
    open: () => sockets.filter((socket) => socket.writable).length,
    close() {
      clearInterval(timer);
      for (const socket of sockets) socket.destroy();
    },
  };
}

/** Milliseconds that each of these good requests took, one after the other. Throws on any but 200. */
export async function goodRequests(
  { host, port, keys: [key] }: Target,
  options: { readonly forMs: number; readonly everyMs: number },
): Promise<readonly number[]> {
  const times: number[] = [];
  const endsAt = performance.now() + options.forMs;
  while (performance.now() < endsAt) {
    const startedAt = performance.now();
    const response = await fetch(`http://${host}:${port}/v1/analytics/leaderboard?limit=20`, {
      headers: { 'X-Service-Key': key },
    });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`a good request was answered ${response.status}`);
    times.push(performance.now() - startedAt);
    await delay(options.everyMs);
  }
  return times;
}

type Below = (limit: number) => number;

/** One request with something wrong in it; most have a valid key, so that they get far. */
function badRequest(below: Below, key: string): string {
  const pick = <T>(values: readonly [T, ...T[]]): T => values[below(values.length)] ?? values[0];
  const noise = (length: number) =>
    Array.from({ length }, () => String.fromCharCode(1 + below(255))).join('');
  const word = () =>
    pick([
      ...(["'", "' OR 1=1 --", '%00', '%E0%A4%A', '../../etc/passwd', '{}', '__proto__'] as const),
      ...(['9'.repeat(400), '-1', '1e309', 'NaN', '\u202e', `0x${'f'.repeat(40)}`, ''] as const),
      encodeURIComponent(noise(1 + below(30))),
    ]);
  const path = pick([
    `/v1/traders/${word()}`,
    `/v1/traders/0x${'1'.repeat(40)}/markets?limit=${word()}&offset=${word()}`,
    `/v1/markets/${word()}`,
    `/v1/analytics/leaderboard?limit=${word()}&tag=${word()}&sort_by=${word()}&min_roi=${word()}`,
    `/v2/traders/${word()}/hourly_stats?from=${word()}&tag=${word()}`,
    `/v2/user/keys/${word()}`,
    `/streams/${word()}`,
    `/v1/stream/orders?min_usdc=${word()}&traders=${word()}&lastEventId=${word()}`,
    `/${word()}/${word()}?${word()}=${word()}`,
    `/v1/analytics/leaderboard?${'a=1&'.repeat(below(2_000))}`,
  ]);
  const method = pick(['GET', 'GET', 'GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'BREW']);
  const body = pick([
    ...(['', '{', '[]', 'null', '{"label":{"a":1}}', '{"__proto__":{"a":1}}'] as const),
    ...(['{"expires_at":"never"}', noise(200), '"'.repeat(2_000)] as const),
    `{"addresses":["${word()}"],"name":"${'x'.repeat(below(200))}"}`,
  ]);
  // Each oddity is rare, so that most requests get past the parser with one thing wrong.
  const rarely = (lines: readonly [string, ...string[]], usual: string) =>
    below(8) === 0 ? pick(lines) : usual;
  const headers = [
    rarely(['Host: ', 'Host: a b', `Host: ${noise(8)}`], 'Host: localhost'),
    rarely([...(['', 'fs_pro_x', `fs_pro_${'2'.repeat(43)}`] as const), noise(40)], key).replace(
      /^/,
      'X-Service-Key: ',
    ),
    'Connection: close',
    rarely(['', 'Content-Type: text/html'], 'Content-Type: application/json'),
    rarely(['Accept: text/csv', 'X-Request-Id: a"b', `X-Big: ${'b'.repeat(20_000)}`], ''),
    rarely(['If-None-Match: *', 'Accept-Encoding: br;q=x', 'Last-Event-ID: x'], ''),
    rarely(['Transfer-Encoding: chunked', 'Content-Encoding: gzip', 'Expect: x'], ''),
    rarely(['Content-Length: -5', ''], `Content-Length: ${Buffer.byteLength(body)}`),
  ].filter((line) => line !== '' && !/[\r\n]/.test(line));
  const whole = `${method} ${path.replaceAll(/[\r\n]/g, '')} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${body}`;
  return below(20) === 0 ? noise(1 + below(300)) : whole;
}

/** Sends and reads to the end of the connection; an event stream is left after its head. */
function exchange(host: string, port: number, request: string): Promise<string> {
  return new Promise((done) => {
    const socket = connect(port, host);
    let answer = '';
    const timer = setTimeout(() => socket.destroy(), ANSWER_MS_MAX);
    socket.on('connect', () => socket.end(Buffer.from(request, 'latin1')));
    socket.on('data', (chunk) => {
      answer += chunk.toString('latin1');
      if (/\r\n\r\n/.test(answer) && answer.includes('text/event-stream')) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      done(answer);
    });
  });
}

function withoutEcho(answer: string, request: string): string {
  const words = request.match(/[^\s&=?/"]{6,}/g) ?? [];
  return words.reduce((text, word) => text.replaceAll(word, ''), answer);
}
