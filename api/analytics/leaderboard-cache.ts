/**
 * Caches encoded leaderboard pages by query until the board is refreshed, but at most five seconds, because profiles
 * change between refreshes. While the store is unavailable, the last page is served for up to a minute: it is
 * consistent, and no older than a slow board can be.
 */
import { LRUCache } from 'lru-cache';
import { createAnswers } from '../http/answers.ts';
import type { KeepRequest } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import type { Encoded } from '../http/response.ts';

const PAGES_BYTES_MAX = 32 * 1024 * 1024;
const COUNTS_MAX = 500;
const BOARDS_MAX = 500;
const FRESH_MS = 5_000;
const GENERATION_MS = 1_000;
/** Boards that are summed per request share one as-of second for this long. */
const AS_OF_MS = 10_000;
const STALE_MS_MAX = 60_000;

export type LeaderboardCache = ReturnType<typeof createLeaderboardCache>;

type PageRequest = KeepRequest & {
  readonly board: string;
  /** Identifies the board's refresh. */
  readonly generation: () => Promise<string>;
};

/** `now` is in milliseconds and monotonic. */
export function createLeaderboardCache(now: () => number = () => performance.now()) {
  const clock = { perf: { now }, ttlResolution: 0 };
  const generations = new LRUCache<string, string, () => Promise<string>>({
    ...{ ...clock, max: BOARDS_MAX, ttl: GENERATION_MS },
    fetchMethod: (_board, _stale, { context }) => context(),
  });
  const pages = createAnswers({ bytesMax: PAGES_BYTES_MAX, now });
  const counts = new LRUCache<string, number, () => Promise<number>>({
    ...{ max: COUNTS_MAX, ignoreFetchAbort: true },
    fetchMethod: (_key, _stale, { context }) => context(),
  });

  const times = new LRUCache<string, number>({ ...clock, max: BOARDS_MAX, ttl: AS_OF_MS });

  return {
    /**
     * The page of `key` on a board; `generation` is called at most once a second. Concurrent calls for a page share one
     * `compute`. Rejects with the error of `compute` or `generation`, unless the store is unavailable and a page of the
     * last minute is cached.
     */
    async page({ board, generation, ...request }: PageRequest): Promise<Encoded> {
      try {
        const version = await generations.forceFetch(board, { context: generation });
        return await pages.get({ ...request, version, ageMsMax: FRESH_MS });
      } catch (error) {
        const isUnavailable = error instanceof Problem && error.error === 'unavailable';
        const last = isUnavailable ? pages.last(request.key, STALE_MS_MAX) : undefined;
        if (last === undefined) throw error;
        return last;
      }
    },
    /** The as-of time of a summed board in epoch seconds; constant for ten seconds. */
    asOf(board: string, nowMs: () => number): number {
      const known = times.get(board);
      if (known !== undefined) return known;
      const asOf = Math.floor(nowMs() / 1_000);
      times.set(board, asOf);
      return asOf;
    },
    /** The number that `count` returns for `key`, called once per generation. Errors are not cached. */
    count(key: string, generation: string, count: () => Promise<number>): Promise<number> {
      return counts.forceFetch(`${generation} ${key}`, { context: count });
    },
  };
}
