/**
 * Caches metadata by key. Values are fetched in batches from a service that may be slow or down. Reading never blocks:
 * unknown keys are requested, and the caller decides how long to wait. Old values are refreshed a limited number at a
 * time, after all unknown keys. Only changes are reported. The number of keys is bounded; an evicted value is fetched
 * and reported again on its next use.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { upTo } from '../../infra/lru.ts';
import { retry } from '../../infra/retry.ts';

const GATHER_MS = 10;
/** Most keys without a response; about 150 bytes each. */
const WAITING_MAX = 200_000;
const MISSING_MAX_MS = 3_600_000;

export type MetadataCacheOptions<Value> = {
  readonly name: string;
  readonly batchMax: number;
  readonly concurrentMax: number;
  /** Pause after the service did not know a key; doubles each time, up to an hour. */
  readonly missingMs: number;
  /** Values older than this are refreshed. */
  readonly staleMs: number;
  /** Most keys in memory. */
  readonly keysMax: number;
  /** Values of the keys that the service knows. Rejects if the request fails. */
  readonly fetch: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;
  /** Called when a value is new or changed, one at a time. */
  readonly onChange: (value: Value) => Promise<void> | void;
  readonly logger: Logger;
  readonly signal: AbortSignal;
};

type Entry<Value> = {
  /** Undefined if the service has never returned one. */
  readonly value: Value | undefined;
  readonly atMs: number;
  /** Number of consecutive responses without a value. */
  readonly misses: number;
  usedAtMs: number;
};

export class MetadataCache<Value> {
  readonly #options: MetadataCacheOptions<Value>;
  readonly #entries: LRUCache<string, Entry<Value>>;
  /** Requested keys without a response yet, each with callbacks for it. */
  readonly #waiting = new Map<string, (() => void)[]>();
  /** Waiting keys that have not been sent in a request yet. */
  readonly #queue = new Set<string>();
  #running = 0;
  #isScheduled = false;

  constructor(options: MetadataCacheOptions<Value>) {
    this.#options = options;
    this.#entries = new LRUCache(upTo(options.keysMax));
  }

  /** Restores a value that was known before a restart, without onChange. */
  restore(key: string, value: Value): void {
    this.#entries.set(key, { value, atMs: now(), misses: 0, usedAtMs: Number.NEGATIVE_INFINITY });
  }

  /** The known value; an unknown key is requested in the background. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined) this.#request(key);
    else entry.usedAtMs = now();
    return entry?.value;
  }

  /** Resolves when every key has had one response, or after `waitMs`; never rejects. */
  async settled(keys: Iterable<string>, waitMs: number): Promise<void> {
    const responses: Promise<void>[] = [];
    for (const key of keys) {
      this.get(key);
      const waiting = this.#waiting.get(key);
      if (waiting === undefined || this.#entries.has(key) || waitMs <= 0) continue;
      responses.push(new Promise((resolve) => waiting.push(resolve)));
    }
    if (responses.length === 0) return;
    const timer = new AbortController();
    const timeout = delay(waitMs, undefined, { signal: timer.signal }).catch(() => undefined);
    await Promise.race([Promise.all(responses), timeout]);
    timer.abort();
  }

  /** Whether the key's value is known. */
  knows(key: string): boolean {
    return this.#entries.peek(key)?.value !== undefined;
  }

  /**
   * Requests up to `countMax` old values, and missing ones whose pause is over, again. Only keys that were used within
   * `usedMs` count, most recently used first. Does nothing while unknown keys are queued.
   */
  sweep(usedMs: number, countMax: number): void {
    if (this.#queue.size > 0) return;
    const usedSince = now() - usedMs;
    for (const [key, entry] of this.#entries.entries()) {
      if (this.#queue.size >= countMax) return;
      if (entry.usedAtMs > usedSince && this.#isDue(entry)) this.#request(key);
    }
  }

  /** Number of keys without a response yet. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /** Stores the service's response for a key. Resolves when `onChange` has processed a change. */
  async learn(key: string, value: Value | undefined): Promise<void> {
    const before = this.#entries.peek(key);
    this.#entries.set(key, {
      // Keep a value that the service no longer returns: it may archive old markets.
      value: value ?? before?.value,
      atMs: now(),
      misses: value === undefined ? (before?.misses ?? 0) + 1 : 0,
      usedAtMs: before?.usedAtMs ?? now(),
    });
    for (const wake of this.#waiting.get(key) ?? []) wake();
    this.#waiting.delete(key);
    if (value === undefined || isDeepStrictEqual(value, before?.value)) return;
    await this.#options.onChange(value);
  }

  #isDue({ value, atMs, misses }: Entry<Value>): boolean {
    const { missingMs, staleMs } = this.#options;
    const pauseMs =
      value === undefined ? Math.min(missingMs * 2 ** (misses - 1), MISSING_MAX_MS) : staleMs;
    return now() - atMs > pauseMs;
  }

  #request(key: string): void {
    // Beyond the limit, the key is requested on its next use.
    if (this.#waiting.has(key) || this.#waiting.size >= WAITING_MAX) return;
    this.#waiting.set(key, []);
    this.#queue.add(key);
    this.#schedule();
  }

  #schedule(): void {
    const { batchMax, concurrentMax, signal } = this.#options;
    if (this.#isScheduled || this.#running >= concurrentMax || signal.aborted) return;
    if (this.#queue.size === 0) return;
    this.#isScheduled = true;
    setTimeout(() => {
      this.#isScheduled = false;
      const keys = [...this.#queue].slice(0, batchMax);
      for (const key of keys) this.#queue.delete(key);
      this.#running += 1;
      void this.#fetch(keys).finally(() => {
        this.#running -= 1;
        this.#schedule();
      });
      this.#schedule();
    }, GATHER_MS);
  }

  async #fetch(keys: readonly string[]): Promise<void> {
    const { fetch, signal, logger, name } = this.#options;
    try {
      const found = await retry(() => fetch(keys), {
        signal,
        isRetryable: () => true,
        onRetry: (err) =>
          logger.debug({ err, name, keys: keys.length }, 'metadata could not be fetched, retrying'),
      });
      for (const key of keys) {
        if (signal.aborted) return;
        await this.learn(key, found.get(key));
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }
}

/** Monotonic, so that a change of the system clock does not affect refreshes. */
function now(): number {
  return performance.now();
}
