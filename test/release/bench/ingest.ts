/**
 * `npm run bench:ingest`: decoding, publishing, catch-up and latency of ingest, each beside a named
 * limit; the figures of docs/benchmarks/ingest.md come from here. Arguments choose parts (decode publish
 * catch-up latency positions; all without), ROUNDS the number of repetitions (3): a figure is the
 * median.
 */
import { join } from 'node:path';
import { startNatsServer } from '../../../infra/local/nats-server.ts';
import { SMALL_YOUNG_SPACE } from '../../../infra/local/service.ts';
import { connectNats } from '../../../infra/nats/connection.ts';
import { temporaryDirectory } from '../../support/service.ts';
import { type CatchUp, catchUp, download } from './catch-up.ts';
import { decodeBlocks, decodeCalls } from './decode.ts';
import { openHistory } from './history.ts';
import { type Latency, latencies, latencyOfDevnet, latencyOfPositions } from './latency.ts';
import { streamRates } from './publish.ts';
import { machine, median, printTable, readable } from './report.ts';

const ROUNDS = Number(process.env.ROUNDS || 3);
const DECODED = 100_000;
const PUBLISHED = 20_000;
/** About 2.9 fills a match: a little over 100,000 fills. */
const CATCH_UP_MATCHES = 36_000;
const LATENCY_MATCHES = 400;
const LATENCY_RATES = [50, 500];
const ANVIL_RATE = 50;
const LATENCY_SECONDS = 20;
const POSITIONS_RATE = 5;
const POSITIONS_SECONDS = 60;
const MEGABYTE = 1_048_576;

const PARTS = { decode, publish, 'catch-up': catchUpRates, latency, positions };
const wanted = process.argv.slice(2);
console.log(`Machine: ${machine()}; median of ${ROUNDS} rounds.`);
for (const [name, run] of Object.entries(PARTS)) {
  if (wanted.length === 0 || wanted.includes(name)) await run();
}

function decode(): void {
  const parts = [
    { what: 'logs of blocks, twenty matches each', run: decodeBlocks },
    { what: 'calldata of matchOrders with one maker', run: decodeCalls },
  ];
  const rows = parts.map(({ what, run }) => {
    run(DECODED / 10, 'warm');
    const results = Array.from({ length: ROUNDS }, (_, i) => run(DECODED, `round ${i}`));
    const each = (pick: (one: (typeof results)[number]) => number) =>
      readable(median(results.map(pick)));
    return {
      what,
      decoded: DECODED,
      'fills/s': each(({ fills, ms }) => (fills / ms) * 1_000),
      'µs a fill': each(({ fills, ms }) => (ms / fills) * 1_000),
      'µs a log or call': each(({ items, ms }) => (ms / items) * 1_000),
    };
  });
  printTable('Decoding', rows);
}

async function publish(): Promise<void> {
  const directory = temporaryDirectory();
  const server = await startNatsServer({ dataDir: join(directory.path, 'nats') });
  const nats = await connectNats({ url: server.url, name: 'bench' });
  const rows = [];
  for (const messageBytes of [1_200, 30_000]) {
    await streamRates(nats, PUBLISHED / 10, messageBytes);
    const rounds: Awaited<ReturnType<typeof streamRates>>[] = [];
    for (let i = 0; i < ROUNDS; i++) rounds.push(await streamRates(nats, PUBLISHED, messageBytes));
    const rate = (what: 'library' | 'writer' | 'tail') => median(rounds.map((one) => one[what]));
    rows.push({
      'bytes a message': messageBytes,
      'js.publish of the client library': readable(rate('library')),
      StreamWriter: readable(rate('writer')),
      ratio: readable(rate('writer') / rate('library')),
      tailBatches: readable(rate('tail')),
    });
  }
  await nats.close();
  await server.stop();
  directory.remove();
  printTable(`Messages a second, ${PUBLISHED} each, published one by one`, rows);
}

