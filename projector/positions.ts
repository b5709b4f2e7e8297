/**
 * All open positions by market and trader, both given as small numbers: columns of plain integers
 * and one hash table over them. An object with three bigints takes four times the memory, and ten
 * million of them keep the collector at work (docs/decisions/0010-what-a-query-costs.md).
 */
import type { Position } from './position.ts';

const NONE = -1;
const SLOTS_AT_FIRST = 1_024;
/** Amounts of a slot, in this order: shares, cost basis, open fees. */
const AMOUNTS = 3;

export class Positions {
  /** Of each slot. `next` and `previous` join the slots of a market, `next` the free ones too. */
  #amounts = new BigInt64Array(SLOTS_AT_FIRST * AMOUNTS);
  #outcome = new Uint8Array(SLOTS_AT_FIRST);
  #market = new Int32Array(SLOTS_AT_FIRST);
  #trader = new Int32Array(SLOTS_AT_FIRST);
  #next = new Int32Array(SLOTS_AT_FIRST);
  #previous = new Int32Array(SLOTS_AT_FIRST);
  /** Slot + 1 by the hash of its key, 0 where there is none; at most half full. */
  #table = new Int32Array(SLOTS_AT_FIRST * 2);
  /** First slot of each market. */
  #first = new Int32Array(SLOTS_AT_FIRST).fill(NONE);
  #free = NONE;
  /** Slots that were ever used. */
  #used = 0;
  #size = 0;

  /** Open positions. */
  get size(): number {
    return this.#size;
  }

  get(market: number, trader: number): Position | undefined {
    const slot = (this.#table[this.#entryOf(market, trader)] as number) - 1;
    return slot === NONE ? undefined : this.#read(slot);
  }

  /** Throws RangeError for an amount beyond an Int64: the tables could not hold it either. */
  set(market: number, trader: number, position: Position): void {
    const entry = this.#entryOf(market, trader);
    const known = (this.#table[entry] as number) - 1;
    this.#write(known === NONE ? this.#add(market, trader) : known, position);
  }

  delete(market: number, trader: number): void {
    const entry = this.#entryOf(market, trader);
    const slot = (this.#table[entry] as number) - 1;
    if (slot === NONE) return;
    this.#empty(entry);
    const [before, after] = [this.#previous[slot] as number, this.#next[slot] as number];
    if (before === NONE) this.#first[market] = after;
    else this.#next[before] = after;
    if (after !== NONE) this.#previous[after] = before;
    this.#next[slot] = this.#free;
    this.#free = slot;
    this.#size -= 1;
  }

  /** The market's open positions, in no order; delete none meanwhile. */
  *of(market: number): Generator<readonly [trader: number, position: Position]> {
    if (market >= this.#first.length) return;
    for (
      let slot = this.#first[market] as number;
      slot !== NONE;
      slot = this.#next[slot] as number
    ) {
      yield [this.#trader[slot] as number, this.#read(slot)];
    }
  }

  #read(slot: number): Position {
    const at = slot * AMOUNTS;
    return {
      outcome: this.#outcome[slot] === 0 ? 0 : 1,
      shares: this.#amounts[at] as bigint,
      costBasis: this.#amounts[at + 1] as bigint,
      openFees: this.#amounts[at + 2] as bigint,
    };
  }

  #write(slot: number, { outcome, shares, costBasis, openFees }: Position): void {
    const at = slot * AMOUNTS;
    this.#outcome[slot] = outcome;
    this.#amounts[at] = int64(shares);
    this.#amounts[at + 1] = int64(costBasis);
    this.#amounts[at + 2] = int64(openFees);
  }

  /** A slot for a key that has none. */
  #add(market: number, trader: number): number {
    const slot = this.#free === NONE ? this.#used : this.#free;
    if (slot === this.#used) {
      if (slot === this.#outcome.length) this.#grow();
      this.#used += 1;
    } else {
      this.#free = this.#next[slot] as number;
    }
    while (market >= this.#first.length) {
      const longer = new Int32Array(this.#first.length * 2).fill(NONE);
      longer.set(this.#first);
      this.#first = longer;
    }
    const head = this.#first[market] as number;
    this.#market[slot] = market;
    this.#trader[slot] = trader;
    this.#previous[slot] = NONE;
    this.#next[slot] = head;
    if (head !== NONE) this.#previous[head] = slot;
    this.#first[market] = slot;
    this.#table[this.#entryOf(market, trader)] = slot + 1;
    this.#size += 1;
    return slot;
  }

  /** The table's entry of the key, or the empty one where it belongs. */
  #entryOf(market: number, trader: number): number {
    const mask = this.#table.length - 1;
    let entry = hash(market, trader) & mask;
    for (;;) {
      const slot = (this.#table[entry] as number) - 1;
      if (slot === NONE) return entry;
      if (this.#market[slot] === market && this.#trader[slot] === trader) return entry;
      entry = (entry + 1) & mask;
    }
  }

  /** Empties an entry; those behind it that it was in the way of move up. */
  #empty(entry: number): void {
    const mask = this.#table.length - 1;
    let hole = entry;
    for (let at = (hole + 1) & mask; ; at = (at + 1) & mask) {
      const slot = (this.#table[at] as number) - 1;
      if (slot === NONE) break;
      const home = hash(this.#market[slot] as number, this.#trader[slot] as number) & mask;
      if (((at - home) & mask) < ((at - hole) & mask)) continue;
      this.#table[hole] = slot + 1;
      hole = at;
    }
    this.#table[hole] = 0;
  }

  #grow(): void {
    const slots = this.#outcome.length * 2;
    this.#amounts = copied(this.#amounts, new BigInt64Array(slots * AMOUNTS));
    this.#outcome = copied(this.#outcome, new Uint8Array(slots));
    this.#market = copied(this.#market, new Int32Array(slots));
    this.#trader = copied(this.#trader, new Int32Array(slots));
    this.#next = copied(this.#next, new Int32Array(slots));
    this.#previous = copied(this.#previous, new Int32Array(slots));
    // Every slot is in use when there is no room.
    this.#table = new Int32Array(slots * 2);
    for (let slot = 0; slot < this.#used; slot++) {
      const entry = this.#entryOf(this.#market[slot] as number, this.#trader[slot] as number);
      this.#table[entry] = slot + 1;
    }
  }
}

function copied<Column extends BigInt64Array | Uint8Array | Int32Array>(
  from: Column,
  to: Column,
): Column {
  (to as Int32Array).set(from as Int32Array);
  return to;
}

function hash(market: number, trader: number): number {
  let mixed = Math.imul(market, 0x9e3779b1) ^ Math.imul(trader, 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 0x2c1b3c6d);
  return mixed ^ (mixed >>> 13);
}

function int64(amount: bigint): bigint {
  if (BigInt.asIntN(64, amount) === amount) return amount;
  throw new RangeError(`a position's amount is beyond 64 bits: ${amount}`);
}
