import { expect, test } from 'vitest';
import { runProjectorKills } from '../release/faults/projector-kill-run.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { temporaryDirectory } from '../support/service.ts';

const SEED = TEST_SEED;

/** The long form is `npm run kills:projector`. */
test(`kills into inserts leave what an undisturbed run leaves (TEST_SEED=${SEED})`, async () => {
  const directory = temporaryDirectory();
  try {
    const lines: string[] = [];
    const run = await runProjectorKills({
      directory: directory.path,
      seed: SEED,
      kills: 8,
      onProgress: (line) => lines.push(line),
    });
    expect(run.differences).toEqual([]);
    expect(run.kills).toBe(8);
    expect(run.rows).toBeGreaterThan(10_000);
  } finally {
    directory.remove();
  }
});
