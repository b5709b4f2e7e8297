/**
 * `npm run soak`: runs the whole service for half an hour under trades, listeners, requests and faults. Exits with
 * code 1 if an error line is unexplained, the memory of a process grows, or anything differs from the chain.
 * SOAK_MINUTES (30), MATCHES_PER_SECOND (50), LISTENERS (500) and REQUESTS_PER_SECOND (20) change its size; TEST_SEED
 * repeats a run. After a failure, it prints the directory of the logs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { newSeed } from '../../support/seed.ts';
import { percent, printTable, readable } from '../bench/report.ts';
import { runSoak, type SoakRun } from './soak-run.ts';

const seed = newSeed();
const directory = mkdtempSync(join(tmpdir(), 'fillstream-soak-'));
const minutes = Number(process.env.SOAK_MINUTES || 30);
console.log(`TEST_SEED=${seed} SOAK_MINUTES=${minutes}, ${directory}`);
const run = await runSoak({
  directory,
  seed,
  minutes,
  matchesPerSecond: Number(process.env.MATCHES_PER_SECOND || 50),
  listeners: Number(process.env.LISTENERS || 500),
  requestsPerSecond: Number(process.env.REQUESTS_PER_SECOND || 20),
  onProgress: (line) => console.log(line),
});
printTable('Soak', rowsOf(run));
printTable(
  'Resident memory, MiB, medians of thirds up to the last round of kills',
  run.memory.map(({ name, thirds: [first, second, last], most, isLevel }) => {
    return { name, first, second, last, most, level: isLevel ? 'yes' : 'no' };
  }),
);
for (const [what, count] of run.logs.explained) console.log(`explained ${count} × ${what}`);
for (const [what, count] of run.logs.warnings) console.log(`warning ${count} × ${what}`);
for (const difference of run.differences) console.error(difference);
if (run.differences.length === 0) rmSync(directory, { recursive: true });
else console.error(`logs: ${directory}`);
process.exit(run.differences.length === 0 ? 0 : 1);

function rowsOf({ comparison, listened, requests, faults, logs, ...one }: SoakRun) {
  const statuses = [...requests.statuses].map(([status, count]) => `${count} × ${status || '–'}`);
  return Object.entries({
    'matches on the chain, fills': `${readable(comparison.matches)}; ${readable(comparison.fills)}`,
    'completeness of LEDGER': percent(comparison.ledgerFound, comparison.matches),
    'live matches': readable(comparison.liveMatches),
    'completeness of FEED': percent(comparison.feedFound, comparison.liveMatches),
    'shown and never final; of them void': `${comparison.feedNeverFinal}; ${comparison.feedVoided}`,
    'events delivered': readable(listened.delivered),
    'connections of listeners; cut': `${readable(listened.connections)}; ${readable(listened.cuts)}`,
    'requests, answers': `${readable(requests.sent)}: ${statuses.join(', ')}`,
    faults: [...faults].map(([fault, count]) => `${count} × ${fault}`).join(', '),
    'longest until all was ready again, s': readable(one.slowestRecoveryMs / 1_000),
    'error lines: explained; not': `${sum([...logs.explained.values()])}; ${logs.unexplained}`,
    differences: run.differences.length,
  }).map(([what, value]) => ({ what, value }));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}
