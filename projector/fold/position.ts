/**
 * The PnL rule: one net position per trader and market, and the amounts that each event realises. Pure functions on
 * integers; amounts are bigint micro-units. Buying one outcome at p equals selling the other at 1 − p, so a trader
 * never holds both: a purchase first closes a position in the other outcome, and only the remainder opens one.
 * docs/pnl.md explains the rule and its evidence.
 *
 * Every division rounds down and the last part takes the remainder, so a position that is closed to zero has released
 * exactly the amounts that it took in.
 */
import type { Fill, MicroShares, MicroUsdc, Resolution } from '../../ingest/contract.ts';

export type Position = {
  /** Outcome held, 0 or 1; meaningless while `shares` is 0. */
  readonly outcome: 0 | 1;
  readonly shares: MicroShares;
  /** Cost of the shares still held, without fees. Negative only after a sale above 1 USDC per share. */
  readonly costBasis: MicroUsdc;
  /** Fees paid on the shares still held. */
  readonly openFees: MicroUsdc;
};

export const FLAT: Position = { outcome: 0, shares: 0n, costBasis: 0n, openFees: 0n };

/** What a share of each outcome pays, in parts of `total`; of the sum of both without it. */
export type Payouts = readonly [zero: bigint, one: bigint, total?: bigint];

/** The parts of a combo, whose payout `payouts` may have rounded. */
const PARTS = 10n ** 36n;

export function payoutsOf({ payouts, parts }: Pick<Resolution, 'payouts' | 'parts'>): Payouts {
  return parts === undefined ? payouts : [...parts, PARTS];
}

/** Payout of shares of an outcome, rounded down to whole micro-USDC. */
export function payoutOf(shares: MicroShares, outcome: 0 | 1, payouts: Payouts): MicroUsdc {
  const [zero, one, total = zero + one] = payouts;
  return divideDown(shares * payouts[outcome], total);
}

/** The fields of a fill that change a position. */
export type Trade = Pick<Fill, 'side' | 'outcomeIndex' | 'shares' | 'usdc' | 'fee'>;

/** Net shares of outcome 0: below 0 if the position is in outcome 1. */
export function netOf({ outcome, shares }: Pick<Position, 'outcome' | 'shares'>): MicroShares {
  return outcome === 0 ? shares : -shares;
}

export type Step = {
  readonly position: Position;
  /** PnL of the closed part, net of its fees. */
  readonly realisedPnl: MicroUsdc;
  /** Cost of the closed part: the denominator of ROI. */
  readonly realisedCost: MicroUsdc;
  /** Payout of a resolution for the shares held; 0 for a fill. */
  readonly payout: MicroUsdc;
};

/** Applies a fill to a position. */
export function trade(position: Position, fill: Trade): Step {
  const { side, outcomeIndex, shares, usdc, fee } = fill;
  return side === 'BUY'
    ? purchase(position, outcomeIndex, shares, usdc, fee)
    : purchase(position, outcomeIndex === 0 ? 1 : 0, shares, shares - usdc, fee);
}

/** Adds shares of an outcome at a cost; they close shares of the other outcome first. */
export function purchase(
  position: Position,
  outcome: 0 | 1,
  shares: MicroShares,
  cost: MicroUsdc,
  fee: MicroUsdc,
): Step {
  // Dust: money moved without shares. No position can carry the cost, so it is realised at once, with a realised cost
  // of 0.
  if (shares === 0n) return { position, realisedPnl: -cost - fee, realisedCost: 0n, payout: 0n };
  const held = position.shares;
  if (held === 0n || position.outcome === outcome) {
    return {
      position: {
        outcome,
        shares: held + shares,
        costBasis: position.costBasis + cost,
        openFees: position.openFees + fee,
      },
      realisedPnl: 0n,
      realisedCost: 0n,
      payout: 0n,
    };
  }
  const closed = shares < held ? shares : held;
  // The part that opens or remains open takes the remainder of each division.
  const closingCost = divideDown(cost * closed, shares);
  const closingFee = divideDown(fee * closed, shares);
  const realisedCost = divideDown(position.costBasis * closed, held);
  const feesReleased = divideDown(position.openFees * closed, held);
  const realisedPnl = closed - closingCost - realisedCost - feesReleased - closingFee;
  const after: Position =
    closed === held
      ? {
          outcome,
          shares: shares - closed,
          costBasis: cost - closingCost,
          openFees: fee - closingFee,
        }
      : {
          outcome: position.outcome,
          shares: held - closed,
          costBasis: position.costBasis - realisedCost,
          openFees: position.openFees - feesReleased,
        };
  return { position: after, realisedPnl, realisedCost, payout: 0n };
}

/** Closes the position at the payouts of a resolution. */
export function settle(position: Position, payouts: Payouts): Step {
  const payout = payoutOf(position.shares, position.outcome, payouts);
  return {
    position: FLAT,
    realisedPnl: payout - position.costBasis - position.openFees,
    realisedCost: position.costBasis,
    payout,
  };
}

/** Floor of a / b for b > 0; plain bigint division rounds towards zero. */
function divideDown(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}
