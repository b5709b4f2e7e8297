/**
 * A load generator over HTTP/1.1 that costs as little as possible: keep-alive connections with one
 * request at a time, whose bytes are prepared. Responses are read to the end, but only their status and
 * length are parsed. Also starts the api under load, with its keys.
 */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { generateKey, KEYS_BUCKET, storeKey } from '../../../api/auth/keys.ts';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { openKv } from '../../../infra/nats/kv.ts';
import { API_FLAGS } from '../../../local/service.ts';
import { start } from '../../support/service.ts';
import type { Parts } from '../../support/stack.ts';
import { median, percentile } from './report.ts';

/** An account has 100 requests a second, so this many together are no limit here. */
const KEYS = 1_000;

/** Keys of the tier pro, each of a separate account. */
export async function issueKeys(nats: Nats, count: number): Promise<readonly string[]> {
  const bucket = await openKv(nats, KEYS_BUCKET);
  const keys = Array.from({ length: count }, () => generateKey('pro'));
  const created_at = new Date().toISOString();
  for (const [n, key] of keys.entries()) {
    await storeKey(bucket, key, { label: 'bench', tier: 'pro', account: `bench-${n}`, created_at });
  }
  return keys;
}

/** The api, or that of another checkout, and headers with a key for the i-th request. */
export async function startApi(
  { env }: Parts,
  more: { readonly module?: string; readonly env?: Readonly<Record<string, string>> } = {},
) {
  const nats = await connectNats({ url: env.NATS_URL, name: 'bench' });
  const keys = await issueKeys(nats, KEYS);
  await nats.close();
  // A log line for each request would be read and parsed by the load generator.
  const own = { HTTP_CONNECTIONS_PER_ADDRESS_MAX: '1000', LOG_LEVEL: 'warn' };
  const { module = 'api/main.ts' } = more;
  const api = start(module, [], { ...env, ...own, ...more.env }, API_FLAGS);
  const port = Number((await api.event('listening')).port);
  const headers = (i: number) => ({ 'X-Service-Key': keys[i % keys.length] ?? '' });
  return { port, pid: api.pid, headers, stop: () => api.stop() };
}

export type Load = {
  /** Requests per second, and median and 99th percentile of the latency in milliseconds. */
  readonly perSecond: number;
  readonly p50: number;
  readonly p99: number;
};

/** Sends `request(i)`, i counting from 0, over so many connections for so long. Throws on any status but 200. */
export async function load(options: {
  readonly port: number;
  readonly connections: number;
  readonly seconds: number;
  readonly request: (i: number) => string;
}): Promise<Load> {
  const { connections, port, request, seconds } = options;
  const latencies: number[] = [];
  let sent = 0;
  const startedAt = performance.now();
  const endAt = startedAt + seconds * 1_000;
  await Promise.all(
    Array.from({ length: connections }, async () => {
      const socket = connect({ host: '127.0.0.1', port, noDelay: true });
      await once(socket, 'connect');
      const answers = readAnswers(socket);
      while (performance.now() < endAt) {
        const sentAt = performance.now();
        socket.write(request(sent++));
        const status = await answers.next();
        latencies.push(performance.now() - sentAt);
        if (status !== 200) throw new Error(`${request(sent - 1)}: ${status}`);
      }
      socket.destroy();
    }),
  );
  const perSecond = (latencies.length / (performance.now() - startedAt)) * 1_000;
  return { perSecond, p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) };
}

/** The load with the median rate. Throws RangeError if there is none. */
export function medianOf(loads: readonly Load[]): Load {
  const middle = median(loads.map((one) => one.perSecond));
  const found = loads.find((one) => one.perSecond === middle);
  if (found === undefined) throw new RangeError('no rounds');
  return found;
}

/** Text of a GET request. */
export function getRequest(path: string, headers: Readonly<Record<string, string>>): string {
  const fields = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${fields.join('')}\r\n`;
}

/** Reports the status of each response when its last byte was read. */
function readAnswers(socket: Socket): { next: () => Promise<number> } {
  let text = '';
  let wake: ((status: number) => void) | undefined;
  let fail: ((error: Error) => void) | undefined;
  socket.setEncoding('latin1');
  socket.on('data', (chunk: string) => {
    text += chunk;
    const end = endOf(text);
    if (end === undefined) return;
    const status = Number(text.slice(9, 12));
    text = text.slice(end);
    wake?.(status);
  });
  socket.on('error', (error) => fail?.(error));
  socket.on('close', () => fail?.(new Error('the server closed the connection')));
  return {
    next: () =>
      new Promise((resolve, reject) => {
        wake = resolve;
        fail = reject;
      }),
  };
}

/** End of the first response in the text; undefined while it is incomplete. */
function endOf(text: string): number | undefined {
  const headEnd = text.indexOf('\r\n\r\n');
  if (headEnd < 0) return undefined;
  const head = text.slice(0, headEnd);
  const length = /\r\ncontent-length: (\d+)/i.exec(head)?.[1];
  if (length !== undefined) {
    const end = headEnd + 4 + Number(length);
    return text.length >= end ? end : undefined;
  }
  // Chunked. No response here contains the bytes of the last chunk in its text.
  const last = text.indexOf('\r\n0\r\n\r\n', headEnd);
  return last < 0 ? undefined : last + 7;
}
