/**
 * Catch-up over a history: ingest as a process on an empty LEDGER, beside a process that only
 * downloads the same blocks and logs. The clock of ingest runs from its first block in LEDGER, so
 * that the start of the process is not in the rate; it is told apart.
 */
import { join } from 'node:path';
import { startNatsServer } from '../../infra/local/nats-server.ts';
import { SMALL_YOUNG_SPACE } from '../../infra/local/service.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { lastMessage, storedSince } from '../../infra/nats/read.ts';
import { BLOCK_SUBJECT, decodeLedgerEvent, LEDGER_STREAM } from '../../ingest/contract.ts';
import { start, temporaryDirectory } from '../e2e/service.ts';
import { residentBytesMax } from '../faults/stage.ts';
import type { History } from './history.ts';

/** Blocks read at a time by the bare loop, as by ingest. */
const CONCURRENCY = 16;

export type CatchUp = {
  readonly blocks: number;
  readonly fills: number;
  readonly matches: number;
  /** From the first block in LEDGER to `caught_up`. */
  readonly seconds: number;
  readonly secondsFromStart: number;
  readonly residentBytesMax: number;
};

/** One catch-up on a NATS of its own, with the options of Node that `npm start` gives, or others. */
export async function catchUp(history: History, options = SMALL_YOUNG_SPACE): Promise<CatchUp> {
  const directory = temporaryDirectory();
  const server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  const nats = await connectNats({ url: server.url, name: 'bench' });
  try {
    const { promise: firstBlock, resolve } = Promise.withResolvers<number>();
    nats.connection.subscribe(BLOCK_SUBJECT, {
      callback: () => resolve(performance.now()),
      max: 1,
    });
    const startedAt = performance.now();
    const env = { ...history.env, NATS_URL: server.url, NODE_OPTIONS: options };
    const ingest = start('ingest/main.ts', [], env);
    await ingest.event('caught_up');
    const endedAt = performance.now();
    const memory = residentBytesMax(ingest.pid);
    await ingest.stop();
    return {
      ...(await countLedger(nats)),
      seconds: (endedAt - (await firstBlock)) / 1_000,
      secondsFromStart: (endedAt - startedAt) / 1_000,
      residentBytesMax: memory,
    };
  } finally {
    await nats.close();
    await server.stop();
    directory.remove();
  }
}

export type Download = { readonly seconds: number; readonly bytes: number };

/** The same blocks by a process that only downloads; with `parse` it reads the JSON too. */
export async function download(
  history: History,
  blocks: number,
  mode: 'bytes' | 'parse',
): Promise<Download> {
  const { rpcUrl } = history;
  const args = [rpcUrl, '0', String(blocks - 1), String(CONCURRENCY), mode];
  const loop = start('test/bench/download.ts', args);
  if ((await loop.exit) !== 0) throw new Error(loop.errors());
  const { ms, bytes } = loop.lines[0] as { ms: number; bytes: number };
  return { seconds: ms / 1_000, bytes };
}

async function countLedger(nats: Nats) {
  const last = await lastMessage(nats, LEDGER_STREAM, BLOCK_SUBJECT);
  let [first, newest, fills, matches] = [-1, -1, 0, 0];
  for await (const message of storedSince(nats, LEDGER_STREAM, { sequence: 1 })) {
    if (message.sequence > (last?.sequence ?? 0)) break;
    if (message.subject !== BLOCK_SUBJECT) continue;
    const event = decodeLedgerEvent(message.data);
    if (event.kind !== 'block') continue;
    if (first < 0) first = event.blockNumber;
    newest = event.blockNumber;
    fills += event.fills;
    matches += event.matches;
  }
  // Empty blocks may have no marker of their own.
  return { blocks: newest - first + 1, fills, matches };
}
