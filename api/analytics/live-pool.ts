/** The bytes that all live sums share: whoever was asked for least recently leaves first, whatever was asked of it. */
import { LRUCache } from 'lru-cache';

/** `bytes` are estimated, and may change. */
type Sized = { readonly bytes: () => number };

export class LivePool {
  readonly #all: LRUCache<string, Sized>;

  constructor(bytesMax: number) {
    this.#all = new LRUCache({ maxSize: bytesMax, sizeCalculation: (one) => one.bytes() });
  }

  /** The traders' entries of one kind. */
  kind<Entry extends Sized>(kind: string): Pool<Entry> {
    const all = this.#all;
    const keyOf = (trader: string) => `${kind} ${trader}`;
    return {
      find(trader) {
        const entry = all.get(keyOf(trader)) as Entry | undefined;
        // It may have grown.
        if (entry !== undefined) all.set(keyOf(trader), entry);
        return entry;
      },
      peek: (trader) => all.peek(keyOf(trader)) as Entry | undefined,
      add: (trader, entry) => {
        all.set(keyOf(trader), entry);
      },
      drop(trader, entry) {
        if (all.peek(keyOf(trader)) === entry) all.delete(keyOf(trader));
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
  readonly add: (trader: string, entry: Entry) => void;
  /** Removes the entry if it is still this one. */
  readonly drop: (trader: string, entry: Entry) => void;
};
