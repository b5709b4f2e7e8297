/**
 * Metadata by key, fetched in batches from a service that may be slow or down. Reading never blocks:
 * unknown keys are requested, and the caller decides how long to wait. Unknown keys are requested before
 * old ones, which are refreshed at a limited rate. A digest of each value outlives the value, so that
 * only changes are reported. Values, digests and pending keys are bounded.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { retry } from '../infra/retry.ts';

const GATHER_MS = 10;
/** About 150 bytes each. */
const KEYS_MAX = 300_000;
/** Pending keys; about 150 bytes each. */
const WAITING_MAX = 200_000;
const MISSING_MAX_MS = 3_600_000;

export type MetadataCacheOptions<Value> = {
  readonly name: string;
  readonly batchMax: number;
  readonly concurrentMax: number;
  /** Pause after the service did not know a key; doubles each time, up to an hour. */
  readonly missingMs: number;
  /** A value of this age is requested again on its next use. */
  readonly staleMs: number;
  /** Number of values in memory; the digests of evicted ones stay. */
  readonly valuesMax: number;
  /** Batches per minute for known but old values. */
  readonly refreshesMax: number;
  /** Values of the keys that the service knows. Rejects if the request fails. */
  readonly fetch: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;
  /** Called when a value is new or changed, one at a time. */
  readonly onChange: (key: string, value: Value) => Promise<void> | void;
  readonly logger: Logger;
  readonly signal: AbortSignal;
};

/** `digest` is 0 if the service did not know the key, `misses` times in a row. */
type Entry = {
  readonly digest: number;
  readonly atMs: number;
  readonly misses: number;
  usedAtMs: number;
};

export class MetadataCache<Value> {
  readonly #options: MetadataCacheOptions<Value>;
  /** In the order of `atMs`. */
  readonly #entries = new Map<string, Entry>();
  readonly #values: LRUCache<string, { readonly value: Value }>;
  /** Keys whose last response contained no value. */
  readonly #missing = new Set<string>();
  /** Keys that were requested, and the callbacks for their response. */
  readonly #waiting = new Map<string, (() => void)[]>();
  readonly #urgent = new Set<string>();
  readonly #refreshing = new Set<string>();
  #refreshAtMs = 0;
  #running = 0;
  #scheduled = false;

  constructor(options: MetadataCacheOptions<Value>) {
    this.#options = options;
    this.#values = new LRUCache({ max: options.valuesMax });
  }

  /** Restores a value that was known before a restart, without onChange. */
  restore(key: string, value: Value): void {
    const usedAtMs = Number.NEGATIVE_INFINITY;
    this.#remember(key, { digest: digestOf(value), atMs: now(), misses: 0, usedAtMs });
    this.#values.set(key, { value });
  }

  /** The known value; an unknown or old key is requested in the background. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    const value = this.#values.get(key)?.value;
    if (entry !== undefined) entry.usedAtMs = now();
    if (entry === undefined || (entry.digest !== 0 && value === undefined)) {
      this.#ask(key, this.#urgent);
    } else if (this.#isDue(entry)) {
      this.#ask(key, entry.digest === 0 ? this.#urgent : this.#refreshing);
    }
    return value;
  }

  /** Resolves when every key has had one response, or after `waitMs`; never rejects. */
  async settled(keys: Iterable<string>, waitMs: number): Promise<void> {
    const asked: Promise<void>[] = [];
    for (const key of keys) {
      const isKnown = this.get(key) !== undefined || this.#missing.has(key);
      const waiting = this.#waiting.get(key);
      if (isKnown || waiting === undefined || waitMs <= 0) continue;
      asked.push(new Promise((resolve) => waiting.push(resolve)));
    }
    if (asked.length === 0) return;
    const timer = new AbortController();
    const timeout = delay(waitMs, undefined, { signal: timer.signal }).catch(() => undefined);
    await Promise.race([Promise.all(asked), timeout]);
    timer.abort();
  }

