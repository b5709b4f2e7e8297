/**
 * The newest events of the feed in memory, in stream order without a hole between the first and the
 * last. Bounded by number and by bytes of the messages; the oldest leave first.
 */
import type { FeedEvent } from './event.ts';

export class Ring {
  readonly #slots: (FeedEvent | undefined)[] = [];
  readonly #eventsMax: number;
  readonly #bytesMax: number;
  /** Sequences of the oldest event held, and of the one after the newest. */
  #first = 0;
  #next = 0;
  #bytes = 0;

  constructor(eventsMax: number, bytesMax: number) {
    this.#eventsMax = eventsMax;
    this.#bytesMax = bytesMax;
  }

  /** The oldest event; undefined while the ring is empty. */
  get oldest(): FeedEvent | undefined {
    return this.at(this.#first);
  }

  /** Adds the newest event. One that does not follow the last empties the ring before. */
  push(event: FeedEvent): void {
    if (event.sequence !== this.#next) this.clear();
    if (this.#first === this.#next) this.#first = event.sequence;
    if (event.sequence - this.#first >= this.#eventsMax) this.#dropOldest();
    this.#slots[event.sequence % this.#eventsMax] = event;
    this.#next = event.sequence + 1;
    this.#bytes += event.bytes;
    // The newest stays, whatever its size.
    while (this.#bytes > this.#bytesMax && this.#first < event.sequence) this.#dropOldest();
  }

  /** The event at a sequence; undefined when the ring does not hold it. */
  at(sequence: number): FeedEvent | undefined {
    if (sequence < this.#first || sequence >= this.#next) return undefined;
    return this.#slots[sequence % this.#eventsMax];
  }

  clear(): void {
    this.#slots.length = 0;
    this.#first = 0;
    this.#next = 0;
    this.#bytes = 0;
  }

  #dropOldest(): void {
    this.#bytes -= this.oldest?.bytes ?? 0;
    this.#slots[this.#first % this.#eventsMax] = undefined;
    this.#first += 1;
  }
}
