/**
 * What a movement does to the holdings of its trader and receiver: the rules of docs/pnl.md, "Shares that move without a fill".
 * Pure functions on integers.
 */
import type { Movement } from '../../ingest/contract.ts';
import {
  atLeast,
  fill,
  type Holding,
  type Mark,
  opened,
  rebalance,
  receive,
  type Sent,
  send,
  valueAt,
} from './holding.ts';
import type { Step, Trade } from './position.ts';

/** A change of one balance, and the holding after it. */
export type Entry = {
  /** An opening is what the wallet had before anything was read of it. */
  readonly kind: 'movement' | 'opening';
  readonly trader: string;
  readonly outcome: 0 | 1;
  readonly change: bigint;
  /** Value of a conversion, micro-USDC; else 0. */
  readonly usdc: bigint;
  readonly after: Step & Holding;
};

/** Without a price, the outcomes of a pair count the same. */
const HALF: Mark = 500_000n;

/**
 * Entries in their order. `holdingOf` is asked for the holding before the movement. In a resolved market nothing has a position, so
 * all but conversions, which are trades, only change balances.
 */
export function entriesOf(
  movement: Movement,
  holdingOf: (trader: string) => Holding,
  isResolved: boolean,
): readonly Entry[] {
  const entries = new Entries(holdingOf, movement.mark ?? HALF, isResolved);
  const { reason, trader, counterparty, change, usdc } = movement;
  if (reason === 'merge') entries.openPairs(trader, change);
  for (const outcome of [0, 1] as const) entries.open(trader, outcome, -change[outcome]);
  for (const outcome of [0, 1] as const) {
    const shares = change[outcome];
    if (shares === 0n) continue;
    if (reason === 'convert') entries.trade(trader, outcome, shares, usdc);
    else if (isResolved || reason === 'split' || reason === 'merge' || reason === 'redeem') {
      entries.move(trader, outcome, shares);
      if (reason === 'transfer') entries.move(counterparty, outcome, -shares);
    } else if (shares > 0n)
      entries.receive(trader, { outcome, shares, isFree: reason === 'refund' });
    else {
      const sent = entries.send(trader, outcome, -shares);
      if (reason === 'transfer') entries.take(counterparty, sent);
    }
  }
  return entries.all;
}

class Entries {
  readonly all: Entry[] = [];
  readonly #holdingOf: (trader: string) => Holding;
  readonly #mark: Mark;
  readonly #isResolved: boolean;
  readonly #now = new Map<string, Holding>();

  constructor(holdingOf: (trader: string) => Holding, mark: Mark, isResolved: boolean) {
    this.#holdingOf = holdingOf;
    this.#mark = mark;
    this.#isResolved = isResolved;
  }

  /** A pair is worth 1 USDC, whatever its sides are worth: pairs that are merged beyond the balances have no value to guess. */
  openPairs(trader: string, change: readonly [bigint, bigint]): void {
    const held = this.#balances(trader);
    const missing = ([0, 1] as const).map((outcome) => -change[outcome] - held[outcome]);
    const pairs = missing.reduce((a, b) => (a < b ? a : b));
    if (pairs > 0n)
      for (const outcome of [0, 1] as const) this.#rebalance('opening', trader, outcome, pairs);
  }

  /** Changes a balance and no position. */
  move(trader: string, outcome: 0 | 1, change: bigint): void {
    this.#rebalance('movement', trader, outcome, change);
  }

  trade(trader: string, outcome: 0 | 1, change: bigint, usdc: bigint): void {
    const isSale = change < 0n;
    const traded: Trade = {
      ...{ side: isSale ? 'SELL' : 'BUY', outcomeIndex: outcome, fee: 0n },
      ...{ shares: isSale ? -change : change, usdc: isSale ? usdc : -usdc },
    };
    const after = fill(this.#of(trader), traded);
    this.#add({ kind: 'movement', trader, outcome, change, usdc: traded.usdc, after });
  }

  send(trader: string, outcome: 0 | 1, shares: bigint): Sent {
    const { after, sent } = send(this.#of(trader), outcome, shares, this.#mark);
    this.#add({ kind: 'movement', trader, outcome, change: -shares, usdc: 0n, after });
    return sent;
  }

  take(trader: string, sent: Sent): void {
    const { outcome, shares: change } = sent;
    const after = receive(this.#of(trader), sent);
    this.#add({ kind: 'movement', trader, outcome, change, usdc: 0n, after });
  }

  /** Shares of unknown origin have the value at the mark; what an exchange returns has cost nothing. */
  receive(
    trader: string,
    { outcome, shares, isFree }: { outcome: 0 | 1; shares: bigint; isFree: boolean },
  ): void {
    const cost = isFree ? 0n : valueAt(this.#mark, outcome, shares);
    this.take(trader, { outcome, shares, cost, fees: 0n, uncovered: 0n });
  }

  /** Makes sure that the trader has so many shares. */
  open(trader: string, outcome: 0 | 1, shares: bigint): void {
    if (shares <= 0n) return;
    if (this.#isResolved) {
      const missing = shares - this.#balances(trader)[outcome];
      if (missing > 0n) this.#rebalance('opening', trader, outcome, missing);
      return;
    }
    const worth = (missing: bigint) => valueAt(this.#mark, outcome, missing);
    const { missing, ...after } = opened(this.#of(trader), outcome, shares, worth);
    if (missing === 0n) return;
    this.#add({ kind: 'opening', trader, outcome, change: missing, usdc: 0n, after });
  }

  #rebalance(kind: Entry['kind'], trader: string, outcome: 0 | 1, change: bigint): void {
    const after = rebalance(this.#of(trader), outcome === 0 ? [change, 0n] : [0n, change]);
    this.#add({ kind, trader, outcome, change, usdc: 0n, after });
  }

  #balances(trader: string) {
    const holding = this.#of(trader);
    return this.#isResolved ? holding.balances : atLeast(holding);
  }

  #of(trader: string): Holding {
    return this.#now.get(trader) ?? this.#holdingOf(trader);
  }

  #add(entry: Entry): void {
    const { position, balances } = entry.after;
    this.#now.set(entry.trader, { position, balances });
    this.all.push(entry);
  }
}
