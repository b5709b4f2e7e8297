/**
 * One match as the exchange is asked to execute it, and what will come of it: the same integer
 * arithmetic as CtfExchange.sol, so that the traders' books agree with the chain to the micro-unit.
 */
import { encodeFunctionData, type Hex } from 'viem';
import { exchangeAbi } from './abi.ts';
import type { Market } from './markets.ts';

export const BUY = 0;
export const SELL = 1;
export type Side = typeof BUY | typeof SELL;
export type OutcomeIndex = 0 | 1;

export type Order = {
  readonly salt: bigint;
  readonly maker: Hex;
  readonly signer: Hex;
  readonly tokenId: bigint;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly side: Side;
  readonly signatureType: number;
  /** Milliseconds, or 0. */
  readonly timestamp: bigint;
  readonly metadata: Hex;
  readonly builder: Hex;
  readonly signature: Hex;
};

export type Match = {
  readonly market: Market;
  readonly takerOrder: Order;
  readonly makerOrders: readonly Order[];
  readonly takerFillAmount: bigint;
  readonly makerFillAmounts: readonly bigint[];
  readonly takerFeeAmount: bigint;
  readonly makerFeeAmounts: readonly bigint[];
};

/** What one order gave and got, in micro-units; `making` is what its event shows. */
type Execution = {
  readonly order: Order;
  readonly making: bigint;
  readonly taking: bigint;
  readonly fee: bigint;
  /** Part of `making` that came back to the taker. */
  readonly refund: bigint;
};

/** The executions of a match: the makers in calldata order, the taker last. */
export function settle(match: Match): readonly Execution[] {
  const { takerOrder, takerFillAmount } = match;
  let oppositeMaking = 0n;
  let oppositeTaking = 0n;
  let sameMaking = 0n;
  let sameTaking = 0n;
  const executions = match.makerOrders.map((order, i): Execution => {
    const making = match.makerFillAmounts[i] ?? 0n;
    const taking = takingOf(order, making);
    if (order.side === takerOrder.side) {
      sameMaking += making;
      sameTaking += taking;
    } else {
      oppositeMaking += making;
      oppositeTaking += taking;
    }
    return { order, making, taking, fee: match.makerFeeAmounts[i] ?? 0n, refund: 0n };
  });
  const complementary = sameMaking === 0n && sameTaking === 0n;
  const buys = takerOrder.side === BUY;
  const needed = oppositeTaking + (buys ? sameTaking - sameMaking : sameMaking);
  const making = complementary ? needed : takerFillAmount;
  const taking = oppositeMaking + (buys ? sameTaking : sameMaking - sameTaking);
  const refund = making - needed;
  return [...executions, { order: takerOrder, making, taking, fee: match.takerFeeAmount, refund }];
}

/** What an order gets for `making`. Rounds down, as the exchange does. */
export function takingOf(order: Order, making: bigint): bigint {
  return (making * order.takerAmount) / order.makerAmount;
}

/** The calldata of `matchOrders`. */
export function encodeMatch(match: Match): Hex {
  return encodeFunctionData({
    abi: exchangeAbi,
    functionName: 'matchOrders',
    args: [
      match.market.conditionId,
      match.takerOrder,
      match.makerOrders,
      match.takerFillAmount,
      match.makerFillAmounts,
      match.takerFeeAmount,
      match.makerFeeAmounts,
    ],
  });
}
