/**
 * Order fills: their columns in `bookings` and `market_bookings`, and the objects of both versions. A settlement
 * is a booking without an order, so statements exclude it.
 */
import { z } from 'zod';
import { isoSecond, priceV1, safeInteger } from './format.ts';
import { boolean, count, hexText, int, type RowOf, rowOf, seconds, typed } from './rows.ts';
import { amount, amountText, side, text, time, yes } from './schemas.ts';

/** Times are seconds since the epoch, hashes 0x and 64 digits. */
export const fillColumns = {
  block: int('block_number'),
  log: count('log_index'),
  time: seconds('block_time'),
  outcomeIndex: typed('outcome_index', z.literal([0, 1])),
  side: typed('side', z.literal(['BUY', 'SELL'])),
  shares: int('shares'),
  usdc: int('usdc'),
  fee: int('fee'),
  orderHash: hexText('order_hash'),
  isTaker: boolean('is_taker'),
  tokenId: int('token_id'),
};

const FillRow = rowOf(fillColumns);
export type Fill = RowOf<typeof FillRow>;

/** The fills of each key, oldest first in chain order. */
export function fillsBy<Row extends Fill>(
  rows: readonly Row[],
  keyOf: (row: Row) => string,
): ReadonlyMap<string, readonly Row[]> {
  const sorted = [...rows].sort((a, b) => Number(a.block - b.block) || a.log - b.log);
  return Map.groupBy(sorted, keyOf);
}

/** One trader's fills in chain order, without duplicate logs. */
export function withoutRepeats(fills: readonly Fill[]): readonly Fill[] {
  return fills.filter(({ block, log }, i) => {
    const before = fills[i - 1];
    return before?.log !== log || before.block !== block;
  });
}

export const FillV1 = z
  .object({
    time: time('when it was executed'),
    outcome: text('label of the outcome traded', 'Yes'),
    side,
    price: amountText('execution price in micro-USDC a share, rounded down: 620000 is 0.62').meta({
      examples: ['620000'],
    }),
    shares: amountText('shares filled, micro-units'),
    usdc: amountText('value without the fee, micro-USDC'),
    order_hash: z
      .string()
      .regex(/^(0x[0-9a-f]{64})?$/)
      .meta({ description: 'EIP-712 hash of the order; may be empty', examples: [''] }),
    is_taker: yes('true for the taker of its match, false for a maker'),
    token_id: z
      .string()
      .regex(/^\d{1,78}$/)
      .meta({ description: 'ERC-1155 id of the outcome share, decimal', examples: ['7130'] }),
    fee: amountText('fee, micro-USDC'),
  })
  .meta({ id: 'FillV1' });

export function fillV1(fill: Fill, outcomes: readonly string[]): z.input<typeof FillV1> {
  return {
    time: isoSecond(fill.time),
    outcome: outcomes[fill.outcomeIndex] ?? '',
    side: fill.side,
    price: priceV1(fill.usdc, fill.shares).toString(),
    shares: fill.shares.toString(),
    usdc: fill.usdc.toString(),
    order_hash: /^0x0+$/.test(fill.orderHash) ? '' : fill.orderHash,
    is_taker: fill.isTaker,
    token_id: fill.tokenId.toString(),
    fee: fill.fee.toString(),
  };
}

export const FillV2 = z
  .object({
    fee: amount('fee, micro-USD'),
    is_taker: yes('true for the taker of its match, false for a maker'),
    outcome: text('label of the outcome traded', 'Yes'),
    shares: amount('shares filled, micro-units'),
    side,
    time: time('when it was executed'),
    usdc: amount('value without the fee, micro-USD'),
  })
  .meta({ id: 'Fill' });

export function fillV2(fill: Fill, outcomes: readonly string[]): z.input<typeof FillV2> {
  return {
    fee: safeInteger(fill.fee),
    is_taker: fill.isTaker,
    outcome: outcomes[fill.outcomeIndex] ?? '',
    shares: safeInteger(fill.shares),
    side: fill.side,
    time: isoSecond(fill.time),
    usdc: safeInteger(fill.usdc),
  };
}
