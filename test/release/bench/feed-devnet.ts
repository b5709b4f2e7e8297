/**
 * From the mempool to a client, end to end: the whole service as a user starts it, and a listener of
 * the order feed beside a subscriber of the chain node's pending transactions. A latency is the time
 * between the node's push of a transaction's hash and the event of its match.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { createPublicClient, webSocket } from 'viem';
import { Fillstream } from '../../../apps/client/index.ts';
import { startService, temporaryDirectory } from '../../support/service.ts';
import { percentile, readable } from './report.ts';

const MATCHES_PER_SECOND = 20;

export async function mempoolToClient(seconds: number) {
  const directory = temporaryDirectory();
  const args = ['--history-days', '1', '--demo-rate', String(MATCHES_PER_SECOND)];
  const service = await startService(directory.path, { args });
  try {
    const { url, key, rpc_url } = service.ready;
    const pendingAtMs = new Map<string, number>();
    const node = createPublicClient({ transport: webSocket(rpc_url.replace(/^http/, 'ws')) });
    const unwatch = node.watchPendingTransactions({
      onTransactions: (hashes) => {
        for (const hash of hashes) pendingAtMs.set(hash, performance.now());
      },
    });
    const latenciesMs: number[] = [];
    let early = 0;
    const leaving = new AbortController();
    const feed = new Fillstream({ url, key }).feed({}, { signal: leaving.signal });
    const reading = (async () => {
      for await (const event of feed) {
        if (event.type !== 'order') continue;
        const sentAtMs = pendingAtMs.get(event.data.tx_hash);
        if (sentAtMs === undefined) early += 1;
        else latenciesMs.push(performance.now() - sentAtMs);
      }
    })();
    await delay(seconds * 1_000);
    leaving.abort();
    await reading;
    unwatch();
    return {
      ...{ 'matches/s': MATCHES_PER_SECOND, matches: latenciesMs.length },
      'before the node announced it': early,
      'p50, ms': readable(percentile(latenciesMs, 0.5)),
      'p99, ms': readable(percentile(latenciesMs, 0.99)),
    };
  } finally {
    await service.up.stop();
    directory.remove();
  }
}
