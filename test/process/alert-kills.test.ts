import { expect, test } from 'vitest';
import { runAlerts } from '../release/faults/alert-run.ts';
import { faultRun, sizes } from '../release/faults/run.ts';

const { kills } = sizes({ kills: [7, 100] });

test('every receiver has every event of its alerts after kills, and what did not happen is taken back', async () => {
  const run = await faultRun('Alerts', (given) => runAlerts({ ...given, kills }));
  expect(run.events).toBeGreaterThan(10 * kills);
  expect(run.notInLedger).toBe(0);
});
