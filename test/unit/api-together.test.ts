// Callers at the same time share a statement: each gets its rows, and what fails fails for all.
import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { Together } from '../../api/analytics/together.ts';

/** A store that answers, or fails, when it is told to. */
class Store {
  readonly asked: (readonly string[])[] = [];
  readonly #answers: { done: () => void; failed: (error: Error) => void }[] = [];

  readonly readRows = async (keys: readonly string[]) => {
    this.asked.push(keys);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#answers.push({ done: resolve, failed: reject });
    await promise;
    return new Map(keys.filter((key) => key !== 'none').map((key) => [key, `row ${key}`]));
  };

  async answer(error?: Error): Promise<void> {
    const first = this.#answers.shift();
    if (error === undefined) first?.done();
    else first?.failed(error);
    await turn();
  }
}

test('who asks while a statement is under way shares the next one', async () => {
  const store = new Store();
  const together = new Together<string>();
  const first = together.read(['a'], store.readRows);
  const others = [['b', 'none'], ['c'], ['b']].map((keys) => together.read(keys, store.readRows));
  await store.answer();
  expect((await first).get('a')).toBe('row a');
  await store.answer();
  const [b, c, again] = await Promise.all(others);
  expect([b?.get('b'), b?.get('none'), c?.get('c'), again?.get('b')]).toEqual([
    ...['row b', undefined, 'row c', 'row b'],
  ]);
  expect(store.asked).toEqual([['a'], ['b', 'none', 'c']]);
  const last = together.read(['a'], store.readRows);
  await store.answer();
  expect((await last).get('a')).toBe('row a');
});

test('a failure is of those who asked and of those who waited, and not of later ones', async () => {
  const store = new Store();
  const together = new Together<string>();
  const failing = [['a'], ['b']].map((keys) => together.read(keys, store.readRows));
  const settled = Promise.allSettled(failing);
  await store.answer(new Error('gone'));
  expect(await settled).toEqual(
    failing.map(() => ({ status: 'rejected', reason: new Error('gone') })),
  );
  const later = together.read(['b'], store.readRows);
  await store.answer();
  expect((await later).get('b')).toBe('row b');
  expect(store.asked).toEqual([['a'], ['b']]);
});

test('a statement has 200 keys at most, or those of one caller', async () => {
  const store = new Store();
  const together = new Together<string>();
  const keys = (count: number, name: string) => Array.from({ length: count }, (_, i) => name + i);
  const reads = [1, 150, 60, 300].map((count, i) =>
    together.read(keys(count, `${i}-`), store.readRows),
  );
  for (let i = 0; i < 4; i++) await store.answer();
  expect((await Promise.all(reads)).map((rows) => rows.size)).toEqual([1, 150, 60, 300]);
  expect(store.asked.map((all) => all.length)).toEqual([1, 60, 300, 150]);
});

test('whatever is asked and answered in whatever order, everyone has their rows', async () => {
  const step = fc.oneof(fc.array(fc.constantFrom('a', 'b', 'c')), fc.constant('answer' as const));
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
      const store = new Store();
      const together = new Together<string>();
      const reads: Promise<void>[] = [];
      for (const one of steps) {
        if (one === 'answer') await store.answer();
        else {
          const rows = together.read(one, store.readRows);
          reads.push(rows.then((all) => expect(one.every((key) => all.has(key))).toBe(true)));
        }
      }
      for (let i = 0; i <= steps.length; i++) await store.answer();
      await Promise.all(reads);
    }),
  );
});
