/** The short form of `npm run chaos:client`. */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { ClientProgram } from '../release/faults/client-listener.ts';
import { runFeed } from '../release/faults/feed-run.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

test('the client gives each event once and in order, across cuts and kills', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-chaos-'));
  const seed = TEST_SEED;
  console.info(`TEST_SEED=${seed}`);
  const program = new ClientProgram();
  const run = await runFeed({
    directory,
    seed,
    listen: (options) => program.listen(options),
    listeners: 40,
    seconds: 20,
    matchesPerSecond: 100,
    everySeconds: { cut: 3, api: 5, nats: 12 },
  });
  await program.stop();
  expect(run.differences).toEqual([]);
  expect(run.gaps).toBe(0);
  expect(run.cuts).toBeGreaterThan(100);
  expect(run.apiKills).toBeGreaterThan(0);
  expect(run.delivered).toBeGreaterThan(run.published);
  rmSync(directory, { recursive: true });
});
