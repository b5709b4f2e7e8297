/**
 * What the reader has folded and the writer has not stored yet. One of each uses it; it bounds how far
 * the reader is ahead, and gathers rows for FLUSH_MS so that they share an insert.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { TailMessage } from '../infra/nats/reader.ts';
import { BATCH_ROWS_MAX, type BookedEvent } from './batch.ts';
import type { Fact } from './store.ts';

const QUEUE_ROWS_MAX = 50_000;
/** Longest time that a row waits for others to share its insert. */
const FLUSH_MS = 250;

/** What one LEDGER message became. */
export type Projected = { readonly booked?: BookedEvent; readonly fact?: Fact };

type Chunk = {
  readonly events: readonly BookedEvent[];
  readonly facts: readonly Fact[];
  /** Newest event with rows of each partition in this chunk. */
  readonly lasts: ReadonlyMap<number, BookedEvent>;
  readonly last: TailMessage | undefined;
};

export class Queue {
  #events: BookedEvent[] = [];
  #facts: Fact[] = [];
  #lasts = new Map<number, BookedEvent>();
  #last: TailMessage | undefined;
  #rows = 0;
  #closed = false;
  #changed = Promise.withResolvers<void>();

  push(message: TailMessage, { booked, fact }: Projected): void {
    this.#last = message;
    if (fact !== undefined) {
      this.#facts.push(fact);
      this.#rows += 1;
    }
    const row = booked?.rows[0];
    if (booked !== undefined && row !== undefined) {
      this.#events.push(booked);
      this.#rows += booked.rows.length;
      this.#lasts.set(row.partition, booked);
    }
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
  async take(signal: AbortSignal): Promise<Chunk | 'closed'> {
    while (this.#last === undefined && !this.#closed) await this.#changed.promise;
    const flushAt = Date.now() + FLUSH_MS;
    while (this.#last !== undefined && this.#rows < BATCH_ROWS_MAX && !this.#closed) {
      const leftMs = flushAt - Date.now();
      if (leftMs <= 0) break;
      await this.#wait(leftMs);
    }
    if (this.#closed && (this.#last === undefined || signal.aborted)) return 'closed';
    const chunk = {
      events: this.#events,
      facts: this.#facts,
      lasts: this.#lasts,
      last: this.#last,
    };
    this.#events = [];
    this.#facts = [];
    this.#lasts = new Map();
    this.#last = undefined;
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
