/** Fixtures that all tests of a file share. */
import { afterAll, beforeAll } from 'vitest';

/** The result of `start`, which runs before the first test of the file and is stopped after the last. */
export function forFile<T extends { stop(): Promise<void> }>(start: () => Promise<T>): T {
  const started = {} as T;
  beforeAll(async () => {
    Object.assign(started, await start());
  });
  // Without `stop`, it could not start.
  afterAll(() => started.stop?.());
  return started;
}
