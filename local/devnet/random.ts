/**
 * A seeded random generator: the same key gives the same sequence everywhere. Its numbers control the
 * devnet's traders; they are never money and never secret.
 */
import { type Hex, keccak256, toHex } from 'viem';

export class Random {
  // sfc32, a small generator with 128 bits of state.
  #a: number;
  #b: number;
  #c: number;
  #d = 1;

  constructor(key: string) {
    const hash = keccak256(toHex(key));
    this.#a = Number.parseInt(hash.slice(2, 10), 16) | 0;
    this.#b = Number.parseInt(hash.slice(10, 18), 16) | 0;
    this.#c = Number.parseInt(hash.slice(18, 26), 16) | 0;
    for (let i = 0; i < 12; i++) this.word();
  }

  /** 32 random bits as an unsigned integer. */
  word(): number {
    const t = (((this.#a + this.#b) | 0) + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = (this.#c << 21) | (this.#c >>> 11);
    this.#c = (this.#c + t) | 0;
    return t >>> 0;
  }

  /** In [0, 1). */
  unit(): number {
    return this.word() / 0x1_0000_0000;
  }

  /** In [low, high). */
  between(low: number, high: number): number {
    return low + this.unit() * (high - low);
  }

  /** An integer in [0, bound). */
  below(bound: number): number {
    return Math.floor(this.unit() * bound);
  }

  chance(probability: number): boolean {
    return this.unit() < probability;
  }

  /** A random item. Throws if there is none. */
  pick<T>(items: readonly T[]): T {
    const item = items[this.below(items.length)];
    if (item === undefined) throw new RangeError('nothing to pick from');
    return item;
  }

  /** A random index, weighted. `weights` must contain a positive number. */
  weighted(weights: readonly number[]): number {
    let rest = this.unit() * weights.reduce((sum, weight) => sum + weight, 0);
    for (const [index, weight] of weights.entries()) {
      rest -= weight;
      if (rest < 0) return index;
    }
    return weights.length - 1;
  }

  hex(bytes: number): Hex {
    let text = '';
    while (text.length < bytes * 2) text += this.word().toString(16).padStart(8, '0');
    return `0x${text.slice(0, bytes * 2)}`;
  }
}
