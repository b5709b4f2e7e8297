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
import { type Payouts, type Position, payoutOf, type Step, type Trade } from './position.ts';

/** A change of one balance, and the holding after it. */
export type Entry = {
  /** An opening is what the wallet had before anything was read of it. */
  readonly kind: 'movement' | 'opening';
  readonly trader: string;
  readonly outcome: 0 | 1;
  readonly change: bigint;
  /** Micro-USDC: the price of a split, merge, redemption or conversion, or what shares had cost, fees included. */
  readonly usdc: bigint;
  /** Whether `usdc` depends on the mark. */
  readonly isMark: boolean;
  /** The other wallet of a transfer, or the contract of an unexplained movement; else ''. */
  readonly counterparty: string;
  readonly before: Position;
  readonly after: Step & Holding;
};

/** Without a price, the outcomes of a pair count the same. */
const HALF: Mark = 500_000n;

/**
 * Entries in order. `holdingOf` returns a holding as it was before the movement. Nobody has a position in a resolved market, so
 * there only trades change one: conversions and refunds. Everything else changes balances, and shares count their payout.
 */
export function entriesOf(
  movement: Movement,
  holdingOf: (trader: string) => Holding,
  payouts: Payouts | undefined,
): readonly Entry[] {
  const isResolved = payouts !== undefined;
  const entries = new Entries(holdingOf, movement.mark ?? HALF, payouts);
  const { reason, trader, counterparty, change } = movement;
  const usdc = movement.usdc < 0n ? -movement.usdc : movement.usdc;
  if (reason === 'merge') entries.openPairs(trader, change);
  for (const outcome of [0, 1] as const) entries.open(trader, outcome, -change[outcome]);
  const isPair = reason === 'split' || reason === 'merge' || reason === 'redeem';
  let paid = usdc;
  for (const outcome of [0, 1] as const) {
    const shares = change[outcome];
    if (shares === 0n) continue;
    const of = { trader, counterparty, outcome };
    if (reason === 'convert') entries.trade(of, shares, usdc);
    else if (isPair) {
      // The first entry has the amount for both outcomes.
      entries.move(of, shares, paid);
      paid = 0n;
    } else if (isResolved && reason !== 'refund') {
      const payout = entries.worth(outcome, shares < 0n ? -shares : shares);
      entries.move(of, shares, payout);
      if (reason === 'transfer') entries.move(reversed(of), -shares, payout);
    } else if (shares > 0n) entries.receive(of, shares, reason === 'refund');
    else {
      const sent = entries.send(of, -shares);
      if (reason === 'transfer') entries.take(reversed(of), sent);
    }
  }
  return entries.all;
}

type Of = Pick<Entry, 'trader' | 'counterparty' | 'outcome'>;

const reversed = ({ trader, counterparty, outcome }: Of): Of => ({
  trader: counterparty,
  counterparty: trader,
  outcome,
});

class Entries {
  readonly all: Entry[] = [];
  readonly #holdingOf: (trader: string) => Holding;
  readonly #mark: Mark;
  readonly #payouts: Payouts | undefined;
  readonly #now = new Map<string, Holding>();

  constructor(holdingOf: (trader: string) => Holding, mark: Mark, payouts: Payouts | undefined) {
    this.#holdingOf = holdingOf;
    this.#mark = mark;
    this.#payouts = payouts;
  }

  /** A pair is worth 1 USDC, whatever its sides are worth: pairs that are merged beyond the balances have no value to guess. */
  openPairs(trader: string, change: readonly [bigint, bigint]): void {
    const held = this.#balances(trader);
    const missing = ([0, 1] as const).map((outcome) => -change[outcome] - held[outcome]);
    const pairs = missing.reduce((a, b) => (a < b ? a : b));
    if (pairs <= 0n) return;
    this.#rebalance('opening', only(trader, 0), pairs, pairs);
    this.#rebalance('opening', only(trader, 1), pairs, 0n);
  }

  /** Makes sure that the trader has so many shares. */
  open(trader: string, outcome: 0 | 1, shares: bigint): void {
    if (shares <= 0n) return;
    const of = only(trader, outcome);
    if (this.#payouts !== undefined) {
      const missing = shares - this.#balances(trader)[outcome];
      if (missing > 0n) this.#rebalance('opening', of, missing, this.worth(outcome, missing));
      return;
    }
    const worth = (missing: bigint) => this.worth(outcome, missing);
    const { missing, ...after } = opened(this.#of(trader), outcome, shares, worth);
    if (missing === 0n) return;
    const usdc = worth(missing);
    this.#add({ kind: 'opening', ...of, change: missing, usdc, isMark: true, after });
  }

  /** Value at the mark, or the payout once the market is resolved, rounded down. */
  worth(outcome: 0 | 1, shares: bigint): bigint {
    return this.#payouts === undefined
      ? valueAt(this.#mark, outcome, shares)
      : payoutOf(shares, outcome, this.#payouts);
  }

  /** Changes a balance and no position. */
  move(of: Of, change: bigint, usdc: bigint): void {
    this.#rebalance('movement', of, change, usdc);
  }

  trade(of: Of, change: bigint, usdc: bigint): void {
    const traded: Trade = {
      ...{ side: change < 0n ? 'SELL' : 'BUY', outcomeIndex: of.outcome, fee: 0n },
      ...{ shares: change < 0n ? -change : change, usdc },
    };
    const after = fill(this.#of(of.trader), traded);
    this.#add({ kind: 'movement', ...of, change, usdc, isMark: true, after });
  }

  send(of: Of, shares: bigint): Sent {
    const { after, sent } = send(this.#of(of.trader), of.outcome, shares, this.#mark);
    this.#add({ kind: 'movement', ...of, change: -shares, ...carried(sent), after });
    return sent;
  }

  take(of: Of, sent: Sent): void {
    const after = receive(this.#of(of.trader), sent);
    this.#add({ kind: 'movement', ...of, change: sent.shares, ...carried(sent), after });
  }

  /** Shares of unknown origin have the value at the mark; what an exchange returns has cost nothing. */
  receive(of: Of, shares: bigint, isFree: boolean): void {
    const { outcome } = of;
    const cost = isFree ? 0n : this.worth(outcome, shares);
    this.take(of, { outcome, shares, cost, fees: 0n, uncovered: isFree ? 0n : shares });
  }

  #rebalance(kind: Entry['kind'], of: Of, change: bigint, usdc: bigint): void {
    const by = of.outcome === 0 ? ([change, 0n] as const) : ([0n, change] as const);
    const after = rebalance(this.#of(of.trader), by);
    this.#add({ kind, ...of, change, usdc, isMark: false, after });
  }

  #balances(trader: string) {
    const holding = this.#of(trader);
    return this.#payouts === undefined ? atLeast(holding) : holding.balances;
  }

  #of(trader: string): Holding {
    return this.#now.get(trader) ?? this.#holdingOf(trader);
  }

  #add(entry: Omit<Entry, 'before'>): void {
    const { position, balances } = entry.after;
    const before = this.#of(entry.trader).position;
    this.#now.set(entry.trader, { position, balances });
    this.all.push({ ...entry, before });
  }
}

const carried = ({ cost, fees, uncovered }: Sent) => ({
  usdc: cost + fees,
  isMark: uncovered > 0n,
});

const only = (trader: string, outcome: 0 | 1): Of => ({ trader, counterparty: '', outcome });
