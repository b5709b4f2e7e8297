import { expect, test } from 'vitest';
import { runLive } from '../release/faults/live-run.ts';
import { faultRun, sizes } from '../release/faults/run.ts';

const { kills, rebuilds, share } = sizes({ kills: [2, 30], rebuilds: [1, 2], share: [0.1, 1] });

test('live sums equal statements after kills and rebuilds', async () => {
  const title = 'Live sums';
  const run = await faultRun(title, (given) => runLive({ ...given, kills, rebuilds, share }));
  expect(run.compared).toBeGreaterThan(300 * (kills + rebuilds));
  expect(run.live).toBeGreaterThan(run.compared / 4);
  expect(run.bytesMax).toBeLessThanOrEqual(128 * 1024 * 1024);
});
