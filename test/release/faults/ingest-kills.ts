/**
 * `npm run kills:ingest`: kill −9 of ingest, KILLS times (100) during one catch-up. Exits with code 1 if LEDGER differs
 * from the chain. KILL_SEED repeats a run.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { percent, printTable } from '../bench/report.ts';
import { runKills } from './kill-run.ts';

const MATCHES_PER_KILL = 300;

const seed = process.env.KILL_SEED || String(Date.now() % 1_000_000);
const kills = Number(process.env.KILLS || 100);
const directory = mkdtempSync(join(tmpdir(), 'fillstream-ingest-kills-'));
console.log(`KILL_SEED=${seed} KILLS=${kills}`);
const run = await runKills({
  directory,
  seed,
  kills,
  matches: Math.max(1_000, kills * MATCHES_PER_KILL),
  onProgress: (line) => console.log(line),
});
const rows = Object.entries({
  'kills at the start': run.kills.start,
  'kills while a block was requested': run.kills.block,
  'kills before an acknowledgement': run.kills.message,
  'matches on the chain': run.matches,
  fills: run.fills,
  resolutions: run.resolutions,
  'completeness of LEDGER': percent(run.ledgerFound, run.matches),
  differences: run.differences.length,
  seconds: Math.round(run.seconds),
});
printTable(
  'Kill run',
  rows.map(([what, value]) => ({ what, value })),
);
for (const difference of run.differences) console.error(difference);
if (run.differences.length === 0) rmSync(directory, { recursive: true });
else console.error(`logs: ${directory}`);
process.exit(run.differences.length === 0 ? 0 : 1);
