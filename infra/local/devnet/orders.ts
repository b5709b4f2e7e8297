/**
 * The orders that the devnet's wallets would have signed. A resting order is usually larger than its
 * first fill and is filled again by later matches at the same price, until it is used up.
 * Bounded: a market keeps a few resting orders, and a closed market keeps none.
 */
import type { Hex } from 'viem';
import type { Market } from './markets.ts';
import { BUY, type Match, type Order, type OutcomeIndex, SELL, type Side } from './match.ts';
import { PRICE_UNIT } from './prices.ts';
import type { Random } from './random.ts';
import type { Trader } from './traders.ts';

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
/** Codes of the front ends that orders come through; most orders carry none. */
const BUILDERS: readonly Hex[] = [
  `0x${'b1'.repeat(32)}`,
  `0x${'b2'.repeat(32)}`,
  `0x${'b3'.repeat(32)}`,
];

export class OrderBook {
  readonly #random: Random;
  readonly #resting = new Map<Hex, Resting[]>();

  constructor(random: Random) {
    this.#random = random;
  }

  /** An order of `maker` that can fill `shares` more at the offer: one that rests already, or a new one. */
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
      timestamp: random.chance(PLAIN_TIMESTAMP_CHANCE) ? BigInt(time - age) : 0n,
      metadata: ZERO_WORD,
      builder: random.chance(0.2) ? random.pick(BUILDERS) : ZERO_WORD,
      signature: random.chance(0.02) ? '0x' : random.hex(SIGNATURE_BYTES),
    };
  }

  /** Books what a match took of the resting orders. */
  fill(match: Match): void {
    const resting = this.#resting.get(match.market.conditionId) ?? [];
    for (const [i, order] of match.makerOrders.entries()) {
      const one = resting.find((candidate) => candidate.order === order);
      if (one === undefined) continue;
      const making = match.makerFillAmounts[i] ?? 0n;
      // Rounds up, so that the book never believes in more than the exchange has left.
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
