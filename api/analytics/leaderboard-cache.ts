/**
 * Encoded pages of the leaderboards, kept by query while the board is not refreshed and at most a
 * few seconds, because profiles on a page move on between refreshes. Requests for
 * the same page share one read. Where the store cannot answer, the last page goes on for a minute:
 * it is whole, and as old as a slow board's refresh at most. How many traders match a query is kept
 * for its refresh: all pages of the query tell it. Nothing else is kept.
 */

import { Problem } from '../errors.ts';
import type { Encoded } from '../response.ts';

const PAGES_MAX = 500;
const COUNTS_MAX = 500;
const FRESH_MS = 5_000;
const GENERATION_MS = 1_000;
const STALE_MS_MAX = 60_000;

export type Pages = {
  /**
   * The page of `key` on a board. `generation` tells the board's refresh; it is asked at most once
   * a second. Rejects with what `compute` or `generation` reject with, unless a page of the last
   * minute is there and the store is unavailable.
   */
  page(request: {
    readonly board: string;
    readonly key: string;
    readonly generation: () => Promise<string>;
    readonly compute: () => Promise<Encoded>;
  }): Promise<Encoded>;
  /**
   * The number that `count` gives for `key`, asked once a generation. Rejects with what `count`
   * rejects with, which is not kept.
   */
  count(request: {
    readonly key: string;
    readonly generation: string;
    readonly count: () => Promise<number>;
  }): Promise<number>;
};

type Kept = { readonly atMs: number; readonly generation: string; readonly page: Encoded };
type Counted = { readonly generation: string; readonly number: Promise<number> };
type Asked = { readonly atMs: number; readonly answer: Promise<string> };

/** `now` is in milliseconds and monotonic. */
export function createPages(now: () => number = () => performance.now()): Pages {
  const kept = new Map<string, Kept>();
  const underWay = new Map<string, Promise<Encoded>>();
  const generations = new Map<string, Asked>();
  const counts = new Map<string, Counted>();

  function generationOf(board: string, ask: () => Promise<string>): Promise<string> {
    const known = generations.get(board);
    if (known !== undefined && now() - known.atMs < GENERATION_MS) return known.answer;
    const asked: Asked = { atMs: now(), answer: ask() };
    generations.set(board, asked);
    // A failure is not kept: the next request asks again.
    asked.answer.catch(() => {
      if (generations.get(board) === asked) generations.delete(board);
    });
    return asked.answer;
  }

  function freshOf(key: string, generation: string): Encoded | undefined {
    const last = kept.get(key);
    if (last === undefined || last.generation !== generation) return undefined;
    return now() - last.atMs < FRESH_MS ? last.page : undefined;
  }

  const keep = (key: string, one: Kept) => setNewest(kept, key, one, PAGES_MAX);

  return {
    async page({ board, key, generation, compute }) {
      const last = kept.get(key);
      try {
        const current = await generationOf(board, generation);
        const fresh = freshOf(key, current);
        if (fresh !== undefined) return fresh;
        const name = `${current} ${key}`;
        const shared = underWay.get(name);
        if (shared !== undefined) return await shared;
        const computed = compute();
        underWay.set(name, computed);
        try {
          const page = await computed;
          keep(key, { atMs: now(), generation: current, page });
          return page;
        } finally {
          underWay.delete(name);
        }
      } catch (error) {
        const isUnavailable = error instanceof Problem && error.error === 'unavailable';
        if (!isUnavailable || last === undefined || now() - last.atMs > STALE_MS_MAX) throw error;
        return last.page;
      }
    },
    count({ key, generation, count }) {
      const known = counts.get(key);
      if (known?.generation === generation) return known.number;
      const counted: Counted = { generation, number: count() };
      setNewest(counts, key, counted, COUNTS_MAX);
      counted.number.catch(() => {
        if (counts.get(key) === counted) counts.delete(key);
      });
      return counted.number;
    },
  };
}

/** The map keeps the least recently computed first, and at most so many. */
function setNewest<Value>(map: Map<string, Value>, key: string, value: Value, max: number): void {
  map.delete(key);
  map.set(key, value);
  const [oldest] = map.keys();
  if (map.size > max && oldest !== undefined) map.delete(oldest);
}
