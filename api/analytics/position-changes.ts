/** What a trade does to a position: the net of both outcomes of a market, as in `GET /v2/position_events`. */
import type { FeedFill, FeedMatch } from '../../ingest/contract.ts';
import { fillsOf } from './match-data.ts';

/** What a fill says about a position. */
type Traded = Pick<FeedFill, 'outcomeIndex' | 'shares' | 'usdc'>;

/** A part of a trade: what it does to the position, in net micro-shares of outcome 0. */
export type PositionChange = {
  readonly event: 'opened' | 'added' | 'reduced' | 'closed';
  readonly before: bigint;
  readonly after: bigint;
};

/** The fills of each of these wallets in a match. */
export function fillsByWallet(
  match: FeedMatch,
  wallets: ReadonlySet<string>,
): ReadonlyMap<string, readonly FeedFill[]> {
  const own = fillsOf(match).filter(({ trader }) => wallets.has(trader.address));
  return Map.groupBy(own, ({ trader }) => trader.address);
}

/** By how many net micro-shares of outcome 0 a fill changes the position of its trader. */
export function netOf({ outcomeIndex, shares, side }: FeedFill): bigint {
  return (side === 'BUY') === (outcomeIndex === 0) ? shares : -shares;
}

/** A trade that changes sides closes and opens. */
export function changesOf(before: bigint, after: bigint): readonly PositionChange[] {
  if (before === after) return [];
  if (before === 0n) return [{ event: 'opened', before, after }];
  if (after === 0n) return [{ event: 'closed', before, after }];
  if (before > 0n !== after > 0n) {
    return [
      { event: 'closed', before, after: 0n },
      { event: 'opened', before: 0n, after },
    ];
  }
  return [{ event: sizeOf(after) > sizeOf(before) ? 'added' : 'reduced', before, after }];
}

/** What the shares that came or left are worth at the price of the trade, micro-USDC, rounded down. */
export function tradedValue({ after, before }: PositionChange, fills: readonly Traded[]): bigint {
  const shares = fills.reduce((all, fill) => all + fill.shares, 0n);
  if (shares === 0n) return 0n;
  return (sizeOf(after - before) * worth(heldOf(before, after), fills)) / shares;
}

/**
 * A change in figures: shares in micro-shares, money in micro-USDC, price in micro-USDC a share, all rounded down; the share of the
 * portfolio in tenths of a percent. `others` is what the other positions are worth.
 */
export function figuresOf(change: PositionChange, fills: readonly Traded[], others: bigint) {
  const { after, before } = change;
  const outcomeIndex = heldOf(before, after);
  const shares = fills.reduce((all, fill) => all + fill.shares, 0n);
  const price = shares === 0n ? 0n : (worth(outcomeIndex, fills) * 1_000_000n) / shares;
  const valueAfter = (sizeOf(after) * price) / 1_000_000n;
  const portfolioValue = others + valueAfter;
  return {
    ...{ outcomeIndex, sharesBefore: sizeOf(before), sharesAfter: sizeOf(after), price },
    ...{ value: tradedValue(change, fills), valueAfter, portfolioValue },
    portfolioPermille: portfolioValue === 0n ? 0 : Number((valueAfter * 1_000n) / portfolioValue),
  } as const;
}

/** What all shares of the fills are worth as shares of this outcome. */
function worth(outcome: 0 | 1, fills: readonly Traded[]): bigint {
  return fills.reduce(
    (all, { outcomeIndex, shares, usdc }) =>
      all + (outcomeIndex === outcome ? usdc : shares - usdc),
    0n,
  );
}

function heldOf(before: bigint, after: bigint): 0 | 1 {
  return (after === 0n ? before : after) < 0n ? 1 : 0;
}

const sizeOf = (net: bigint) => (net < 0n ? -net : net);
