/**
 * The PnL rule: one net position per trader and market, and the amounts that each event realises. Pure
 * functions on integers; amounts are bigint micro-units. Buying one outcome at p equals selling the
 * other at 1 − p, so a trader never holds both: a purchase first closes the other outcome, and the rest
 * of it opens a position. Rule and evidence: docs/pnl.md.
 *
 * Every division rounds down and the last part takes the remainder, so a position that is closed to zero
 * has released exactly the amounts it took in.
 */
import type { MicroShares, MicroUsdc } from '../ingest/contract.ts';

export type Position = {
  /** Outcome held, 0 or 1; meaningless while `shares` is 0. */
  readonly outcome: 0 | 1;
  readonly shares: MicroShares;
  /** Paid for the shares still held, without fees; negative only for shares sold above 1 USDC. */
  readonly costBasis: MicroUsdc;
  /** Fees paid on the shares still held. */
  readonly openFees: MicroUsdc;
};

export const FLAT: Position = { outcome: 0, shares: 0n, costBasis: 0n, openFees: 0n };

export type PositionEvent =
  | {
      readonly kind: 'fill';
      readonly side: 'BUY' | 'SELL';
      readonly outcomeIndex: 0 | 1;
      readonly shares: MicroShares;
      readonly usdc: MicroUsdc;
      readonly fee: MicroUsdc;
    }
  | { readonly kind: 'resolution'; readonly payouts: readonly [bigint, bigint] };

export type Step = {
  readonly position: Position;
  /** Net of the fees of the closed part. */
  readonly realisedPnl: MicroUsdc;
  /** Cost of the closed part: the denominator of ROI. */
  readonly realisedCost: MicroUsdc;
  /** Payout of a resolution for the shares held; 0 for a fill. */
  readonly payout: MicroUsdc;
};

/** Thrown in branches that the type system excludes. */
export class UnreachableError extends Error {
  constructor(value: never) {
    super(`unreachable: ${JSON.stringify(value)}`);
  }
}

/** The position after `event`, and the realised amounts. */
export function evolve(position: Position, event: PositionEvent): Step {
  switch (event.kind) {
    case 'fill': {
      const bought = event.side === 'BUY';
      const outcome = bought ? event.outcomeIndex : other(event.outcomeIndex);
      const cost = bought ? event.usdc : event.shares - event.usdc;
      return purchase(position, outcome, event.shares, cost, event.fee);
    }
    case 'resolution':
      return settle(position, event.payouts);
    default:
      throw new UnreachableError(event);
  }
}

function purchase(
  position: Position,
  outcome: 0 | 1,
  shares: MicroShares,
  cost: MicroUsdc,
  fee: MicroUsdc,
): Step {
  // Dust: money moved without shares. There is no position to carry the cost, so it is realised at once,
  // with a realised cost of 0.
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
  // The part that opens, or remains open, takes the remainder of each rounding.
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

function settle(position: Position, payouts: readonly [bigint, bigint]): Step {
  // Rounds down: half a micro-USDC is not paid.
  const payout = divideDown(position.shares * payouts[position.outcome], payouts[0] + payouts[1]);
  return {
    position: FLAT,
    realisedPnl: payout - position.costBasis - position.openFees,
    realisedCost: position.costBasis,
    payout,
  };
}

function other(outcome: 0 | 1): 0 | 1 {
  return outcome === 0 ? 1 : 0;
}

/** Floor of a / b for b > 0; plain bigint division rounds towards zero. */
function divideDown(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}
