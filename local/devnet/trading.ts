/**
 * Decides the next match: a market, a taker and its intention, one to six makers near the fair price, and the orders
 * that they would have signed. All match types of the exchange occur: makers on the opposite side (complementary),
 * makers on the same side of the other outcome (mint, merge), and both at once. Proposes only matches that the
 * holdings allow. Does no I/O and reads no clock: the time is an argument.
 */
import type { Holdings } from './holdings.ts';
import { fairPrice, type Market, PRICE_UNIT } from './markets.ts';
import {
  BUY,
  type Match,
  type Order,
  OrderBook,
  type OutcomeIndex,
  SELL,
  type Side,
  settle,
  takingOf,
} from './orders.ts';
import type { Random } from './random.ts';
import type { Topic } from './topics.ts';
import type { Trader } from './traders.ts';

/** The intention of a taker. Prices in thousandths, shares in micro-shares. */
type Intent = {
  readonly market: Market;
  readonly trader: Trader;
  readonly side: Side;
  readonly outcome: OutcomeIndex;
  readonly price: number;
  readonly shares: bigint;
};

type MakerFill = { readonly order: Order; readonly making: bigint };

const PRICE_UNIT_BIG = BigInt(PRICE_UNIT);
const MICRO = 1_000_000n;
/** Order sizes are whole hundredths of a share, so that price × shares has no remainder. */
const SHARE_STEP = 10_000n;
const SHARES_MIN = 1n * MICRO;
const MAKER_COUNT_WEIGHTS = [48, 24, 12, 8, 5, 3];
const MAKER_TRIES_MAX = 14;
/** Fills of an odd amount exercise the exchange's rounding. */
const ODD_FILL_CHANCE = 0.15;
const COMPLEMENTARY_CHANCE = 0.65;
/** How often the taker already holds shares of the market, and is likely to sell. */
const HOLDER_TAKES_CHANCE = 0.4;
/** How often a maker is picked from those who hold what the match needs. */
const HOLDER_MAKES_CHANCE = 0.55;
/** Fees are truncated to 5 decimals of a USDC. */
const FEE_STEP = 10n;

export class Trading {
  readonly #traders: readonly Trader[];
  readonly #holdings: Holdings;
  readonly #random: Random;
  readonly #book: OrderBook;
  readonly #byAddress: ReadonlyMap<string, Trader>;
  readonly #takers = new Map<Topic, readonly number[]>();
  readonly #makers = new Map<Topic, readonly number[]>();

  constructor(traders: readonly Trader[], holdings: Holdings, random: Random) {
    this.#traders = traders;
    this.#holdings = holdings;
    this.#random = random;
    this.#book = new OrderBook(random);
    this.#byAddress = new Map(traders.map((trader) => [trader.address, trader]));
  }

