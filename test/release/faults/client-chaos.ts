/**
 * `npm run chaos:client`: iterators of the client and `fillstream tail` under faults. Exits with code 1 if one of
 * them did not yield exactly the events that pass its filter, or if memory grows. TEST_SEED repeats a run; LISTENERS,
 * TAILS (how many of them are commands), SECONDS, MATCHES_PER_SECOND and CUT_SECONDS, the mean time between two cuts
 * of a listener, change its size (100, 8, 600, 100, 5: about 12,000 cuts, a thousand of them kills of a command, and
 * 60 kills of an api or NATS).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newSeed } from '../../support/seed.ts';
import { printTable } from '../bench/report.ts';
import { ClientProgram } from './client-listener.ts';
import type { ListenerOptions } from './feed-listener.ts';
import { type RunListener, runFeed } from './feed-run.ts';
import { levelOf } from './soak-memory.ts';
import { TailListener } from './tail-listener.ts';

const MEASURE_MS = 5_000;

const TAILS = Number(process.env.TAILS || 8);

const seed = newSeed();
const directory = mkdtempSync(join(tmpdir(), 'fillstream-chaos-'));
console.log(`TEST_SEED=${seed}`);
const program = new ClientProgram();
const heap: number[] = [];
const tails: TailListener[] = [];
const measuring = setInterval(async () => heap.push(await program.heapBytes()), MEASURE_MS);
const run = await runFeed({
  directory,
  seed,
  listen,
  listeners: Number(process.env.LISTENERS || 100),
  seconds: Number(process.env.SECONDS || 600),
  matchesPerSecond: Number(process.env.MATCHES_PER_SECOND || 100),
  everySeconds: { cut: Number(process.env.CUT_SECONDS || 5), api: 8, nats: 60 },
  onProgress: (line) => console.log(line),
});

clearInterval(measuring);
await program.stop();
const { differences, refusals: _, ...counts } = run;
const { thirds, most, isLevel } = levelOf(heap);
const rows = Object.entries({
  ...counts,
  'kills of fillstream tail': tails.reduce((sum, { connections }) => sum + connections - 1, 0),
  'heap in thirds, most (MiB)': `${thirds.join(', ')}, ${most}`,
  'memory is level': String(isLevel),
  differences: differences.length,
});
printTable(
  'Client under faults',
  rows.map(([what, value]) => ({ what, value })),
);
for (const difference of differences) console.error(difference);
const isGood = differences.length === 0 && isLevel;
if (isGood) rmSync(directory, { recursive: true });
else console.error(`logs: ${directory}`);
process.exit(isGood ? 0 : 1);

/** Every other command has a state file; the others resume at the end of their output. */
async function listen(options: ListenerOptions): Promise<RunListener> {
  const isFeed = options.target.startsWith('/v1/stream/orders');
  if (!isFeed || tails.length === TAILS) return await program.listen(options);
  const [keeping, file] = [
    tails.length % 2 === 0 ? 'output' : 'state',
    `tail-${tails.length}`,
  ] as const;
  const tail = await TailListener.listen(options, keeping, join(directory, file));
  tails.push(tail);
  return tail;
}
