/**
 * Decodes `matchOrders` calldata into the fills that the transaction will emit if it is mined.
 * Pure. The rules are those of the contract (facts of its source, checked on a real transaction):
 * a maker's taking amount rounds down, and the taker's fill is the sum of what its makers give,
 * never its limit price. Whether the sender may call is the caller's question.
 */
import type { Hex } from 'viem';
import { type Order, readArguments } from './calldata.ts';
import { AMOUNT_MAX } from './contract.ts';
import { DecodeError } from './decode-error.ts';
import { orderHash } from './order-hash.ts';

/** Last instant of an ECMAScript Date. */
const DATE_MS_MAX = 8_640_000_000_000_000n;

export type Side = 'BUY' | 'SELL';

/** A fill as the calldata foretells it; amounts in micro-units, `usdc` without the fee. */
export type CalledFill = {
  readonly orderHash: Hex;
  readonly trader: Hex;
  readonly side: Side;
  readonly tokenId: bigint;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
  readonly order: {
    readonly shares: bigint;
    readonly usdc: bigint;
    readonly signatureType: number;
    readonly timestampMs: number;
  };
};

export type CalledMatch = {
  readonly conditionId: Hex;
  readonly taker: CalledFill;
  readonly makers: readonly CalledFill[];
};

/**
 * Fills of one `matchOrders` call to `exchange` on chain `chainId`.
 * Throws DecodeError when the data is no well-formed call or breaks a rule of the contract.
 */
export function decodeMatchCall(input: Hex, exchange: Hex, chainId: number): CalledMatch {
  const called = readArguments(input);
  const { conditionId, takerOrder, makerOrders, makerFillAmounts, makerFeeAmounts } = called;
  const { length } = makerOrders;
  if (length === 0) throw new DecodeError('no_makers', 'no maker order');
  if (makerFillAmounts.length !== length || makerFeeAmounts.length !== length) {
    throw new DecodeError('bad_calldata', 'maker arrays differ in length');
  }
  const makers = makerOrders.map((order, i) =>
    makerFillOf(order, makerFillAmounts[i] ?? 0n, makerFeeAmounts[i] ?? 0n, exchange, chainId),
  );
  const { takerFillAmount, takerFeeAmount } = called;
  const taker = takerFillOf(takerOrder, makers, takerFillAmount, takerFeeAmount, exchange, chainId);
  return { conditionId, taker, makers };
}

function makerFillOf(order: Order, making: bigint, fee: bigint, exchange: Hex, chainId: number) {
  if (order.makerAmount === 0n) throw new DecodeError('zero_maker_amount', 'a maker offers 0');
  // Rounds down, as the contract does: the maker receives the floor.
  const taking = (making * order.takerAmount) / order.makerAmount;
  const amounts =
    sideOf(order) === 'BUY' ? { usdc: making, shares: taking } : { shares: making, usdc: taking };
  return calledFill(order, amounts, fee, exchange, chainId);
}

function takerFillOf(
  order: Order,
  makers: readonly CalledFill[],
  takerFillAmount: bigint,
  fee: bigint,
  exchange: Hex,
  chainId: number,
): CalledFill {
  const side = sideOf(order);
  const sum = (pick: (fill: CalledFill) => bigint) => makers.reduce((a, m) => a + pick(m), 0n);
  let shares: bigint;
  let usdc: bigint;
  if (makers.every((maker) => maker.side !== side)) {
    // Only complementary makers: the taker receives exactly what they give.
    shares = sum((maker) => maker.shares);
    usdc = sum((maker) => maker.usdc);
  } else if (side === 'BUY') {
    // Mint: every maker adds shares; the taker pays the amount of the call.
    shares = sum((maker) => maker.shares);
    usdc = takerFillAmount;
  } else {
    // Merge: a maker that sells the other outcome leaves 1 − its price for the taker.
    shares = takerFillAmount;
    usdc = sum((maker) => (maker.side === 'BUY' ? maker.usdc : maker.shares - maker.usdc));
  }
  return calledFill(order, { shares, usdc }, fee, exchange, chainId);
}

function calledFill(
  order: Order,
  amounts: { readonly shares: bigint; readonly usdc: bigint },
  fee: bigint,
  exchange: Hex,
  chainId: number,
): CalledFill {
  const side = sideOf(order);
  const [usdc, shares] =
    side === 'BUY'
      ? [order.makerAmount, order.takerAmount]
      : [order.takerAmount, order.makerAmount];
  return {
    orderHash: orderHash(order.words, exchange, chainId),
    trader: order.maker,
    side,
    tokenId: order.tokenId,
    shares: boundedAmount(amounts.shares),
    usdc: boundedAmount(amounts.usdc),
    fee: boundedAmount(fee),
    order: {
      shares,
      usdc,
      signatureType: order.signatureType,
      // What is no date is shown as none: the chain does not check this field.
      timestampMs: order.timestamp <= DATE_MS_MAX ? Number(order.timestamp) : 0,
    },
  };
}

function sideOf(order: Order): Side {
  if (order.side === 0) return 'BUY';
  if (order.side === 1) return 'SELL';
  throw new DecodeError('bad_side', String(order.side));
}

/** Throws DecodeError above AMOUNT_MAX: such an amount cannot be real and would not fit on the wire. */
export function boundedAmount(amount: bigint): bigint {
  if (amount > AMOUNT_MAX || amount < 0n) {
    throw new DecodeError('amount_too_large', amount.toString());
  }
  return amount;
}
