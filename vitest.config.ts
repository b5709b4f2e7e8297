import { configDefaults, defineConfig } from 'vitest/config';

const UNIT = 'test/unit/**';

// The engine inside the embedded ClickHouse child and the child processes of the tests need
// real processes: worker threads crash it, so the pool is forks.
export default defineConfig({
  test: {
    pool: 'forks',
    // They end what hangs, and nothing else: a busy machine is several times slower.
    testTimeout: 600_000,
    hookTimeout: 600_000,
    // On two cores. Tests wait for a third of their time.
    maxWorkers: 3,
    // The default of one second is too short while other tests run.
    expect: { poll: { timeout: 30_000, interval: 100 } },
    projects: [
      // Unit tests leave nothing behind, so files share a process: that takes half the time.
      { extends: true, test: { name: 'unit', include: [`${UNIT}/*.test.ts`], isolate: false } },
      {
        extends: true,
        test: {
          name: 'processes',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, UNIT],
        },
      },
    ],
  },
});
