import { defineConfig } from 'vitest/config';

// The engine inside the embedded ClickHouse child and the child processes of the tests need
// real processes: worker threads crash it, so the pool is forks.
export default defineConfig({
  test: {
    pool: 'forks',
    include: ['test/**/*.test.ts'],
    testTimeout: 120_000,
    hookTimeout: 180_000,
    maxWorkers: 2,
    // The default of one second is too short while other tests run.
    expect: { poll: { timeout: 30_000, interval: 100 } },
  },
});
