/**
 * Rows of 64-bit integers in two arrays, in the order of their keys. The busiest traders have thousands of markets, and a
 * row takes less than a third of the memory of an object. Adding or removing one moves those behind it.
 */

/** How much longer an array without room becomes. */
const GROWTH = 1.25;

export class PackedRows {
  readonly #columns: number;
  #keys: Int32Array;
  #values: BigInt64Array;
  #size = 0;

  /** With room for so many rows. */
  constructor(columns: number, room = 0) {
    this.#columns = columns;
    this.#keys = new Int32Array(room);
    this.#values = new BigInt64Array(room * columns);
  }

  get size(): number {
    return this.#size;
  }

  get bytes(): number {
    return this.#keys.byteLength + this.#values.byteLength;
  }

  /** The key of a row, from 0 to 2^31 − 1. */
  key(row: number): number {
    return this.#keys[row] ?? 0;
  }

  get(row: number, column: number): bigint {
    return this.#values[row * this.#columns + column] ?? 0n;
  }

  set(row: number, column: number, value: bigint): void {
    this.#values[row * this.#columns + column] = value;
  }

  /** The row with this key. Rows that are added or removed change its place. */
  find(key: number): number | undefined {
    const row = this.#place(key);
    return row < this.#size && this.#keys[row] === key ? row : undefined;
  }

  /** The row with this key, added with zeros if there is none. In the order of keys, this takes the least time. */
  open(key: number): number {
    const row = this.#place(key);
    if (row < this.#size && this.#keys[row] === key) return row;
    if (this.#size === this.#keys.length) this.#grow();
    const begin = row * this.#columns;
    this.#keys.copyWithin(row + 1, row, this.#size);
    this.#values.copyWithin(begin + this.#columns, begin, this.#size * this.#columns);
    this.#keys[row] = key;
    this.#values.fill(0n, begin, begin + this.#columns);
    this.#size += 1;
    return row;
  }

  remove(row: number): void {
    this.#keys.copyWithin(row, row + 1, this.#size);
    const [begin, end] = [row * this.#columns, this.#size * this.#columns];
    this.#values.copyWithin(begin, begin + this.#columns, end);
    this.#size -= 1;
  }

  /** The first row whose key is not smaller. */
  #place(key: number): number {
    let [from, to] = [0, this.#size];
    if (to > 0 && key > this.key(to - 1)) return to;
    while (from < to) {
      const middle = (from + to) >>> 1;
      if (this.key(middle) < key) from = middle + 1;
      else to = middle;
    }
    return from;
  }

  #grow(): void {
    const room = Math.ceil((this.#size + 1) * GROWTH);
    const keys = new Int32Array(room);
    keys.set(this.#keys);
    this.#keys = keys;
    const values = new BigInt64Array(room * this.#columns);
    values.set(this.#values);
    this.#values = values;
  }
}
