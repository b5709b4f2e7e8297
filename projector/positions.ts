/**
 * All open positions by market and trader, both identified by small numbers. Stores columns of integers with one hash
 * table: objects with three bigints would take four times the memory, and ten million of them would keep the garbage
 * collector busy (docs/decisions/0002-clickhouse-is-the-checkpoint.md).
 */
import type { Position } from './position.ts';

const NONE = -1;
const SLOTS_INITIAL = 1_024;
/** Amounts of a slot, in this order: shares, cost basis, open fees. */
const AMOUNTS = 3;

export class Positions {
  /** By slot. `next` and `previous` link the slots of a market; `next` also links the free slots. */
  #amounts = new BigInt64Array(SLOTS_INITIAL * AMOUNTS);
  #outcome = new Uint8Array(SLOTS_INITIAL);
  #market = new Int32Array(SLOTS_INITIAL);
  #trader = new Int32Array(SLOTS_INITIAL);
  #next = new Int32Array(SLOTS_INITIAL);
  #previous = new Int32Array(SLOTS_INITIAL);
  /** Open addressing: slot + 1 by the hash of its key, 0 if empty; at most half full. */
  #table = new Int32Array(SLOTS_INITIAL * 2);
  /** First slot of each market. */
  #first = new Int32Array(SLOTS_INITIAL).fill(NONE);
  #free = NONE;
  /** Slots that have ever been used. */
  #used = 0;
  #size = 0;

  /** Number of open positions. */
  get size(): number {
    return this.#size;
  }

  get(market: number, trader: number): Position | undefined {
    const slot = (this.#table[this.#entryOf(market, trader)] as number) - 1;
    return slot === NONE ? undefined : this.#read(slot);
  }

  /** Throws RangeError for an amount beyond Int64, which the tables cannot hold either. */
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

  /** The market's open positions in no particular order. Do not delete while iterating. */
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

  /** Allocates a slot for a new key. */
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

  /** Table index of the key, or of the empty entry where it belongs. */
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

  /** Empties an entry and moves later entries of the same probe chain up (backward-shift deletion). */
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
    // It grows only when every slot is in use.
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
  throw new RangeError(`a position's amount exceeds 64 bits: ${amount}`);
}
