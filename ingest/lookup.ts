/**
 * Metadata by key, fetched in batches from a service that may be slow or down. Reading is immediate:
 * what is not known yet is asked for, and the caller decides how long to wait. What the service does
 * not know is not asked again for a while; what was learned long ago is asked again when it is used.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';

const GATHER_MS = 10;
const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 30_000;
const KEYS_MAX = 500_000;

export type LookupOptions<Value> = {
  readonly name: string;
  readonly batchMax: number;
  readonly concurrentMax: number;
  readonly missingMs: number;
  readonly staleMs: number;
  /** Answers for some of the keys; a key without an answer is missing. Rejects when it cannot ask. */
  readonly fetch: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>;
  /** Called when a key's value is new or another than before. */
  readonly onChange: (key: string, value: Value) => void;
  readonly logger: Logger;
  readonly signal: AbortSignal;
};

type Entry<Value> = { readonly value: Value | undefined; readonly atMs: number };

export class Lookup<Value> {
  readonly #options: LookupOptions<Value>;
  readonly #entries = new Map<string, Entry<Value>>();
  readonly #waiting = new Map<string, PromiseWithResolvers<void>>();
  #queue: string[] = [];
  #running = 0;
  #scheduled = false;

  constructor(options: LookupOptions<Value>) {
    this.#options = options;
  }

  /** Puts back what was learned before a restart, without onChange. */
  restore(key: string, value: Value): void {
    this.#entries.set(key, { value, atMs: Date.now() });
  }

  /** What is known now; asks for the key in the background when it is unknown or old. */
  get(key: string): Value | undefined {
    const entry = this.#entries.get(key);
    const keepMs = entry?.value === undefined ? this.#options.missingMs : this.#options.staleMs;
    if (entry === undefined || Date.now() - entry.atMs > keepMs) this.#ask(key);
    return entry?.value;
  }

  /** Resolves when every key has been answered once, or after `waitMs`; never rejects. */
  async settled(keys: Iterable<string>, waitMs: number): Promise<void> {
    const asked: Promise<void>[] = [];
    for (const key of keys) {
      const known = this.#entries.has(key);
      this.get(key);
      const waiting = this.#waiting.get(key);
      if (!known && waiting !== undefined) asked.push(waiting.promise);
    }
    if (asked.length === 0) return;
    const timer = new AbortController();
    const timeout = delay(waitMs, undefined, { signal: timer.signal }).catch(() => undefined);
    await Promise.race([Promise.all(asked), timeout]);
    timer.abort();
  }

  #ask(key: string): void {
    if (this.#waiting.has(key)) return;
    this.#waiting.set(key, Promise.withResolvers<void>());
    this.#queue.push(key);
    this.#schedule();
  }

  #schedule(): void {
    if (this.#scheduled || this.#running >= this.#options.concurrentMax) return;
    this.#scheduled = true;
    setTimeout(() => {
      this.#scheduled = false;
      const keys = this.#queue.splice(0, this.#options.batchMax);
      if (keys.length === 0) return;
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
    for (let waitMs = RETRY_MIN_MS; !signal.aborted; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
      try {
        const found = await fetch(keys);
        for (const key of keys) this.#learn(key, found.get(key));
        return;
      } catch (error) {
        if (signal.aborted) return;
        logger.warn({ err: error, name, keys: keys.length, waitMs }, 'metadata not available');
        await delay(waitMs, undefined, { signal }).catch(() => undefined);
      }
    }
  }

  #learn(key: string, value: Value | undefined): void {
    const before = this.#entries.get(key)?.value;
    // What the service has forgotten stays known: metadata of old markets may be archived.
    const kept = value ?? before;
    this.#entries.delete(key);
    this.#entries.set(key, { value: kept, atMs: Date.now() });
    const oldest = this.#entries.keys().next();
    if (this.#entries.size > KEYS_MAX && !oldest.done) this.#entries.delete(oldest.value);
    this.#waiting.get(key)?.resolve();
    this.#waiting.delete(key);
    if (value !== undefined && JSON.stringify(value) !== JSON.stringify(before)) {
      this.#options.onChange(key, value);
    }
  }
}
