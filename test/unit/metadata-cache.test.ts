import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { MetadataCache, type MetadataCacheOptions } from '../../ingest/metadata/fetch-cache.ts';
import { silent } from './gamma-harness.ts';

const ended: AbortController[] = [];
afterEach(() => {
  for (const one of ended.splice(0)) one.abort();
});

type Given = Partial<MetadataCacheOptions<string>>;

/** A cache of a map of values, with the batches that it requested and the changes that it reported. */
function cacheOf(values: Map<string, string>, given: Given = {}) {
  const abort = new AbortController();
  ended.push(abort);
  const asked: (readonly string[])[] = [];
  const changes: string[] = [];
  const made = new MetadataCache<string>({
    name: 'test',
    batchMax: 3,
    concurrentMax: 2,
    missingMs: 40,
    staleMs: 40,
    keysMax: 100,
    fetch: async (keys) => {
      asked.push(keys);
      return new Map(
        keys.flatMap((key) => {
          const value = values.get(key);
          return value === undefined ? [] : [[key, value] as const];
        }),
      );
    },
    onChange: (value) => void changes.push(value),
    logger: silent,
    signal: abort.signal,
    ...given,
  });
  return { cache: made, asked, changes };
}

describe('MetadataCache', () => {
  test('requests unknown keys in batches, and reports each once', async () => {
    const values = new Map(['a', 'b', 'c', 'd'].map((key) => [key, key.toUpperCase()]));
    const { cache: made, asked, changes } = cacheOf(values, { staleMs: 60_000 });
    await made.settled(values.keys(), 1_000);
    expect(asked).toEqual([['a', 'b', 'c'], ['d']]);
    expect(changes.toSorted()).toEqual(['A', 'B', 'C', 'D']);
    expect(made.get('a')).toBe('A');
    expect(made.waiting).toBe(0);
  });

  test('reports only changes when old values are refreshed', async () => {
    const values = new Map([
      ['a', 'A'],
      ['b', 'B'],
    ]);
    const { cache: made, changes } = cacheOf(values);
    await made.settled(values.keys(), 1_000);
    values.set('b', 'other');
    await delay(50);
    made.sweep(10_000, 100);
    await expect.poll(() => made.get('b')).toBe('other');
    expect(changes).toEqual(['A', 'B', 'other']);
  });

  test('requests missing keys again with growing pauses until they appear', async () => {
    const values = new Map<string, string>();
    const times: number[] = [];
    const { cache: made } = cacheOf(values, {
      fetch: async () => {
        times.push(performance.now());
        return new Map(values);
      },
    });
    await made.settled(['a'], 1_000);
    expect([made.knows('a'), made.waiting]).toEqual([false, 0]);
    while (times.length < 4) {
      made.sweep(10_000, 100);
      await delay(5);
    }
    // At least 40, 80 and 160 ms apart; timers may fire a millisecond early.
    for (const [i, atMs] of times.slice(1).entries()) {
      expect(atMs - (times[i] ?? 0)).toBeGreaterThan(40 * 2 ** i - 2);
    }
    values.set('a', 'A');
    await expect
      .poll(() => {
        made.sweep(10_000, 100);
        return made.get('a');
      })
      .toBe('A');
  });

  test('refreshes a limited number of old keys, and none while unknown ones are queued', async () => {
    const values = new Map(['a', 'b', 'c', 'd'].map((key) => [key, key]));
    const { cache: made, asked } = cacheOf(values, { staleMs: 0, batchMax: 1 });
    for (const key of ['a', 'b', 'c']) made.restore(key, key);
    for (const key of ['a', 'b', 'c', 'd']) made.get(key);
    await delay(1);
    made.sweep(10_000, 2);
    await expect.poll(() => asked.flat()).toEqual(['d']);
    made.sweep(10_000, 2);
    await expect.poll(() => asked.flat().length).toBe(3);
  });

  test('requests restored keys only once they are old and used, and does not report them', async () => {
    const values = new Map([['a', 'A']]);
    const { cache: made, asked, changes } = cacheOf(values);
    made.restore('a', 'A');
    made.restore('b', 'B');
    expect(made.get('a')).toBe('A');
    await delay(60);
    made.sweep(10_000, 100);
    await expect.poll(() => asked.flat()).toEqual(['a']);
    expect(changes).toEqual([]);
    // A value that the service no longer has remains known.
    expect(made.get('b')).toBe('B');
  });

  test('evicts values beyond its limit, and requests them again on their next use', async () => {
    const values = new Map(['a', 'b', 'c'].map((key) => [key, key]));
    const { cache: made, asked } = cacheOf(values, { keysMax: 2, staleMs: 10_000 });
    await made.settled(values.keys(), 1_000);
    const lost = [...values.keys()].filter((key) => made.get(key) === undefined);
    expect(lost).toHaveLength(1);
    await made.settled(lost, 1_000);
    expect(asked.flat()).toEqual(['a', 'b', 'c', ...lost]);
  });

  test('stops waiting after the time limit, but keeps trying', async () => {
    const values = new Map([['a', 'A']]);
    let isDown = true;
    const { cache: made } = cacheOf(values, {
      fetch: async (keys) => {
        if (isDown) throw new Error('down');
        return new Map(keys.map((key) => [key, 'A']));
      },
    });
    await made.settled(['a'], 50);
    expect(made.waiting).toBe(1);
    isDown = false;
    await expect.poll(() => made.get('a'), { timeout: 2_000 }).toBe('A');
  });
});
