/**
 * `npm run chaos:feed`: the order feed and managed streams under faults. Exits with code 1 if a listener did not get
 * exactly the events that pass its filter. TEST_SEED repeats a run; LISTENERS, SECONDS and MATCHES_PER_SECOND change
 * its size (500, 300, 200).
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newSeed } from '../../support/seed.ts';
import { printTable } from '../bench/report.ts';
import { runFeed } from './feed-run.ts';

const seed = newSeed();
const directory = mkdtempSync(join(tmpdir(), 'fillstream-chaos-'));
console.log(`TEST_SEED=${seed}`);
const run = await runFeed({
  directory,
  seed,
  listeners: Number(process.env.LISTENERS || 500),
  seconds: Number(process.env.SECONDS || 300),
  matchesPerSecond: Number(process.env.MATCHES_PER_SECOND || 200),
  everySeconds: { cut: 10, api: 15, nats: 30 },
  onProgress: (line) => console.log(line),
});
const { differences, refusals, ...counts } = run;
const rows = Object.entries({
  ...counts,
  refusals: JSON.stringify(refusals),
  differences: differences.length,
});
printTable(
  'Feed under faults',
  rows.map(([what, value]) => ({ what, value })),
);
for (const difference of differences) console.error(difference);
if (differences.length === 0) rmSync(directory, { recursive: true });
else console.error(`logs: ${directory}`);
process.exit(differences.length === 0 ? 0 : 1);
