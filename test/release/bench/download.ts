/**
 * The baseline of a catch-up: a process that only downloads blocks with their transactions and the logs
 * that ingest requests, as many blocks at a time as ingest, and discards them. Arguments: URL, number of
 * blocks. Prints one JSON line.
 */
import { IngestConfig, readConfig } from '../../../infra/config.ts';
import { chainOf } from '../../../ingest/events/chains.ts';
import { finalLogFilter } from '../../../ingest/events/decode.ts';

const [url = '', blocks = '0'] = process.argv.slice(2);
const CONCURRENCY = 16;
const { addresses, topics } = finalLogFilter(
  chainOf(readConfig(IngestConfig, { CHAIN: 'devnet' })),
);

let next = 0;
let bytes = 0;
const startedAt = performance.now();
await Promise.all(Array.from({ length: CONCURRENCY }, worker));
console.log(JSON.stringify({ ms: performance.now() - startedAt, bytes }));

async function worker(): Promise<void> {
  while (next < Number(blocks)) {
    const block = `0x${next.toString(16)}`;
    next += 1;
    const range = { fromBlock: block, toBlock: block };
    const filter = { ...range, address: addresses, topics: [topics] };
    await Promise.all([
      download('eth_getBlockByNumber', [block, true]),
      download('eth_getLogs', [filter]),
    ]);
  }
}

async function download(method: string, params: readonly unknown[]): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
  });
  bytes += (await response.text()).length;
}
