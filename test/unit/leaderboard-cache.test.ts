import { setImmediate as turn } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { createLeaderboardCache } from '../../api/analytics/leaderboard-cache.ts';
import { Problem, unavailable } from '../../api/http/errors.ts';
import { Encoded } from '../../api/http/response.ts';

/** A cache of a board that counts its reads; `down` makes the store unavailable. */
function counted() {
  const state = { nowMs: 0, refresh: 1, down: false, reads: 0, asked: 0 };
  // lru-cache treats time 0 as unset.
  const pages = createLeaderboardCache(() => state.nowMs + 1);
  const guard = <Value>(value: Value): Value => {
    if (state.down) throw unavailable('down');
    return value;
  };
  const read = (key = 'a', board = '1H'): Promise<Encoded> =>
    pages.page({
      board,
      key,
      signal: null,
      generation: async () => {
        state.asked++;
        return guard(`refresh ${state.refresh}`);
      },
      compute: async () => {
        const number = ++state.reads;
        await turn();
        return guard(new Encoded('json', JSON.stringify({ key, number })));
      },
    });
  const text = async (key?: string) => (await read(key)).body.toString();
  return { state, read, text };
}

describe('the leaderboard cache', () => {
  test('reads once for concurrent requests', async () => {
    const { state, text } = counted();
    const answers = await Promise.all(Array.from({ length: 50 }, () => text()));
    expect([new Set(answers).size, state.reads, state.asked]).toEqual([1, 1, 1]);
  });

  test('caches a page until the board is refreshed, for at most five seconds', async () => {
    const { state, text } = counted();
    await text();
    state.nowMs = 4_999;
    expect(await text()).toBe('{"key":"a","number":1}');
    state.nowMs = 5_000;
    expect(await text()).toBe('{"key":"a","number":2}');
  });

  test('keeps the as-of time of a summed board for ten seconds, separately for each board', () => {
    let nowMs = 1_000;
    const boards = createLeaderboardCache(() => nowMs);
    const asOf = (board: string) => boards.asOf(board, () => nowMs);
    expect(asOf('a')).toBe(1);
    nowMs = 10_999;
    expect([asOf('a'), asOf('b')]).toEqual([1, 10]);
    nowMs = 11_001;
    expect([asOf('a'), asOf('b')]).toEqual([11, 10]);
  });

  test('reads again within a second of a refresh', async () => {
    const { state, text } = counted();
    await text();
    state.refresh = 2;
    state.nowMs = 999;
    expect(await text()).toContain('"number":1');
    state.nowMs = 1_001;
    expect(await text()).toContain('"number":2');
  });

  test('caches each page by its own query', async () => {
    const { state, text } = counted();
    for (let query = 0; query < 50; query++) await text(`query ${query}`);
    expect(await text('query 0')).toBe('{"key":"query 0","number":1}');
    expect(state.reads).toBe(50);
  });

  test('serves the last page for a minute while the store is down, then rejects with 503', async () => {
    const { state, text } = counted();
    await text();
    state.down = true;
    state.nowMs = 60_000;
    expect(await text()).toContain('"number":1');
    state.nowMs = 60_001;
    await expect(text()).rejects.toThrow(Problem);
    await expect(text('never read')).rejects.toThrow(Problem);
    state.down = false;
    expect(await text()).toContain('"number":2');
  });

  test('counts once per refresh for all pages of a query', async () => {
    const pages = createLeaderboardCache();
    let asked = 0;
    const count = (key: string, generation: string) =>
      pages.count(key, generation, async () => ++asked);
    const of1 = await Promise.all([count('a', '1'), count('a', '1'), count('b', '1')]);
    expect(of1).toEqual([1, 1, 2]);
    expect([await count('a', '1'), await count('a', '2'), await count('a', '2')]).toEqual([
      1, 3, 3,
    ]);
  });

  test('counts again after a failure', async () => {
    const pages = createLeaderboardCache();
    const down = pages.count('a', '1', () => Promise.reject(unavailable('down')));
    await expect(down).rejects.toThrow('down');
    expect(await pages.count('a', '1', async () => 7)).toBe(7);
  });
});
