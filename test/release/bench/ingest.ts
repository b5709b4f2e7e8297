/**
 * `npm run bench:ingest`: catch-up of ingest beside a process that only downloads the same blocks, and the time from a
 * final block to a position in it; the figures of docs/benchmarks/ingest.md come from here. Arguments choose parts
 * (`catch-up`, `positions`; default: both). ROUNDS (3) is the number of repetitions, of which a figure is the median;
 * MATCHES (36,000) is the length of the history and SECONDS (60) the time that positions are followed.
 */
import { type CatchUp, catchUp, download } from './catch-up.ts';
import { openHistory } from './history.ts';
import { measurePositions } from './new-positions.ts';
import { machine, median, percentile, printTable, readable } from './report.ts';

const ROUNDS = Number(process.env.ROUNDS || 3);
/** About 2.9 fills a match: a little over 100,000 fills. */
const MATCHES = Number(process.env.MATCHES || 36_000);
const SECONDS = Number(process.env.SECONDS || 60);
const POSITIONS_RATE = 5;
const MEGABYTE = 1_048_576;

const PARTS = { 'catch-up': catchUpRates, positions };
const wanted = process.argv.slice(2);
console.log(`Machine: ${machine()}; median of ${ROUNDS} rounds.`);
for (const [name, run] of Object.entries(PARTS)) {
  if (wanted.length === 0 || wanted.includes(name)) await run();
}

async function catchUpRates(): Promise<void> {
  const history = await openHistory(MATCHES);
  const runs: CatchUp[] = [];
  const limits: number[] = [];
  let bytes = 0;
  for (let i = 0; i < ROUNDS; i++) {
    const run = await catchUp(history);
    const loop = await download(history, run.blocks);
    runs.push(run);
    bytes = loop.bytes;
    limits.push(run.blocks / loop.seconds);
  }
  await history.process.stop();
  const [first] = runs;
  if (first === undefined) throw new RangeError('no rounds');
  const limit = median(limits);
  const row = (what: string, blocks: number) => ({
    what,
    'blocks/s': readable(blocks),
    'fills/s': readable(blocks * (first.fills / first.blocks)),
    ratio: readable(blocks / limit),
  });
  const rate = (pick: (run: CatchUp) => number) =>
    median(runs.map((run) => run.blocks / pick(run)));
  printTable(
    `Catch-up over ${first.blocks} blocks, ${first.matches} matches, ${first.fills} fills, ` +
      `${readable(bytes / MEGABYTE)} MB of JSON`,
    [
      row('bare loop: download only', limit),
      row(
        'ingest, from its first block in LEDGER',
        rate(({ seconds }) => seconds),
      ),
      row(
        'ingest, from the start of its process',
        rate(({ secondsFromStart }) => secondsFromStart),
      ),
    ],
  );
  const memory = Math.max(...runs.map(({ memoryMiB }) => memoryMiB));
  console.log(`resident memory of ingest at most: ${Math.round(memory)} MiB`);
}

async function positions(): Promise<void> {
  const rounds: number[][] = [];
  for (let i = 0; i < ROUNDS; i++) rounds.push(await measurePositions(POSITIONS_RATE, SECONDS));
  const of = (part: number) => readable(median(rounds.map((took) => percentile(took, part))));
  printTable('From a final block to a position in it, as the api answers', [
    {
      ...{ 'matches/s': POSITIONS_RATE, matches: median(rounds.map((took) => took.length)) },
      ...{ 'p50, ms': of(0.5), 'p99, ms': of(0.99) },
    },
  ]);
}
