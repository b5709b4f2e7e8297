/**
 * `npm run kills:projector`: kill −9 of projector and ClickHouse in turn under load, KILLS times (200). Exits with
 * code 1 if anything differs from a run without kills. KILL_SEED repeats a run.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { printTable, readable } from '../bench/report.ts';
import { runProjectorKills } from './projector-kill-run.ts';

const seed = Number(process.env.KILL_SEED || Date.now() % 1_000_000);
const kills = Number(process.env.KILLS || 200);
const directory = mkdtempSync(join(tmpdir(), 'fillstream-projector-kills-'));
console.log(`KILL_SEED=${seed} KILLS=${kills}`);
const run = await runProjectorKills({
  directory,
  seed,
  kills,
  onProgress: (line) => console.log(line),
});
const rows = Object.entries({
  kills: run.kills,
  'of them into an insert': run.intoInserts,
  'batches healed at a start': run.healed,
  rows: readable(run.rows),
  differences: run.differences.length,
  seconds: Math.round(run.seconds),
});
printTable(
  'Kill run of the projector',
  rows.map(([what, value]) => ({ what, value })),
);
for (const difference of run.differences) console.error(difference);
if (run.differences.length === 0) rmSync(directory, { recursive: true });
else console.error(`data: ${directory}`);
process.exit(run.differences.length === 0 ? 0 : 1);
