import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { startClientProgram } from '../release/faults/client-listener.ts';
import { runFeed } from '../release/faults/feed-run.ts';
import { differenceOf, type OpenOptions } from '../release/faults/listeners.ts';
import { faultRun, sizes } from '../release/faults/run.ts';
import { levelOf } from '../release/faults/soak-memory.ts';
import { listenByTail } from '../release/faults/tail-listener.ts';

const MEASURE_MS = 5_000;
const SAMPLES_MIN = 30;

test('listeners get exactly what their filters ask for, across disconnects and kills', async () => {
  const size = sizes({
    listeners: [60, 500],
    seconds: [15, 300],
    matchesPerSecond: [100, 200],
    cutSeconds: [4, 10],
    apiSeconds: [4, 15],
    natsSeconds: [6, 30],
  });
  const run = await faultRun('Feed under faults', (given) => runFeed({ ...given, ...size }));
  expect(run.cuts).toBeGreaterThan(50);
  expect(run.delivered).toBeGreaterThan(run.published);
});

test('the client and `fillstream tail` give each event once and in order, across cuts and kills', async () => {
  const { tails, ...size } = sizes({
    listeners: [40, 100],
    // How many of them are commands; every other one has a state file, the others resume at the end of their output.
    tails: [0, 8],
    seconds: [20, 600],
    matchesPerSecond: [100, 100],
    cutSeconds: [3, 5],
    apiSeconds: [5, 8],
    natsSeconds: [12, 60],
  });
  const program = startClientProgram();
  const heap: number[] = [];
  const measuring = setInterval(async () => heap.push(await program.heapBytes()), MEASURE_MS);
  onTestFinished(async () => {
    clearInterval(measuring);
    await program.stop();
  });
  const run = await faultRun('Client under faults', async (given) => {
    let commands = 0;
    const listen: OpenOptions['listen'] = async (options) => {
      const isFeed = options.target.startsWith('/v1/stream/orders');
      if (!isFeed || commands === tails) return await program.listen(options);
      const file = join(given.directory, `tail-${commands}`);
      commands += 1;
      return await listenByTail(options, commands % 2 === 0 ? 'state' : 'output', file);
    };
    const fed = await runFeed({ ...given, ...size, listen });
    const { isLevel, ...memory } = levelOf(heap);
    // A short run has too few samples.
    const isGood = isLevel || heap.length < SAMPLES_MIN;
    const differences = isGood ? [] : [`the memory of the client grows: ${memory.thirds.join()}`];
    return { ...fed, memory, differences: [...fed.differences, ...differences] };
  });
  expect(run.cuts).toBeGreaterThan(100);
  expect(run.apiKills).toBeGreaterThan(0);
  expect(run.delivered).toBeGreaterThan(run.published);
});

test.each([
  [[1, 2, 3], [1, 2, 3], undefined],
  [[1, 3], [1, 2, 3], 'got 3 where 2 was due'],
  [[1, 2, 2], [1, 2, 3], 'got 2 where 3 was due'],
  [[1, 2], [1, 2, 3], 'ends before 3, 1 are missing'],
  [[1, 'gap', 3], [1, 2, 3], 'got gap where 2 was due'],
] as const)('seeing %j of %j differs by %j', (seen, expected, difference) => {
  expect(differenceOf(seen, expected)).toBe(difference);
});
