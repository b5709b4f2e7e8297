/** The short form of `npm run chaos:feed`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { differenceOf, runFeed } from '../release/faults/feed-run.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

test('listeners get exactly what their filters ask for, across disconnects and kills', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-chaos-'));
  const seed = TEST_SEED;
  console.info(`TEST_SEED=${seed}`);
  const run = await runFeed({
    directory,
    seed,
    listeners: 60,
    seconds: 15,
    matchesPerSecond: 100,
    everySeconds: { cut: 4, api: 4, nats: 6 },
  });
  expect(run.differences).toEqual([]);
  expect(run.gaps).toBe(0);
  expect(run.cuts).toBeGreaterThan(50);
  expect(run.delivered).toBeGreaterThan(run.published);
  rmSync(directory, { recursive: true });
});

test.each([
  [[1, 2, 3], [1, 2, 3], undefined],
  [[1, 3], [1, 2, 3], 'got 3 where 2 was due'],
  [[1, 2, 2], [1, 2, 3], 'got 2 where 3 was due'],
  [[1, 2], [1, 2, 3], 'ends before 3, 1 are missing'],
  [[1, 'gap', 3], [1, 2, 3], undefined],
  [[1, 'gap', 1], [1, 2, 3], 'got 1 where 2 was due'],
] as const)('seeing %j of %j differs by %j', (seen, expected, difference) => {
  expect(differenceOf(seen, expected)).toBe(difference);
});
