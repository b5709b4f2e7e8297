import { expect, test } from 'vitest';
import { runProjectorKills } from '../faults/projector-kill-run.ts';
import { temporaryDirectory } from './service.ts';

const SEED = Number(process.env.KILL_SEED || Date.now() % 100_000);

/** The long form is `npm run kills:projector`. */
test(`kills into inserts leave what an undisturbed run leaves (KILL_SEED=${SEED})`, async () => {
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
