/**
 * Orders and matches: the orders that the devnet's wallets would have signed, and the effect of matching them, in the
 * integer arithmetic of CtfExchange.sol, so that the traders' books agree with the chain to the micro-unit.
 */

import { encodeFunctionData, type Hex } from 'viem';
import { exchangeAbi, exchangeV3Abi } from './contracts.ts';
import { isV2, type Market, PRICE_UNIT, tokenOf } from './markets.ts';
import type { Random } from './random.ts';
import type { Trader } from './traders.ts';

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
  /** Milliseconds, or seconds on the exchange of version 3, or 0. */
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

/** The amounts that one order gave and received, in micro-units; its event contains `making`. */
type Execution = {
  readonly order: Order;
  readonly making: bigint;
  readonly taking: bigint;
  readonly fee: bigint;
  /** Part of `making` that was returned to the taker. */
  readonly refund: bigint;
};

/** The executions of a match: makers in calldata order, then the taker. */
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

/** The amount that an order receives for `making`, rounded down as on the exchange. */
export function takingOf(order: Order, making: bigint): bigint {
  return (making * order.takerAmount) / order.makerAmount;
}

/** The calldata of the exchange's call. */
export function encodeMatch(match: Match): Hex {
  if (isV2(match.market)) return encodeMatchV3(match);
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

/** Always with the legs of a combo, so that its first match prepares it. */
function encodeMatchV3(match: Match): Hex {
  const { market, takerOrder, makerOrders, makerFillAmounts, makerFeeAmounts } = match;
  const { takerFillAmount, takerFeeAmount } = match;
  const takerReceiveAmount = settle(match).at(-1)?.taking ?? 0n;
  const amounts = { takerFillAmount, takerReceiveAmount, takerFeeAmount };
  const args = [takerOrder, makerOrders, makerFillAmounts, makerFeeAmounts, amounts] as const;
  const abi = exchangeV3Abi;
  if (market.legs === undefined) {
    return encodeFunctionData({ abi, functionName: 'matchOrders', args });
  }
  const functionName = 'matchOrdersAndPrepareCombinatorial';
  return encodeFunctionData({ abi, functionName, args: [...args, market.legs.map(tokenOf)] });
}

type Offer = {
  readonly side: Side;
  readonly outcome: OutcomeIndex;
  /** Thousandths of a USDC. */
  readonly price: number;
};

type Resting = { readonly order: Order; readonly offer: Offer; left: bigint };

const RESTING_PER_MARKET_MAX = 24;
const PLAIN_TIMESTAMP_CHANCE = 0.95;
const SIGNATURE_BYTES = 65;
const ZERO_WORD: Hex = `0x${'00'.repeat(32)}`;
/** Codes of the front ends that send orders; most orders carry none. */
const BUILDERS: readonly Hex[] = [
  `0x${'b1'.repeat(32)}`,
  `0x${'b2'.repeat(32)}`,
  `0x${'b3'.repeat(32)}`,
];

/**
 * Resting orders. Most are larger than their first fill, and later matches at the same price fill the rest.
 * Bounded: a market keeps few resting orders, and a closed market none.
 */
export class OrderBook {
  readonly #random: Random;
  readonly #resting = new Map<Hex, Resting[]>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** An order of `maker` that can fill `shares` more at the offer: a resting one, or a new one. */
  rest(market: Market, maker: Trader, offer: Offer, shares: bigint, time: number): Order {
    const resting = this.#resting.get(market.conditionId) ?? [];
    const fitting = resting.find(
      (one) =>
        one.order.maker === maker.address &&
        one.offer.side === offer.side &&
        one.offer.outcome === offer.outcome &&
        one.offer.price === offer.price &&
        one.left >= shares,
    );
    if (fitting !== undefined) return fitting.order;
    const size = shares * BigInt(1 + this.#random.below(4));
    const order = this.place(market, maker, offer, size, time);
    resting.push({ order, offer, left: size });
    if (resting.length > RESTING_PER_MARKET_MAX) resting.shift();
    this.#resting.set(market.conditionId, resting);
    return order;
  }

  /** A new order of `shares` micro-shares (whole hundredths of a share) at the offer. */
  place(market: Market, trader: Trader, offer: Offer, shares: bigint, time: number): Order {
    const random = this.#random;
    // Exact: shares are a multiple of 10,000 and prices are thousandths.
    const usdc = (shares * BigInt(offer.price)) / BigInt(PRICE_UNIT);
    const age = random.below(60_000);
    return {
      salt: BigInt(random.hex(8)),
      maker: trader.address,
      signer: trader.signer,
      tokenId: market.tokenIds[offer.outcome],
      makerAmount: offer.side === BUY ? usdc : shares,
      takerAmount: offer.side === BUY ? shares : usdc,
      side: offer.side,
      signatureType: trader.signatureType,
      timestamp: random.chance(PLAIN_TIMESTAMP_CHANCE) ? timestampOf(market, time - age) : 0n,
      metadata: ZERO_WORD,
      builder: random.chance(0.2) ? random.pick(BUILDERS) : ZERO_WORD,
      signature: random.chance(0.02) ? '0x' : random.hex(SIGNATURE_BYTES),
    };
  }

  /** Subtracts what a match filled. */
  fill(match: Match): void {
    const resting = this.#resting.get(match.market.conditionId) ?? [];
    for (const [i, order] of match.makerOrders.entries()) {
      const one = resting.find((candidate) => candidate.order === order);
      if (one === undefined) continue;
      const making = match.makerFillAmounts[i] ?? 0n;
      // Rounds up, so that the book never assumes more than the exchange has left.
      one.left -=
        order.side === SELL
          ? making
          : (making * order.takerAmount + order.makerAmount - 1n) / order.makerAmount;
      one.left -= one.left % 10_000n;
    }
    this.#resting.set(
      match.market.conditionId,
      resting.filter((one) => one.left > 0n),
    );
  }

  close(market: Market): void {
    this.#resting.delete(market.conditionId);
  }
}

function timestampOf(market: Market, timeMs: number): bigint {
  return BigInt(isV2(market) ? Math.floor(timeMs / 1_000) : timeMs);
}