  /** The next match in a market at `time` (unix milliseconds); undefined if the random draws yield none. */
  propose(market: Market, time: number): Match | undefined {
    const intent = this.#intend(market, time);
    if (intent === undefined) return undefined;
    const makers = this.#findMakers(intent, time);
    if (makers.length === 0) return undefined;
    const match = this.#complete(intent, makers, time);
    if (!this.#holdings.affords(match)) return undefined;
    this.#holdings.apply(match);
    this.#book.fill(match);
    return match;
  }

  /** Drops the resting orders of a market that has ended. */
  close(market: Market): void {
    this.#book.close(market);
  }

  #intend(market: Market, time: number): Intent | undefined {
    const holder = this.#random.chance(HOLDER_TAKES_CHANCE)
      ? this.#pickHolder(market, this.#random.chance(0.5) ? 0 : 1)
      : undefined;
    const trader = holder ?? this.#pick(market.event.topic, this.#takers, (one) => one.habit.takes);
    const { habit } = trader;
    const held = ([0, 1] as const).map((k) => this.#holdings.shares(market, k, trader.address));
    const [held0 = 0n, held1 = 0n] = held;
    const random = this.#random;
    const most: OutcomeIndex = held0 >= held1 ? 0 : 1;
    const fair = fairPrice(market, Math.floor(time / 1000));
    if (
      held[most] !== undefined &&
      held[most] >= SHARES_MIN &&
      random.chance(holder === undefined ? habit.sells : 0.7)
    ) {
      const price = inRange(
        (most === 0 ? fair : PRICE_UNIT - fair) - market.tick * random.below(2),
        market,
      );
      const size = this.#size(trader, price);
      const shares = roundShares(held[most] < size ? held[most] : size);
      if (shares < SHARES_MIN) return undefined;
      return { market, trader, side: SELL, outcome: most, price, shares };
    }
    const outcome = this.#chooseOutcome(market, trader, fair, held0, held1);
    const base = outcome === 0 ? fair : PRICE_UNIT - fair;
    const price = inRange(base + market.tick * random.below(2), market);
    const shares = roundShares(this.#size(trader, price));
    const affordable = (this.#holdings.cash(trader.address) * 8n) / 10n;
    if (shares < SHARES_MIN || (shares * BigInt(price)) / PRICE_UNIT_BIG > affordable) {
      return undefined;
    }
    return { market, trader, side: BUY, outcome, price, shares };
  }

  /**
   * Size of a trade at this price in micro-shares. Sales are no larger than purchases. Otherwise the volume would
   * grow with the positions, which grow where there is much trading.
   */
  #size({ habit }: Trader, price: number): bigint {
    const usdc = habit.sizeMin * (habit.sizeMax / habit.sizeMin) ** this.#random.unit();
    return BigInt(Math.floor((usdc * 1e6 * PRICE_UNIT) / price));
  }

  /** Right as often as the price implies, shifted by the trader's insight; without it nobody would gain. */
  #chooseOutcome(
    market: Market,
    trader: Trader,
    fair: number,
    held0: bigint,
    held1: bigint,
  ): OutcomeIndex {
    if (trader.habit.name === 'arbitrageur' && held0 !== held1) return held0 < held1 ? 0 : 1;
    const right: OutcomeIndex = market.payouts[0] >= market.payouts[1] ? 0 : 1;
    const price = (right === 0 ? fair : PRICE_UNIT - fair) / PRICE_UNIT;
    const edge = (price * trader.insight) / (1 - trader.insight);
    if (this.#random.chance(edge / (edge + 1 - price))) return right;
    return right === 0 ? 1 : 0;
  }

  /** Fills the intent level by level; a level may be a tick worse for the taker. */
  #findMakers(intent: Intent, time: number): readonly MakerFill[] {
    const { market } = intent;
    const wanted = 1 + this.#random.weighted(MAKER_COUNT_WEIGHTS);
    const used = new Set([intent.trader.address]);
    const fills: MakerFill[] = [];
    let rest = intent.shares;
    let price = intent.price;
    for (let tries = 0; tries < MAKER_TRIES_MAX && rest >= SHARES_MIN; tries++) {
      if (fills.length === wanted) break;
      const last = fills.length === wanted - 1;
      const share = last
        ? rest
        : roundShares((rest * BigInt(250 + this.#random.below(600))) / 1000n);
      const fill = this.#findMaker(intent, price, share, used, time);
      if (fill === undefined) continue;
      fills.push(fill);
      used.add(fill.order.maker);
      rest -= fill.order.side === SELL ? fill.making : takingOf(fill.order, fill.making);
      rest = roundShares(rest);
      const worse = this.#random.chance(0.6) ? market.tick : 0;
      price = inRange(price + (intent.side === BUY ? worse : -worse), market);
    }
    return fills;
  }

  #findMaker(
    intent: Intent,
    price: number,
    shares: bigint,
    used: ReadonlySet<string>,
    time: number,
  ): MakerFill | undefined {
    const { market, side, outcome } = intent;
    const other: OutcomeIndex = outcome === 0 ? 1 : 0;
    const holder = this.#random.chance(HOLDER_MAKES_CHANCE)
      ? this.#pickHolder(market, side === BUY ? outcome : other)
      : undefined;
    const maker = holder ?? this.#pick(market.event.topic, this.#makers, (one) => one.habit.makes);
    if (used.has(maker.address) || shares < SHARES_MIN) return undefined;
    const complementary = { side: side === BUY ? SELL : BUY, outcome, price } as const;
    const sameSide = { side, outcome: other, price: PRICE_UNIT - price } as const;
    const first = this.#random.chance(COMPLEMENTARY_CHANCE);
    for (const offer of first ? [complementary, sameSide] : [sameSide, complementary]) {
      const available = this.#available(market, maker, offer);
      const size = roundShares(available < shares ? available : shares);
      if (size < SHARES_MIN) continue;
      const order = this.#book.rest(market, maker, offer, size, time);
      return { order, making: this.#makingFor(order, size) };
    }
    return undefined;
  }

  /** Shares that a maker can sell or pay for. */
  #available(
    market: Market,
    maker: Trader,
    offer: { readonly side: Side; readonly outcome: OutcomeIndex; readonly price: number },
  ): bigint {
    if (offer.side === SELL) return this.#holdings.shares(market, offer.outcome, maker.address);
    const spendable = this.#holdings.cash(maker.address) / 4n;
    return (spendable * PRICE_UNIT_BIG) / BigInt(offer.price);
  }

  #makingFor(order: Order, shares: bigint): bigint {
    // Exact: orders are in whole steps, so makerAmount · shares / takerAmount has no remainder.
    const making = order.side === SELL ? shares : (shares * order.makerAmount) / order.takerAmount;
    if (making > MICRO && this.#random.chance(ODD_FILL_CHANCE)) {
      return making - BigInt(this.#random.below(9_999));
    }
    return making;
  }

  #complete(intent: Intent, makers: readonly MakerFill[], time: number): Match {
    const { market, side, trader } = intent;
    const draft: Match = {
      market,
      takerOrder: this.#book.place(market, trader, intent, MICRO, time),
      makerOrders: makers.map(({ order }) => order),
      takerFillAmount: 0n,
      makerFillAmounts: makers.map(({ making }) => making),
      takerFeeAmount: 0n,
      makerFeeAmounts: makers.map(() => 0n),
    };
    const open = settle(draft).at(-1);
    if (open === undefined) throw new RangeError('a match has a taker');
    // The draft's fill amount is 0, so `making - refund` is the amount that the taker needs.
    const needed = open.making - open.refund;
    const usdc = side === BUY ? needed : open.taking;
    const shares = side === BUY ? open.taking : needed;
    const limit = this.#limit(intent, makers);
    const size = this.#random.chance(0.5) ? roundUp(shares) : roundUp((shares * 13n) / 10n);
    const takerOrder = this.#book.place(market, trader, { ...intent, price: limit }, size, time);
    const rate = BigInt(market.event.topic.feeRateMillionths);
    return {
      ...draft,
      takerOrder,
      takerFillAmount: needed,
      takerFeeAmount: takerFee(rate, usdc, shares),
    };
  }

  /** The taker's limit: the worst level of its makers, or slightly beyond. */
  #limit(intent: Intent, makers: readonly MakerFill[]): number {
    const levels = makers.map(({ order }) => levelFor(intent.side, order));
    const slack = intent.market.tick * this.#random.below(4);
    const limit = intent.side === BUY ? Math.max(...levels) + slack : Math.min(...levels) - slack;
    return Math.min(PRICE_UNIT - 1, Math.max(1, limit));
  }

  #pickHolder(market: Market, outcome: OutcomeIndex): Trader | undefined {
    const holders = this.#holdings.holders(market, outcome);
    return holders.length === 0 ? undefined : this.#byAddress.get(this.#random.pick(holders));
  }

