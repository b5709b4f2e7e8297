/**
 * From the mempool to a client, end to end: the whole service as a user starts it, and a listener of
 * the order feed beside a subscriber of the chain node's pending transactions. A latency is the time
 * between the node's word of a transaction's hash and the event of its match.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { start, temporaryDirectory } from '../../support/service.ts';
import { percentile, readable } from './report.ts';

const SECONDS = 30;
const MATCHES_PER_SECOND = 20;

export async function mempoolToClient() {
  const directory = temporaryDirectory();
  const service = start('infra/local/up.ts', [
    ...['--json', '--port', '0', '--data', directory.path, '--history-days', '1'],
    ...['--demo-rate', String(MATCHES_PER_SECOND)],
  ]);
  try {
    const ready = await service.event('ready');
    const pendingAtMs = new Map<string, number>();
    const node = await subscribe(String(ready.rpc_url).replace(/^http/, 'ws'), (hash) =>
      pendingAtMs.set(hash, performance.now()),
    );
    const latenciesMs: number[] = [];
    let early = 0;
    const leaving = new AbortController();
    const reading = read(String(ready.url), String(ready.key), leaving.signal, (hash) => {
      const sentAtMs = pendingAtMs.get(hash);
      if (sentAtMs === undefined) early += 1;
      else latenciesMs.push(performance.now() - sentAtMs);
    });
    await delay(SECONDS * 1_000);
    leaving.abort();
    await reading;
    node.close();
    return {
      'matches/s': MATCHES_PER_SECOND,
      matches: latenciesMs.length,
      'before the node announced it': early,
      'p50, ms': readable(percentile(latenciesMs, 0.5)),
      'p99, ms': readable(percentile(latenciesMs, 0.99)),
    };
  } finally {
    service.kill('SIGTERM');
    await service.exit;
    directory.remove();
  }
}

async function subscribe(url: string, onHash: (hash: string) => void): Promise<WebSocket> {
  const socket = new WebSocket(url);
  const subscribed = Promise.withResolvers<void>();
  socket.addEventListener('open', () => {
    const params = ['newPendingTransactions'];
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params }));
  });
  socket.addEventListener('message', ({ data }) => {
    const message = JSON.parse(String(data));
    if (message.id === 1) subscribed.resolve();
    else onHash(String(message.params?.result));
  });
  socket.addEventListener('error', () => subscribed.reject(new Error(`no socket at ${url}`)));
  await subscribed.promise;
  return socket;
}

async function read(
  url: string,
  key: string,
  signal: AbortSignal,
  onMatch: (hash: string) => void,
): Promise<void> {
  try {
    const headers = { 'X-Service-Key': key };
    const response = await fetch(`${url}/v1/stream/orders`, { headers, signal });
    let rest = '';
    for await (const text of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const blocks = (rest + text).split('\n\n');
      rest = blocks.pop() ?? '';
      for (const block of blocks) {
        const hash = /^data: \["(0x[0-9a-f]{64})"/m.exec(block)?.[1];
        if (hash !== undefined) onMatch(hash);
      }
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
