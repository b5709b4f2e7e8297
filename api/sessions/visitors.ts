/**
 * Open event streams of visitors, who have no key. Each process counts addresses on its own and in bounded memory, so
 * that visitors from many addresses cannot fill the records that the processes share. The quotas of the demo tier apply
 * to each address, and one more quota to all visitors of the process.
 */
import { randomUUID } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { TIERS } from '../auth/tiers.ts';
import type { Caller } from '../http/caller.ts';
import { quotaExceeded } from '../http/errors.ts';
import type { OpenSession } from './record.ts';

/** Open event streams of all visitors in one process. */
export const VISITOR_SESSIONS_MAX = 500;
/** Maximum addresses whose usage of today is remembered. */
const ADDRESSES_MAX = 10_000;
const DAY_MS = 86_400_000;

type Visitor = { open: number; day: number; usedMs: number };
type Own = {
  readonly visitor: Visitor;
  readonly overQuota: PromiseWithResolvers<void>;
  countedMs: number;
};

export class Visitors {
  readonly #now: () => number;
  readonly #visitors = new LRUCache<string, Visitor>({ max: ADDRESSES_MAX });
  readonly #own = new Set<Own>();

  /** `now` is in milliseconds since the epoch. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Throws Problem 403 if a quota is used up. */
  open({ keyHash, tier }: Caller): OpenSession {
    const { sessionsMax, streamSecondsPerDayMax } = TIERS[tier];
    const visitor = this.#visitor(keyHash);
    if (visitor.open >= sessionsMax) {
      throw quotaExceeded('max_sessions', tier, sessionsMax, visitor.open);
    }
    if (this.#own.size >= VISITOR_SESSIONS_MAX) {
      throw quotaExceeded('visitor_sessions', tier, VISITOR_SESSIONS_MAX, this.#own.size);
    }
    const usedSeconds = Math.floor(visitor.usedMs / 1_000);
    if (streamSecondsPerDayMax !== null && usedSeconds >= streamSecondsPerDayMax) {
      throw quotaExceeded('stream_seconds_per_day', tier, streamSecondsPerDayMax, usedSeconds);
    }
    const own = { visitor, overQuota: Promise.withResolvers<void>(), countedMs: this.#now() };
    this.#own.add(own);
    visitor.open += 1;
    return {
      id: randomUUID(),
      overQuota: own.overQuota.promise,
      close: () => {
        this.#count(own);
        this.#own.delete(own);
        visitor.open -= 1;
      },
    };
  }

  /** Counts the time since the last call, and ends the sessions of visitors who have used up their time. */
  count(): void {
    for (const own of this.#own) this.#count(own);
    const { streamSecondsPerDayMax } = TIERS.demo;
    if (streamSecondsPerDayMax === null) return;
    for (const { visitor, overQuota } of this.#own) {
      if (visitor.usedMs >= streamSecondsPerDayMax * 1_000) overQuota.resolve();
    }
  }

  #count(own: Own): void {
    const now = this.#now();
    turnDay(own.visitor, now);
    own.visitor.usedMs += Math.max(0, now - own.countedMs);
    own.countedMs = now;
  }

  #visitor(address: string): Visitor {
    const known = this.#visitors.get(address) ?? { open: 0, day: 0, usedMs: 0 };
    this.#visitors.set(address, known);
    turnDay(known, this.#now());
    return known;
  }
}

function turnDay(visitor: Visitor, nowMs: number): void {
  const day = Math.floor(nowMs / DAY_MS);
  if (day === visitor.day) return;
  visitor.day = day;
  visitor.usedMs = 0;
}
