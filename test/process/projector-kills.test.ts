import { expect, test } from 'vitest';
import { runProjectorKills } from '../release/faults/projector-kill-run.ts';
import { faultRun, sizes } from '../release/faults/run.ts';

const { kills } = sizes({ kills: [8, 200] });

test('kills during inserts lead to the same tables as an undisturbed run', async () => {
  const title = 'Kills of the projector';
  const run = await faultRun(title, (given) => runProjectorKills({ ...given, kills }));
  expect(run.kills).toBe(kills);
  expect(run.rows).toBeGreaterThan(10_000);
});
