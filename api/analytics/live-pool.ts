/**
 * The bytes that all live sums share: what was asked for least recently leaves first. What has left is no longer followed, so
 * whoever waited for it has to check that it is still here.
 */
import { LRUCache } from 'lru-cache';

/** `bytes` are estimated. */
type Sized = { readonly trader: string; readonly bytes: () => number };

export class LivePool {
  readonly #all: LRUCache<string, Sized>;

  constructor(bytesMax: number) {
    this.#all = new LRUCache({ maxSize: bytesMax, sizeCalculation: (one) => one.bytes() });
  }

  /** The traders' entries of one kind. */
  kind<Entry extends Sized>(kind: string): Pool<Entry> {
    const all = this.#all;
    const keyOf = (trader: string) => `${kind} ${trader}`;
    const peek = (trader: string) => all.peek(keyOf(trader)) as Entry | undefined;
    const has = (entry: Entry) => peek(entry.trader) === entry;
    const add = (entry: Entry) => {
      all.set(keyOf(entry.trader), entry);
    };
    const drop = (entry: Entry) => {
      if (has(entry)) all.delete(keyOf(entry.trader));
    };
    const measure = (entry: Entry) => {
      if (!has(entry)) return;
      // Setting the same value again would keep its old size.
      drop(entry);
      add(entry);
    };
    return {
      ...{ peek, has, add, drop, measure },
      find(trader) {
        const entry = all.get(keyOf(trader)) as Entry | undefined;
        // New bookings may have made it larger.
        if (entry !== undefined) measure(entry);
        return entry;
      },
    };
  }

  get size() {
    return { entries: this.#all.size, bytes: this.#all.calculatedSize };
  }
}

export type Pool<Entry> = {
  /** Counts as asked for. */
  readonly find: (trader: string) => Entry | undefined;
  readonly peek: (trader: string) => Entry | undefined;
  readonly has: (entry: Entry) => boolean;
  readonly add: (entry: Entry) => void;
  /** Counts the bytes of an entry again, if it is still here. */
  readonly measure: (entry: Entry) => void;
  /** Removes an entry, if it is still here. */
  readonly drop: (entry: Entry) => void;
};