  #pick(
    topic: Topic,
    cache: Map<Topic, readonly number[]>,
    weightOf: (trader: Trader) => number,
  ): Trader {
    let weights = cache.get(topic);
    if (weights === undefined) {
      weights = this.#traders.map((one) => (one.topics.has(topic) ? weightOf(one) : 0));
      cache.set(topic, weights);
    }
    const trader = this.#traders[this.#random.weighted(weights)];
    if (trader === undefined) throw new RangeError(`nobody trades ${topic.key}`);
    return trader;
  }
}

/** shares · rate · p(1−p) with p = usdc/shares, truncated to 5 decimals of a USDC. */
export function takerFee(rateMillionths: bigint, usdc: bigint, shares: bigint): bigint {
  if (shares === 0n || usdc >= shares) return 0n;
  const fee = (rateMillionths * usdc * (shares - usdc)) / (shares * MICRO);
  return fee - (fee % FEE_STEP);
}

/** The price of a maker's order in thousandths, for the taker's outcome. */
function levelFor(takerSide: Side, order: Order): number {
  const [usdc, shares] =
    order.side === BUY
      ? [order.makerAmount, order.takerAmount]
      : [order.takerAmount, order.makerAmount];
  const price = Number((usdc * PRICE_UNIT_BIG) / shares);
  return order.side === takerSide ? PRICE_UNIT - price : price;
}

function inRange(price: number, market: Market): number {
  return Math.min(PRICE_UNIT - market.tick, Math.max(market.tick, price));
}

/** Rounds down to a valid order size. */
function roundShares(shares: bigint): bigint {
  return shares - (shares % SHARE_STEP);
}

function roundUp(shares: bigint): bigint {
  return roundShares(shares + SHARE_STEP - 1n);
}
