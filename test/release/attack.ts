/**
 * Attacks on a running api, and the latency of a well-behaved client meanwhile: random bad requests over
 * raw sockets, and connections that send their headers a byte at a time. Seeded, so that a run can be
 * repeated.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib';
import { generator } from '../support/seed.ts';

export type Target = {
  readonly host: string;
  readonly port: number;
  /** Valid keys, of different accounts, so that their rates do not end an attack early. */
  readonly keys: readonly [string, ...string[]];
  /** Texts that no response may contain, in addition to those of `LEAK`: passwords, our directories. */
  readonly secrets?: readonly string[];
};

export type Attack = {
  readonly seed: number;
  /** Number of bad requests by status. */
  readonly statuses: ReadonlyMap<number, number>;
  /** Beginnings of the requests without a response, which is a bug. */
  readonly unanswered: readonly string[];
  /** Responses with something that no client may see. */
  readonly leaks: readonly string[];
};

const ANSWER_MS_MAX = 30_000;
const REOPEN_MS = 50;
const BUSY_MS = 1_000;
const BUSY_TRIES = 10;
/** Stack traces, errors of libraries, our paths and our stores. */
const LEAK =
  /\bat .+\.(ts|js):\d|node_modules|ECONN|ClickHouse|DB::|Exception|SELECT |KV_|127\.0\.0\.1:\d|fs_(demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{32}/;

/** Sends bad requests, `parallel` at a time. */
export async function sendBadRequests(
  { host, port, keys, secrets = [] }: Target,
  options: { readonly count: number; readonly parallel: number; readonly seed: number },
): Promise<Attack> {
  const random = generator(options.seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const statuses = new Map<number, number>();
  const unanswered: string[] = [];
  const leaks: string[] = [];
  let left = options.count;
  async function worker(): Promise<void> {
    while (left > 0) {
      left -= 1;
      const request = badRequest(below, keys[below(keys.length)] ?? keys[0]);
      let status = 503;
      // A request that gets a 503 every time is a bug; otherwise its store was busy.
      for (let tries = 0; tries < BUSY_TRIES && status === 503; tries += 1) {
        if (tries > 0) await delay(BUSY_MS);
        const answer = await exchange(host, port, request);
        status = statusOf(answer);
        const leak = leakOf(answer, [...secrets, ...keys]);
        if (leak !== undefined) leaks.push(leak);
      }
      if (status === 0) unanswered.push(JSON.stringify(request.slice(0, 300)));
      else statuses.set(status, (statuses.get(status) ?? 0) + 1);
    }
  }
  await Promise.all(Array.from({ length: options.parallel }, worker));
  return { seed: options.seed, statuses, unanswered, leaks };
}

/**
 * Opens connections that send a byte of a head every so often; `open` is how many there are. With
 * `isKept`, another one is opened for each that the server closes, until `close`.
 */
export async function openSlowConnections(
  { host, port }: Target,
  options: { readonly count: number; readonly everyMs: number; readonly isKept?: boolean },
): Promise<{ readonly open: () => number; close(): void }> {
  const { count, everyMs, isKept = false } = options;
  /** Bytes that each has sent. */
  const sockets = new Map<Socket, number>();
  const head = `GET /v1/analytics/leaderboard HTTP/1.1\r\nHost: x\r\nX-Slow: ${'a'.repeat(4_000)}`;
  let isClosed = false;
  const add = () => {
    if (isClosed) return;
    const socket = connect(port, host);
    sockets.set(socket, 0);
    socket.on('error', () => undefined);
    // Read the socket; otherwise its end would not be noticed.
    socket.resume();
    socket.on('close', () => {
      sockets.delete(socket);
      if (isKept) setTimeout(add, REOPEN_MS);
    });
  };
  for (let n = 0; n < count; n += 1) {
    add();
    if (n % 100 === 99) await delay(10);
  }
  const timer = setInterval(() => {
    for (const [socket, sent] of sockets) {
      if (!socket.writable) continue;
      socket.write(head.charAt(sent % head.length));
      sockets.set(socket, sent + 1);
    }
  }, everyMs);
  return {
    open: () => [...sockets.keys()].filter((socket) => socket.writable).length,
    close() {
      isClosed = true;
      clearInterval(timer);
      for (const socket of sockets.keys()) socket.destroy();
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

/** One malformed request; most have a valid key, so that they get past authentication. */
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
    rarely(['Content-Length: -5', ''], `Content-Length: ${Buffer.byteLength(body, 'latin1')}`),
  ].filter((line) => line !== '' && !/[\r\n]/.test(line));
  const whole = `${method} ${path.replaceAll(/[\r\n]/g, '')} HTTP/1.1\r\n${headers.join('\r\n')}\r\n\r\n${body}`;
  return below(20) === 0 ? noise(1 + below(300)) : whole;
}

/** Sends, and reads to the end of the connection; closes an event stream after its headers. */
function exchange(host: string, port: number, request: string): Promise<Buffer> {
  return new Promise((done) => {
    const socket = connect(port, host);
    let answer: Buffer = Buffer.alloc(0);
    const timer = setTimeout(() => socket.destroy(), ANSWER_MS_MAX);
    // Do not end the socket: Node's server would treat the client as gone and not respond.
    socket.on('connect', () => socket.write(Buffer.from(request, 'latin1')));
    socket.on('data', (chunk) => {
      answer = Buffer.concat([answer, chunk]);
      if (/text\/event-stream[\s\S]*\r\n\r\n/.test(answer.toString('latin1'))) socket.destroy();
    });
    socket.on('error', () => undefined);
    socket.on('close', () => {
      clearTimeout(timer);
      done(answer);
    });
  });
}

function statusOf(answer: Buffer): number {
  return Number(/^HTTP\/1\.[01] (\d{3})/.exec(answer.toString('latin1', 0, 20))?.[1] ?? 0);
}

/**
 * What a response leaks, with its context. The response is decoded as by a client, so that neither chunks
 * nor compression hide a leak. Texts of the request do not count. The new key of a 201 is meant for the
 * client.
 */
export function leakOf(answer: Buffer, secrets: readonly string[]): string | undefined {
  const end = answer.indexOf('\r\n\r\n');
  const head = answer.toString('latin1', 0, end < 0 ? answer.length : end);
  const whole = `${head}\n${end < 0 ? '' : bodyOf(head, answer.subarray(end + 4))}`;
  const text = statusOf(answer) === 201 ? whole.replace(/"key": ?"fs_\w+"/, '') : whole;
  const at = [text.search(LEAK), ...secrets.map((one) => text.indexOf(one))].find(
    (one) => one >= 0,
  );
  return at === undefined ? undefined : text.slice(Math.max(0, at - 100), at + 400);
}

function bodyOf(head: string, bytes: Buffer): string {
  const body = /^transfer-encoding: *chunked/im.test(head) ? unchunked(bytes) : bytes;
  const [, coding = 'identity'] = /^content-encoding: *(\w+)/im.exec(head) ?? [];
  const decode = DECODERS[coding];
  if (decode === undefined) throw new Error(`the content coding ${coding} cannot be read`);
  return (body.length === 0 ? body : decode(body)).toString('utf8');
}

const DECODERS: Readonly<Record<string, (bytes: Buffer) => Buffer>> = {
  identity: (bytes) => bytes,
  br: brotliDecompressSync,
  deflate: inflateSync,
  gzip: gunzipSync,
};

function unchunked(bytes: Buffer): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; ) {
    const line = bytes.indexOf('\r\n', at);
    const length = Number.parseInt(bytes.toString('latin1', at, line), 16);
    if (line < 0 || !(length > 0)) break;
    chunks.push(bytes.subarray(line + 2, line + 2 + length));
    at = line + 2 + length + 2;
  }
  return Buffer.concat(chunks);
}
