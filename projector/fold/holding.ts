/**
 * What a wallet has in one market: the net position of position.ts, and the balances of both outcomes. While the market is
 * open, the balances differ by the net position; what both have in common are pairs, which are worth 1 USDC each and no
 * position. Splits, merges and redemptions change only balances; transfers carry cost and fees; conversions are fills at the
 * values that come with the event. Pure functions on integers; docs/pnl.md explains the rules.
 *
 * Every division rounds down. What is sent takes the rounded share of cost and fees, and the rest stays.
 */
import { FLAT, type Position, purchase, type Step, type Trade, trade } from './position.ts';

export type Balances = readonly [bigint, bigint];
/** `balances` are sums of what was read. They lack what a wallet had before movements were watched (`atLeast`). */
export type Holding = { readonly position: Position; readonly balances: Balances };

export const NOTHING_HELD: Holding = { position: FLAT, balances: [0n, 0n] };

/** What the wallet has at least, while the market is open: its net position was read, even if not all of its balances were. */
export function atLeast({ position, balances }: Holding): Balances {
  const [zero, one] = balances;
  const net = position.outcome === 0 ? position.shares : -position.shares;
  const unread = net - (zero - one);
  return unread > 0n ? [zero + unread, one] : [zero, one - unread];
}

/** Micro-USDC per share of outcome 0, from 0 to 1,000,000. */
export type Mark = bigint;

/** Shares that moved without a fill; amounts in micro-units. */
export type Sent = {
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  /** What the receiver takes over: cost of the covered part, and the value at the mark of the rest. */
  readonly cost: bigint;
  readonly fees: bigint;
  /** Shares without a cost of their own, as those from pairs, whose value at the mark is part of `cost`. */
  readonly uncovered: bigint;
};

const ONE = 1_000_000n;
const NOTHING = { realisedPnl: 0n, realisedCost: 0n, payout: 0n };
const other = (outcome: 0 | 1): 0 | 1 => (outcome === 0 ? 1 : 0);

/** Value of shares of an outcome at a mark, rounded down. */
export function valueAt(mark: Mark, outcome: 0 | 1, shares: bigint): bigint {
  return (shares * (outcome === 0 ? mark : ONE - mark)) / ONE;
}

function withBalance(balances: Balances, outcome: 0 | 1, change: bigint): Balances {
  const [zero, one] = balances;
  return outcome === 0 ? [zero + change, one] : [zero, one + change];
}

/** Applies a fill. */
export function fill({ position, balances }: Holding, traded: Trade): Step & Holding {
  const { side, outcomeIndex, shares } = traded;
  const change = side === 'BUY' ? shares : -shares;
  return { ...trade(position, traded), balances: withBalance(balances, outcomeIndex, change) };
}

/**
 * Shares that leave beyond the balance were there before anything was read: they are taken as bought for their value. Returns the
 * shares that were missing, 0 if there were enough.
 */
export function opened(
  holding: Holding,
  outcome: 0 | 1,
  shares: bigint,
  worth: (shares: bigint) => bigint,
) {
  const missing = shares - atLeast(holding)[outcome];
  if (missing <= 0n) return { ...NOTHING, ...holding, missing: 0n };
  const step = purchase(holding.position, outcome, missing, worth(missing), 0n);
  return { ...step, balances: withBalance(holding.balances, outcome, missing), missing };
}

/** Sends shares, of which there are enough. The net position gives its part of cost and fees, pairs their value at the mark. */
export function send(
  { position, balances }: Holding,
  outcome: 0 | 1,
  shares: bigint,
  mark: Mark,
): { readonly after: Step & Holding; readonly sent: Sent } {
  const held = position.outcome === outcome ? position.shares : 0n;
  const covered = shares < held ? shares : held;
  const cost = covered === 0n ? 0n : divideDown(position.costBasis * covered, held);
  const fees = covered === 0n ? 0n : (position.openFees * covered) / held;
  const kept: Position = {
    ...position,
    shares: position.shares - covered,
    costBasis: position.costBasis - cost,
    openFees: position.openFees - fees,
  };
  const uncovered = shares - covered;
  const value = valueAt(mark, outcome, uncovered);
  const step =
    uncovered === 0n
      ? { ...NOTHING, position: kept }
      : purchase(kept, other(outcome), uncovered, uncovered - value, 0n);
  return {
    after: { ...step, balances: withBalance(balances, outcome, -shares) },
    sent: { outcome, shares, cost: cost + value, fees, uncovered },
  };
}

/** Receives shares with the cost and fees that they carry. */
export function receive({ position, balances }: Holding, sent: Sent): Step & Holding {
  const { outcome, shares, cost, fees } = sent;
  return {
    ...purchase(position, outcome, shares, cost, fees),
    balances: withBalance(balances, outcome, shares),
  };
}

/** A split, merge or redemption: pairs cost and pay 1 USDC each, and a resolution has booked what is redeemed. */
export function rebalance({ position, balances }: Holding, change: Balances): Step & Holding {
  return {
    ...{ ...NOTHING, position },
    balances: [balances[0] + change[0], balances[1] + change[1]],
  };
}

/** Floor of a / b for b > 0; plain bigint division rounds towards zero. */
function divideDown(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}
