/**
 * The limit of a catch-up: a process that only downloads blocks with their transactions and the logs
 * that ingest asks for, so many blocks at a time, and throws them away; with `parse` it reads the
 * JSON as well. Arguments: URL, first and last block, concurrency, `bytes` or `parse`. Prints
 * one JSON line.
 */
import {
  CONDITIONAL_TOKENS,
  EXCHANGE,
  NEG_RISK_EXCHANGE,
} from '../../../infra/local/devnet/contracts.ts';
import { WATCHED_TOPICS } from '../../../ingest/decode.ts';

const [url = '', first = '0', last = '0', concurrency = '16', mode = 'bytes'] =
  process.argv.slice(2);
const ADDRESSES = [EXCHANGE, NEG_RISK_EXCHANGE, CONDITIONAL_TOKENS];

let next = Number(first);
let bytes = 0;
const startedAt = performance.now();
await Promise.all(Array.from({ length: Number(concurrency) }, worker));
console.log(JSON.stringify({ ms: performance.now() - startedAt, bytes }));

async function worker(): Promise<void> {
  while (next <= Number(last)) {
    const number = `0x${next.toString(16)}`;
    next += 1;
    const filter = {
      fromBlock: number,
      toBlock: number,
      address: ADDRESSES,
      topics: [WATCHED_TOPICS],
    };
    await Promise.all([
      download('eth_getBlockByNumber', [number, true]),
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
  const body = await response.text();
  bytes += body.length;
  if (mode === 'parse') JSON.parse(body);
}