async function catchUpRates(): Promise<void> {
  const history = await openHistory(CATCH_UP_MATCHES);
  const runs: CatchUp[] = [];
  const loops = { bytes: [] as number[], parse: [] as number[] };
  let bytes = 0;
  for (let i = 0; i < ROUNDS; i++) {
    const run = await catchUp(history);
    runs.push(run);
    for (const mode of ['bytes', 'parse'] as const) {
      const loop = await download(history, run.blocks, mode);
      bytes = loop.bytes;
      loops[mode].push(run.blocks / loop.seconds);
    }
  }
  const unbounded = await catchUp(history, '');
  await history.stop();
  const [first = unbounded] = runs;
  const limit = median(loops.bytes);
  const fillsPerBlock = first.fills / first.blocks;
  const row = (what: string, blocks: number) => ({
    what,
    'blocks/s': readable(blocks),
    'fills/s': readable(blocks * fillsPerBlock),
    ratio: readable(blocks / limit),
  });
  const rate = (pick: (run: CatchUp) => number) =>
    median(runs.map((run) => run.blocks / pick(run)));
  printTable(
    `Catch-up over ${first.blocks} blocks, ${first.matches} matches, ${first.fills} fills, ` +
      `${readable(bytes / MEGABYTE)} MB of JSON`,
    [
      row('bare loop: download only', limit),
      row('bare loop: download and JSON.parse', median(loops.parse)),
      row(
        'ingest, from its first block in LEDGER',
        rate((run) => run.seconds),
      ),
      row(
        'ingest, from the start of its process',
        rate((run) => run.secondsFromStart),
      ),
    ],
  );
  const memory = (options: string, some: readonly CatchUp[]) => ({
    'options of Node': options,
    runs: some.length,
    'resident memory at most, MB': Math.round(
      Math.max(...some.map((run) => run.residentBytesMax)) / MEGABYTE,
    ),
    seconds: readable(median(some.map((run) => run.seconds))),
  });
  printTable('Memory of the same catch-up', [
    memory(SMALL_YOUNG_SPACE, runs),
    memory('none', [unbounded]),
  ]);
}

async function latency(): Promise<void> {
  const history = await openHistory(LATENCY_MATCHES, 2);
  const rounds: Latency[][] = [];
  for (let i = 0; i < ROUNDS; i++) {
    rounds.push(await latencies(history, LATENCY_RATES, LATENCY_SECONDS));
  }
  await history.stop();
  const onAnvil: Latency[] = [];
  for (let i = 0; i < ROUNDS; i++) onAnvil.push(await latencyOfDevnet(ANVIL_RATE, LATENCY_SECONDS));
  const row = (node: string, rate: number, runs: readonly (Latency | undefined)[]) => {
    const of = (pick: keyof Latency) => median(runs.map((one) => one?.[pick] ?? 0));
    return {
      ...{ node, 'matches/s': rate, matches: of('matches') },
      ...{ 'p50, ms': readable(of('p50')), 'p99, ms': readable(of('p99')) },
    };
  };
  printTable('From a pending transaction pushed by the node to its match read from FEED', [
    ...LATENCY_RATES.map((rate, i) =>
      row(
        'stand-in',
        rate,
        rounds.map((one) => one[i]),
      ),
    ),
    row('anvil', ANVIL_RATE, onAnvil),
  ]);
}

async function positions(): Promise<void> {
  const runs: Latency[] = [];
  for (let i = 0; i < ROUNDS; i++) {
    runs.push(await latencyOfPositions(POSITIONS_RATE, POSITIONS_SECONDS));
  }
  const of = (pick: keyof Latency) => median(runs.map((one) => one[pick]));
  printTable('From a final block to a position in it, as the api answers', [
    {
      ...{ 'matches/s': POSITIONS_RATE, matches: of('matches') },
      ...{ 'p50, ms': readable(of('p50')), 'p99, ms': readable(of('p99')) },
    },
  ]);
}
