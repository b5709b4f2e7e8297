import { setImmediate } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { rounds } from '../../api/feed/rounds.ts';

const LISTENERS = 1_000;

/** Connections that write what is pending, and how often each has written. */
function connections(count: number, onWrite: (n: number) => void = () => undefined) {
  const pending = Array.from({ length: count }, () => [] as string[]);
  const writes = pending.map(() => [] as string[][]);
  const all = pending.map((events, n) => ({
    flush() {
      if (events.length === 0) return;
      writes[n]?.push(events.splice(0));
      onWrite(n);
    },
  }));
  const deliver = (event: string) => {
    for (const [n, one] of all.entries()) {
      if (pending[n]?.push(event) === 1) rounds.add(one);
    }
  };
  return { writes, deliver, written: () => pending.every((events) => events.length === 0) };
}

test('events of one turn are one write', async () => {
  const { writes, deliver } = connections(3);
  deliver('a');
  deliver('b');
  await rounds.ending();
  expect(writes).toEqual([[['a', 'b']], [['a', 'b']], [['a', 'b']]]);
});

test('an event during a round is sent along by those that come later, and in the next round by the others', async () => {
  let isSent = false;
  const { writes, deliver, written } = connections(LISTENERS, (n) => {
    if (n < 99 || isSent) return;
    isSent = true;
    deliver('b');
  });
  deliver('a');
  while (!written()) await setImmediate();
  expect(writes.slice(0, 100)).toEqual(Array(100).fill([['a'], ['b']]));
  expect(writes.slice(100)).toEqual(Array(LISTENERS - 100).fill([['a', 'b']]));
});

test('other work gets turns during a round', async () => {
  const { deliver, writes } = connections(LISTENERS);
  deliver('a');
  await setImmediate();
  const begun = writes.filter((own) => own.length > 0).length;
  await rounds.ending();
  expect(begun).toBeLessThan(LISTENERS);
  expect(writes).toEqual(Array(LISTENERS).fill([['a']]));
});

test('as much time as other work takes, so that a round ends in a busy process', async () => {
  const { deliver, written } = connections(LISTENERS);
  deliver('a');
  let turns = 0;
  for (; !written(); turns += 1) {
    const endsAt = performance.now() + 5;
    while (performance.now() < endsAt);
    await setImmediate();
  }
  expect(turns).toBeLessThan(8);
});

test('every round that ends is counted', async () => {
  const { ended } = rounds;
  const { deliver } = connections(1);
  deliver('a');
  await rounds.ending();
  expect(rounds.ended).toBe(ended + 1);
});
