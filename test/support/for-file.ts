/** Keeps what all tests of a file use. */
import { afterAll, beforeAll } from 'vitest';

/** What `start` resolves with: there before the first test of the file, stopped after the last. */
export function forFile<T extends { stop(): Promise<void> }>(start: () => Promise<T>): T {
  const started = {} as T;
  beforeAll(async () => {
    Object.assign(started, await start());
  });
  // Without `stop`, it could not start.
  afterAll(() => started.stop?.());
  return started;
}
