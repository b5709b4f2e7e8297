import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';

/** The time after which a test hangs, by lane. Tests of processes wait for kills, outages and restarts. */
const LANES = { unit: 60, rules: 60, smoke: 120, process: 600, page: 300, release: 600 };

/**
 * What runs once before the tests of a lane: two start ClickHouse many times, one of them also installs our packages, and one
 * shares a running service.
 */
const SETUPS: Readonly<Record<string, string | string[]>> = {
  rules: 'test/support/template.ts',
  process: ['test/support/template.ts', 'test/support/packages.ts'],
  page: 'test/page/service.ts',
};

// A lane is a folder of test/. `npm test` runs the first three; CONTRIBUTING.md says what belongs where. The engine inside
// the embedded ClickHouse child and the child processes of the tests need real processes: worker threads crash it, so the
// pool is forks.
export default defineConfig({
  test: {
    pool: 'forks',
    // Tests wait for a third of their time.
    maxWorkers: Math.ceil(availableParallelism() * 1.5),
    projects: Object.entries(LANES).map(([name, seconds]) => ({
      extends: true,
      test: {
        name,
        setupFiles: ['test/support/setup.ts'],
        globalSetup: SETUPS[name] ?? [],
        include: [`test/${name}/**/*.test.ts`],
        testTimeout: seconds * 1_000,
        // The default of one second is too short while other tests run.
        expect: { poll: { timeout: Math.min(seconds, 240) * 500, interval: 100 } },
        // A hook starts whole stores.
        hookTimeout: Math.max(seconds, 240) * 1_000,
        // Unit tests leave nothing behind, so files share a process: that takes half the time.
        isolate: name !== 'unit',
      },
    })),
  },
});
