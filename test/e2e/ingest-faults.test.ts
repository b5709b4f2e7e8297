import { describe, expect, test } from 'vitest';
import { runFaults } from '../faults/fault-run.ts';
import { runKills } from '../faults/kill-run.ts';
import { ROUGH } from '../faults/rates.ts';
import { temporaryDirectory } from './service.ts';

const SEED = process.env.FAULT_SEED || String(Date.now() % 1_000_000);
const KILLS = 10;

// The long forms are `npm run faults:ingest` and `npm run kills:ingest`.
describe(`ingest under faults (FAULT_SEED=${SEED})`, () => {
  test('LEDGER holds every final match once in chain order, FEED each live match once', async () => {
    const directory = temporaryDirectory();
    const run = await runFaults({
      directory: directory.path,
      seed: SEED,
      matches: 700,
      matchesPerSecond: 60,
      blockSeconds: 1,
      endpoints: 3,
      rates: ROUGH,
      reorgs: 5,
      natsKills: 1,
      gammaOutages: 1,
      endpointOutages: 2,
      ingestKills: 1,
      rivals: 1,
      onProgress: () => undefined,
    });
    expect(run.differences).toEqual([]);
    expect(run.ledgerFound).toBe(run.matches);
    expect(run.feedFound).toBe(run.liveMatches);
    expect(run.liveMatches).toBeGreaterThanOrEqual(700);
    expect(run.injected.size).toBeGreaterThan(5);
    directory.remove();
  });

  test(`LEDGER comes out the same after ${KILLS} kills −9 in one catch-up`, async () => {
    const directory = temporaryDirectory();
    const run = await runKills({
      directory: directory.path,
      seed: SEED,
      kills: KILLS,
      matches: 1_000,
      onProgress: () => undefined,
    });
    expect(run.differences).toEqual([]);
    expect(run.ledgerFound).toBe(run.matches);
    expect(run.kills).toEqual({ start: 3, block: 2, message: 5 });
    directory.remove();
  });
});
