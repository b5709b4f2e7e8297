/**
 * `npm run faults:ingest`: half an hour of trading, compressed, with every fault that we can inject. Exits with code
 * 1 if a match is missing, duplicated, out of order or different. FAULT_SEED repeats a run; FAULT_MATCHES changes its
 * length. After a failure, it prints the directory of the logs.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { percent, printTable } from '../bench/report.ts';
import { type FaultRun, runFaults } from './fault-run.ts';
import { ROUGH } from './rates.ts';

/** Ten matches a second, as on Polygon, for half an hour come to 18,000. */
const MATCHES = 20_000;
const MATCHES_PER_SECOND = 80;
const MATCHES_PER_DISTURBANCE = { reorgs: 200, ingest: 4_000, outage: 1_000 };

const seed = process.env.FAULT_SEED || String(Date.now() % 1_000_000);
const matches = Number(process.env.FAULT_MATCHES || MATCHES);
const directory = mkdtempSync(join(tmpdir(), 'fillstream-faults-'));
console.log(`FAULT_SEED=${seed} FAULT_MATCHES=${matches}`);
const run = await runFaults({
  directory,
  seed,
  matches,
  matchesPerSecond: MATCHES_PER_SECOND,
  blockSeconds: 1,
  endpoints: 3,
  rates: ROUGH,
  reorgs: Math.ceil(matches / MATCHES_PER_DISTURBANCE.reorgs),
  natsKills: Math.ceil(matches / MATCHES_PER_DISTURBANCE.outage),
  gammaOutages: Math.ceil(matches / MATCHES_PER_DISTURBANCE.outage),
  endpointOutages: Math.ceil(matches / MATCHES_PER_DISTURBANCE.outage),
  ingestKills: Math.ceil(matches / MATCHES_PER_DISTURBANCE.ingest),
  rivals: Math.ceil(matches / MATCHES_PER_DISTURBANCE.ingest),
  onProgress: (line) => console.log(line),
});
printTable('Fault run', rowsOf(run));
for (const { name, reason } of run.restarts) console.log(`restart of ${name}: ${reason}`);
for (const difference of run.differences) console.error(difference);
if (run.differences.length === 0) rmSync(directory, { recursive: true });
else console.error(`logs: ${directory}`);
process.exit(run.differences.length === 0 ? 0 : 1);

function rowsOf(one: FaultRun): Record<string, string | number>[] {
  const byName = (name: string) => one.restarts.filter((restart) => restart.name === name).length;
  return Object.entries({
    'matches on the chain': one.matches,
    fills: one.fills,
    resolutions: one.resolutions,
    'completeness of LEDGER': percent(one.ledgerFound, one.matches),
    'live matches': one.liveMatches,
    'completeness of FEED': percent(one.feedFound, one.liveMatches),
    'shown and never final': one.feedNeverFinal,
    'of them void in FEED': one.feedVoided,
    'voids taken back': one.feedRestored,
    differences: one.differences.length,
    'trading, s': Math.round(one.tradingSeconds),
    'settling, s': Math.round(one.settlingSeconds),
    'largest memory of ingest, MB': Math.round(one.ingestMemoryMax / 1_048_576),
    reorgs: one.reorgs,
    'transactions moved by reorgs': one.reorganisedMatches,
    'transactions replaced by reorgs': one.replacedMatches,
    'kill −9 of nats-server': one.natsKills,
    'kill −9 of ingest': one.ingestKills,
    'second ingests': one.rivals,
    'restarts of ingest': byName('ingest'),
    'restarts of devnet': byName('devnet'),
    'outages of the metadata API': one.gammaOutages,
    'outages of an endpoint': one.endpointOutages,
    ...Object.fromEntries(one.injected),
  }).map(([what, value]) => ({ what, value }));
}
