import { describe, expect, test } from 'vitest';
import { runFaults } from '../release/faults/fault-run.ts';
import { runKills } from '../release/faults/kill-run.ts';
import { ROUGH } from '../release/faults/rates.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { temporaryDirectory } from '../support/service.ts';

const SEED = String(TEST_SEED);
const KILLS = 10;

// The long forms are `npm run faults:ingest` and `npm run kills:ingest`.
describe(`ingest under faults (TEST_SEED=${SEED})`, () => {
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
