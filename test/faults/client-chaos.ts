/**
 * `npm run chaos:client`: iterators of the client under faults; exits with code 1 if one of them gave anything but what its
 * filter asks for, or if memory grows. TEST_SEED repeats a run; LISTENERS, SECONDS, MATCHES_PER_SECOND and CUT_SECONDS,
 * the mean time between two cuts of a listener, change its size (100, 600, 100, 5: about 12,000 cuts and 60 kills).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { printTable } from '../bench/report.ts';
import { newSeed } from '../unit/feed-matches.ts';
import { ClientProgram } from './client-listener.ts';
import { runFeed } from './feed-run.ts';
import { levelOf } from './soak-memory.ts';

const MEASURE_MS = 5_000;

const seed = newSeed();
const directory = mkdtempSync(join(tmpdir(), 'fillstream-chaos-'));
console.log(`TEST_SEED=${seed}`);
const program = new ClientProgram();
const heap: number[] = [];
const measuring = setInterval(async () => heap.push(await program.heapBytes()), MEASURE_MS);
const run = await runFeed({
  directory,
  seed,
  listen: (options) => program.listen(options),
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
