/**
 * Catch-up over a history: ingest as a process on an empty LEDGER, beside a process that only
 * downloads the same blocks and logs. The clock of ingest runs from its first request for blocks, so
 * that the start of the process is not in the rate; it is reported separately.
 */
import { join } from 'node:path';
import { connectNats, type Nats } from '../../../infra/nats/connection.ts';
import { eventsOf, storedMessages } from '../../../ingest/ledger/ledger.ts';
import { startNatsServer } from '../../../local/nats-server.ts';
import { SMALL_YOUNG_SPACE } from '../../../local/service.ts';
import { type Devnet, start, temporaryDirectory } from '../../support/service.ts';
import { peakMiB } from './process-figures.ts';

export type CatchUp = {
  readonly blocks: number;
  readonly fills: number;
  readonly matches: number;
  /** From the first request for blocks to `caught_up`. */
  readonly seconds: number;
  readonly secondsFromStart: number;
  readonly memoryMiB: number;
};

/** One catch-up on a NATS of its own, with the options of Node that `npm start` gives. */
export async function catchUp({ env }: Devnet): Promise<CatchUp> {
  const directory = temporaryDirectory();
  const server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  const nats = await connectNats({ url: server.url, name: 'bench' });
  try {
    const startedAt = performance.now();
    const own = { NATS_URL: server.url, NODE_OPTIONS: SMALL_YOUNG_SPACE };
    const ingest = start('ingest/main.ts', [], { ...env, ...own });
    await ingest.event('following');
    const firstBlock = performance.now();
    await ingest.event('caught_up');
    const endedAt = performance.now();
    const memoryMiB = peakMiB(ingest.pid);
    await ingest.stop();
    return {
      ...(await countLedger(nats)),
      seconds: (endedAt - firstBlock) / 1_000,
      secondsFromStart: (endedAt - startedAt) / 1_000,
      memoryMiB,
    };
  } finally {
    await nats.close();
    await server.stop();
    directory.remove();
  }
}

/** Seconds and bytes of the same blocks in a process that only downloads. */
export async function download({ rpcUrl }: Devnet, blocks: number) {
  const loop = start('test/release/bench/download.ts', [rpcUrl, String(blocks)]);
  if ((await loop.exit) !== 0) throw new Error(loop.errors());
  const { ms, bytes } = loop.lines[0] as { ms: number; bytes: number };
  return { seconds: ms / 1_000, bytes };
}

async function countLedger(nats: Nats) {
  let [first, newest, fills, matches] = [-1, -1, 0, 0];
  for await (const { range } of storedMessages(nats, { sequence: 1 })) {
    if (range.kind !== 'blocks') continue;
    if (first < 0) first = range.from;
    newest = range.to;
    const all = eventsOf('matches', range.blocks);
    matches += all.length;
    fills += all.reduce((sum, match) => sum + match.fills.length, 0);
  }
  return { blocks: newest - first + 1, fills, matches };
}
