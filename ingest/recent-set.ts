/**
 * The newest members of a set, in two halves: when the newer one is full, the older one goes as a whole.
 * Taking the oldest out of a Set one by one is slow: each look for it passes all that went before it.
 */
export class RecentSet {
  readonly #sizeMin: number;
  #newer = new Set<string>();
  #older: ReadonlySet<string> = new Set();

  /** Holds the newest `sizeMin` members at least, and less than twice as many. */
  constructor(sizeMin: number) {
    this.#sizeMin = sizeMin;
  }

  has(member: string): boolean {
    return this.#newer.has(member) || this.#older.has(member);
  }

  add(member: string): void {
    this.#newer.add(member);
    if (this.#newer.size < this.#sizeMin) return;
    this.#older = this.#newer;
    this.#newer = new Set();
  }
}