  /** Whether the key's value, or its digest, is known. */
  knows(key: string): boolean {
    return (this.#entries.get(key)?.digest ?? 0) !== 0;
  }

  /** Stores a value from another source; resolves when onChange has processed a change. */
  async learn(key: string, value: Value): Promise<void> {
    await this.#learned(key, value);
  }

  /** Requests old values that were used within `usedMs`, and missing keys whose pause is over. */
  sweep(usedMs: number): void {
    const oldest = now() - this.#options.staleMs;
    const usedSince = now() - usedMs;
    for (const [key, entry] of this.#entries) {
      if (entry.atMs > oldest) break;
      const wanted = entry.digest !== 0 && entry.usedAtMs > usedSince;
      if (wanted) this.#ask(key, this.#refreshing);
    }
    for (const key of this.#missing) {
      const entry = this.#entries.get(key);
      if (entry !== undefined && this.#isDue(entry)) this.#ask(key, this.#refreshing);
    }
  }

  /** Figures for metrics. */
  get state() {
    return {
      known: this.#entries.size - this.#missing.size,
      missing: this.#missing.size,
      waiting: this.#waiting.size,
    };
  }

  #isDue({ digest, atMs, misses }: Entry): boolean {
    const { missingMs, staleMs } = this.#options;
    const keepMs = digest === 0 ? Math.min(missingMs * 2 ** (misses - 1), MISSING_MAX_MS) : staleMs;
    return now() - atMs > keepMs;
  }

  #ask(key: string, queue: Set<string>): void {
    if (this.#waiting.has(key)) {
      // It was queued only for a refresh; now a caller needs it.
      if (queue === this.#urgent && this.#refreshing.delete(key)) this.#urgent.add(key);
      return;
    }
    // The next use of the key tries again.
    if (this.#waiting.size >= WAITING_MAX) return;
    this.#waiting.set(key, []);
    queue.add(key);
    this.#schedule();
  }

  #schedule(): void {
    const { concurrentMax, signal } = this.#options;
    if (this.#scheduled || this.#running >= concurrentMax || signal.aborted) return;
    if (this.#urgent.size + this.#refreshing.size === 0) return;
    this.#scheduled = true;
    setTimeout(() => {
      this.#scheduled = false;
      this.#begin();
    }, GATHER_MS);
  }

  #begin(): void {
    const { batchMax, refreshesMax } = this.#options;
    const isRefresh = this.#urgent.size === 0;
    // A paused refresh checks again after GATHER_MS, because an urgent key may arrive meanwhile.
    if (!isRefresh || (this.#refreshing.size > 0 && now() >= this.#refreshAtMs)) {
      const keys = take(isRefresh ? this.#refreshing : this.#urgent, batchMax);
      if (isRefresh) this.#refreshAtMs = now() + 60_000 / refreshesMax;
      this.#running += 1;
      void this.#fetch(keys).finally(() => {
        this.#running -= 1;
        this.#schedule();
      });
    }
    this.#schedule();
  }

  async #fetch(keys: readonly string[]): Promise<void> {
    const { fetch, signal, logger, name } = this.#options;
    try {
      const found = await retry(() => fetch(keys), {
        signal,
        isRetryable: () => true,
        onRetry: (err) => logger.debug({ err, name, keys: keys.length }, 'metadata not available'),
      });
      for (const key of keys) {
        if (signal.aborted) return;
        await this.#learned(key, found.get(key));
      }
    } catch (error) {
      if (!signal.aborted) throw error;
    }
  }

  async #learned(key: string, value: Value | undefined): Promise<void> {
    const before = this.#entries.get(key);
    const usedAtMs = before?.usedAtMs ?? now();
    // A value that the service no longer returns remains known: old markets may be archived.
    const digest = value === undefined ? (before?.digest ?? 0) : digestOf(value);
    const misses = value === undefined ? (before?.misses ?? 0) + 1 : 0;
    this.#remember(key, { digest, atMs: now(), misses, usedAtMs });
    if (value !== undefined) this.#values.set(key, { value });
    for (const wake of this.#waiting.get(key) ?? []) wake();
    this.#waiting.delete(key);
    if (value !== undefined && digest !== before?.digest) await this.#options.onChange(key, value);
  }

  #remember(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    if (entry.digest === 0) this.#missing.add(key);
    else this.#missing.delete(key);
    const oldest = this.#entries.keys().next();
    if (this.#entries.size <= KEYS_MAX || oldest.done) return;
    this.#entries.delete(oldest.value);
    this.#missing.delete(oldest.value);
    this.#values.delete(oldest.value);
  }
}

/** 48 bits of a hash of the content, never 0; a number needs a tenth of the memory of a text. */
function digestOf(value: unknown): number {
  return createHash('sha1').update(JSON.stringify(value)).digest().readUIntBE(0, 6) + 1;
}

function take(queue: Set<string>, count: number): readonly string[] {
  const keys: string[] = [];
  for (const key of queue) {
    if (keys.length === count) break;
    keys.push(key);
  }
  for (const key of keys) queue.delete(key);
  return keys;
}

/** Monotonic, so that setting the clock neither hurries nor stops a refresh. */
function now(): number {
  return performance.now();
}
