/**
 * Order fills (specification 2.5 and 2.10): the SQL that collects them from bookings and the objects
 * of both versions. Settlements are bookings too but no orders: whoever reads leaves them out.
 */
import { z } from 'zod';
import { count, hexText, int, list, oneOf, seconds, string } from './columns.ts';
import { amount, amountText, side, text, time, yes } from './fields.ts';
import { isoSecond, price, safeInteger } from './wire.ts';

/** A fill of a row of `bookings`. */
export const FILL = `(
    block_number,
    log_index,
    toUnixTimestamp(block_time),
    outcome_index,
    side,
    shares,
    usdc,
    fee,
    hex(order_hash),
    is_taker,
    token_id
  )`;

/** Aggregate over rows of `bookings`: their fills, oldest first in chain order. */
export const FILLS = `arraySort(fill -> (fill.1, fill.2), groupArray(${FILL}))`;

export type Fill = {
  readonly block: bigint;
  readonly log: number;
  /** Seconds since the epoch. */
  readonly time: number;
  readonly outcomeIndex: 0 | 1;
  readonly side: 'BUY' | 'SELL';
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
  /** 0x and 64 hexadecimal digits. */
  readonly orderHash: string;
  readonly isTaker: boolean;
  readonly tokenId: string;
};

/** A column that is FILL, or an element of FILLS. Throws TypeError for another value. */
export function fill(value: unknown): Fill {
  const [block, log, time, outcomeIndex, side, shares, usdc, fee, hash, isTaker, tokenId] =
    list(value);
  return {
    block: int(block),
    log: count(log),
    time: seconds(time),
    outcomeIndex: oneOf([0, 1] as const, outcomeIndex),
    side: oneOf(['BUY', 'SELL'] as const, side),
    shares: int(shares),
    usdc: int(usdc),
    fee: int(fee),
    orderHash: hexText(hash),
    isTaker: oneOf([true, false] as const, isTaker),
    tokenId: string(tokenId),
  };
}

/** A column that is FILLS. */
export function fills(value: unknown): readonly Fill[] {
  return list(value).map(fill);
}

export const FillV1 = z.object({
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
});

export function fillV1(fill: Fill, outcomes: readonly string[]): z.input<typeof FillV1> {
  return {
    time: isoSecond(fill.time),
    outcome: outcomes[fill.outcomeIndex] ?? '',
    side: fill.side,
    price: price(fill.usdc, fill.shares).toString(),
    shares: fill.shares.toString(),
    usdc: fill.usdc.toString(),
    order_hash: /^0x0+$/.test(fill.orderHash) ? '' : fill.orderHash,
    is_taker: fill.isTaker,
    token_id: fill.tokenId,
    fee: fill.fee.toString(),
  };
}

export const FillV2 = z.object({
  fee: amount('fee, micro-USD'),
  is_taker: yes('true for the taker of its match, false for a maker'),
  outcome: text('label of the outcome traded', 'Yes'),
  shares: amount('shares filled, micro-units'),
  side,
  time: time('when it was executed'),
  usdc: amount('value without the fee, micro-USD'),
});

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
