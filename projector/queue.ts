/**
 * What the reader has folded and the writer has not stored yet. One of each uses it; it bounds how far
 * the reader is ahead, and gathers rows for FLUSH_MS so that they share an insert.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { BATCH_ROWS_MAX, type BookedEvent } from './batch.ts';
import type { Fact } from './store.ts';

const QUEUE_ROWS_MAX = 50_000;
/** Longest time that a row waits for others to share its insert. */
const FLUSH_MS = 250;

/** Everything up to the end of a block is folded or stored; `time` is the block's, seconds since the epoch. */
export type Reached = { readonly block: number; readonly time: number };

/** What one or more LEDGER messages became; events and facts are in chain order. */
export type Projected = {
  readonly events: readonly BookedEvent[];
  readonly facts: readonly Fact[];
  readonly reached: Reached;
};

export class Queue {
  #events: BookedEvent[] = [];
  #facts: Fact[] = [];
  #reached: Reached | undefined;
  #rows = 0;
  #closed = false;
  #changed = Promise.withResolvers<void>();

  push({ events, facts, reached }: Projected): void {
    this.#reached = reached;
    for (const fact of facts) this.#facts.push(fact);
    for (const event of events) {
      this.#events.push(event);
      this.#rows += event.rows.length;
    }
    this.#rows += facts.length;
    this.#notify();
  }

  /** Resolves when the reader may go on. */
  async room(): Promise<void> {
    while (this.#rows >= QUEUE_ROWS_MAX && !this.#closed) await this.#changed.promise;
  }

  close(): void {
    this.#closed = true;
    this.#notify();
  }

  /** All that waits, once it is a full batch or FLUSH_MS passed. */
  async take(signal: AbortSignal): Promise<Projected | 'closed'> {
    while (this.#reached === undefined && !this.#closed) await this.#changed.promise;
    const flushAt = Date.now() + FLUSH_MS;
    while (this.#reached !== undefined && this.#rows < BATCH_ROWS_MAX && !this.#closed) {
      const leftMs = flushAt - Date.now();
      if (leftMs <= 0) break;
      await this.#wait(leftMs);
    }
    if (this.#reached === undefined || (this.#closed && signal.aborted)) return 'closed';
    const chunk = { events: this.#events, facts: this.#facts, reached: this.#reached };
    this.#events = [];
    this.#facts = [];
    this.#reached = undefined;
    this.#rows = 0;
    this.#notify();
    return chunk;
  }

  #notify(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers<void>();
  }

  async #wait(milliseconds: number): Promise<void> {
    const timer = new AbortController();
    await Promise.race([
      this.#changed.promise,
      delay(milliseconds, undefined, { signal: timer.signal }).catch(() => undefined),
    ]);
    timer.abort();
  }
}
