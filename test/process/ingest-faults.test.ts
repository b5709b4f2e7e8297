import { expect, test } from 'vitest';
import { runFaults } from '../release/faults/fault-run.ts';
import { runKills } from '../release/faults/kill-run.ts';
import { faultRun, sizes } from '../release/faults/run.ts';

// Ten matches a second, as on Polygon, for half an hour come to 18,000.
const { faultMatches, kills, killMatches } = sizes({
  faultMatches: [700, 20_000],
  kills: [10, 100],
  killMatches: [1_000, 30_000],
});

test('LEDGER holds every final match once in chain order, FEED each live match once, under faults', async () => {
  const run = await faultRun('Faults around ingest', (given) =>
    runFaults({ ...given, matches: faultMatches }),
  );
  expect(run.ledgerFound).toBe(run.matches);
  expect(run.feedFound).toBe(run.liveMatches);
  expect(run.liveMatches).toBeGreaterThanOrEqual(faultMatches);
  expect(Object.keys(run.injected).length).toBeGreaterThan(5);
});

test(`LEDGER comes out the same after ${kills} kills −9 in one catch-up`, async () => {
  const run = await faultRun('Kills of ingest', (given) =>
    runKills({ ...given, kills, matches: killMatches }),
  );
  expect(run.ledgerFound).toBe(run.matches);
  const [message, start] = [Math.floor(kills / 2), Math.ceil(kills / 4)];
  expect(run.kills).toEqual({ start, block: kills - start - message, message });
});
