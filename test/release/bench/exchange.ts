/**
 * Generates the benchmarks' data: a seeded stream of matches and resolutions, shaped like thirty days of the real
 * exchange. A few hundred market makers have 90 % of the fills, quote both sides and keep small positions. Most other
 * traders trade a few times, buy, and often hold until the resolution. Prices are calibrated, the flow follows the time of
 * day and has bursts, and fees are computed like the exchange's. The same options give the same events.
 */

import type { Address, Fill, Hash, Match, TradingEvent } from '../../../ingest/contract.ts';
import { Random } from '../../../local/devnet/random.ts';
import {
  gauss,
  KINDS,
  type Kind,
  type Market,
  openMarket,
  periodAt,
  seriesOf,
} from './exchange-markets.ts';

export type ExchangeOptions = {
  readonly seed: number;
  /** Number of traders and of open markets, as a fraction of the real exchange. */
  readonly size: number;
  /** Approximate number of fills, and their time range in seconds since the epoch. */
  readonly fills: number;
  readonly from: number;
  readonly to: number;
};

/** The real exchange over `days` days. */
export const REAL = { days: 30, fills: 150_000_000, traders: 500_000, makers: 300 } as const;
/** Mean number of fills of a generated match. */
const FILLS_PER_MATCH = 2.72;
const BLOCK_SECONDS = 2;
const GENESIS = 1_590_824_836;
const EXCHANGE = `0x${'e1'.repeat(20)}` as Address;

/** Market makers per market, and the position above which a market maker starts to reduce it. */
const MAKERS_PER_MARKET = 12;
const MAKER_HELD_MAX = 500_000_000;
/** Share of market makers among the takers and among the makers of matches. Together they have 90 % of all fills. */
const TAKER_IS_MAKER = 0.76;
const MAKER_IS_MAKER = 0.97;
const RECENT_MAX = 32;
/** Shares are multiples of 0.01 and prices of 0.001, so that amounts of money are exact. */
const SHARE_STEP = 10_000;

const blockOf = (time: number) => Math.floor((time - GENESIS) / BLOCK_SECONDS);

function tradersOf(size: number) {
  const makers = Math.max(4, Math.round(REAL.makers * size));
  return { makers, all: makers + Math.max(100, Math.round(REAL.traders * size)) };
}

/** Flow relative to the mean: highest in the evening, lower at weekends, ten times the mean in bursts. */
function flowAt(time: number): number {
  const day = Math.floor(time / 86_400);
  const weekend = day % 7 === 2 || day % 7 === 3;
  const hour = 1 + 0.45 * Math.cos(((time / 3_600 - 19) / 12) * Math.PI);
  // On average six bursts of twelve minutes a month.
  const hash = Math.imul(Math.floor(time / 3_600), 0x9e3779b1) >>> 0;
  const isBurst = hash % 120 === 0 && time % 3_600 < 720;
  return hour * (weekend ? 0.8 : 1.08) * (isBurst ? 10 : 1);
}

/** Traders by number: market makers first, then the others. Within each group, the busiest come first. */
export class Traders {
  readonly #seed: number;
  readonly #addresses: Address[] = [];
  readonly makers: number;
  readonly count: number;

  constructor({ seed, size }: ExchangeOptions) {
    this.#seed = seed;
    ({ makers: this.makers, all: this.count } = tradersOf(size));
  }

  address(number: number): Address {
    const known = this.#addresses[number];
    if (known !== undefined) return known;
    const address = new Random(`${this.#seed} trader ${number}`).hex(20);
    this.#addresses[number] = address;
    return address;
  }

  /** Picks a trader that is not a market maker, by Zipf's law without its top ranks. */
  retail(random: Random): number {
    const first = (this.count - this.makers) / 10_000;
    const rank = first * (10_000 + 1) ** random.unit() - first;
    return this.makers + Math.min(Math.floor(rank), this.count - this.makers - 1);
  }

  /** Picks market makers for a market; busy ones are picked more often. */
  panel(random: Random): readonly number[] {
    return Array.from({ length: Math.min(MAKERS_PER_MARKET, this.makers) }, () =>
      Math.floor(this.makers * random.unit() ** 1.25),
    );
  }
}

/** Slots of one kind that share a rate of trades while they are open. The first quarter of them gets half of it. */
type Source = {
  readonly kind: Kind;
  readonly first: number;
  readonly places: number;
  /** Relative to the mean flow. */
  readonly rate: number;
  isOpen: boolean;
  /** `isOpen` is valid until this time. */
  until: number;
};

/** One source for all slots of a kind. Kinds with few slots have one per slot, because a slot is not open in every period. */
function sourcesOf(kind: Kind, size: number): readonly Source[] {
  const { series, existing, isFew } = seriesOf(kind, size);
  const rate = (kind.flow * (kind.late + 1)) / existing;
  if (!isFew) {
    return [
      { kind, first: 0, places: series, rate, isOpen: true, until: Number.POSITIVE_INFINITY },
    ];
  }
  return Array.from({ length: series }, (_, first) => {
    const part = Math.sqrt((first + 1) / series) - Math.sqrt(first / series);
    return { kind, first, places: 1, rate: rate * part, isOpen: false, until: 0 };
  });
}

export class Exchange {
  readonly traders: Traders;
  /** Called once for each market, before its first match. */
  readonly #onMarket: (market: Market) => void;
  readonly #options: ExchangeOptions;
  readonly #random: Random;
  readonly #hashes: Random;
  readonly #open = new Map<number, Market>();
  /** Keyed by the block of the resolution. */
  readonly #ending = new Map<number, Market[]>();
  #logs = 0;
  #txHash: Hash | undefined;

  constructor(options: ExchangeOptions, onMarket: (market: Market) => void = () => undefined) {
    this.#options = options;
    this.#onMarket = onMarket;
    this.traders = new Traders(options);
    this.#random = new Random(`exchange ${options.seed}`);
    this.#hashes = new Random(`hashes ${options.seed}`);
  }

  /** Matches and resolutions in chain order. */
  *events(): Generator<TradingEvent> {
    const { fills, from, to, size } = this.#options;
    const blocks = blockOf(to) - blockOf(from);
    let flow = 0;
    for (let time = from; time < to; time += 10) flow += flowAt(time) / ((to - from) / 10);
    const perBlock = fills / FILLS_PER_MATCH / blocks / flow;
    const sources = KINDS.flatMap((kind) => sourcesOf(kind, size));
    for (let block = blockOf(from); block < blockOf(to); block++) {
      const time = GENESIS + block * BLOCK_SECONDS;
      this.#logs = 0;
      this.#txHash = undefined;
      yield* this.#resolutions(block, time);
      const now = perBlock * flowAt(time);
      for (const source of sources) {
        if (time >= source.until) {
          source.isOpen = periodAt(source.kind, source.first, time, size) !== undefined;
          source.until = (Math.floor(time / source.kind.duration) + 1) * source.kind.duration;
        }
        if (!source.isOpen) continue;
        for (let left = poisson(this.#random, source.rate * now); left > 0; left--) {
          const market = this.#marketAt(source.kind, this.#placeIn(source), time);
          if (market !== undefined) yield this.#match(market, block, time);
        }
      }
    }
  }

  #placeIn({ first, places }: Source): number {
    return places === 1 ? first : first + Math.floor(places * this.#random.unit() ** 2);
  }

  *#resolutions(blockNumber: number, blockTime: number): Generator<TradingEvent> {
    for (const market of this.#ending.get(blockNumber) ?? []) {
      this.#open.delete(market.number);
      const [txHash, logIndex] = [this.#hashes.hex(32), this.#logs];
      this.#logs += 1;
      const { conditionId } = market;
      const payouts = market.payouts();
      yield { kind: 'resolution', blockNumber, blockTime, txHash, conditionId, logIndex, payouts };
    }
    this.#ending.delete(blockNumber);
  }

  /** The open market in a slot; undefined if nobody trades in it now. */
  #marketAt(kind: Kind, place: number, time: number): Market | undefined {
    const { seed, size } = this.#options;
    const period = periodAt(kind, place, time, size);
    if (period === undefined) return undefined;
    const phase = (time - period.start) / kind.duration;
    if (kind.late > 0 && this.#random.unit() >= phase ** kind.late) return undefined;
    const known = this.#open.get(period.number);
    if (known !== undefined) return known;
    const market = openMarket(seed, kind, period, (random) => this.traders.panel(random));
    this.#open.set(market.number, market);
    const block = blockOf(market.resolvedAt);
    this.#ending.set(block, [...(this.#ending.get(block) ?? []), market]);
    this.#onMarket(market);
    return market;
  }

  #match(market: Market, blockNumber: number, blockTime: number): Match {
    const random = this.#random;
    const price = market.priceAt(blockTime);
    const taker = this.#taker(market);
    const { direction } = taker;
    // Buying this outcome and selling the other one are the same trade.
    const outcome = direction > 0 ? 0 : 1;
    const first = askOf(outcome === 0 ? price : 1 - price, random);
    const step = first < 40 || first > 960 ? 1 : 10;
    const wanted = taker.shares || sharesFor(spent(taker.isMaker, random), first);
    const makers = random.chance(1 / 3) ? 2 + Math.floor(-1.6 * Math.log(1 - random.unit())) : 1;
    const fills: Fill[] = [];
    let [left, total] = [wanted, 0];
    for (let i = Math.min(makers, 12, wanted / SHARE_STEP); i > 0; i--) {
      const shares = i === 1 ? left : part(left, i, random);
      const thousandths = Math.min(999, first + step * fills.length);
      const cost = (shares / 1_000) * thousandths;
      const trader = this.#maker(market, taker.trader, direction);
      const maker = { trader, isTaker: false, direction: -direction, shares, cost: shares - cost };
      fills.push(this.#fill(market, maker));
      left -= shares;
      total += cost;
    }
    const { trader } = taker;
    const all = { trader, isTaker: true, direction, shares: wanted, cost: total };
    fills.push(this.#fill(market, all));
    // 10 % of the transactions execute more than one match.
    if (this.#txHash === undefined || random.unit() > 0.1) this.#txHash = this.#hashes.hex(32);
    const logIndex = this.#logs++;
    const { conditionId } = market;
    return {
      ...{ kind: 'match', blockNumber, blockTime, txHash: this.#txHash, logIndex },
      ...{ exchange: EXCHANGE, conditionId, fills },
    };
  }

  /** Picks the taker and the outcome; `shares` is set if the taker closes its position. */
  #taker(market: Market) {
    const random = this.#random;
    const { held, makers, recent } = market;
    if (random.unit() < TAKER_IS_MAKER) {
      const trader = random.pick(makers);
      const own = held.get(trader) ?? 0;
      const reduces = Math.abs(own) > MAKER_HELD_MAX || random.unit() < 0.5;
      const direction = reduces && own !== 0 ? -Math.sign(own) : random.unit() < 0.5 ? 1 : -1;
      const shares = Math.abs(own) > MAKER_HELD_MAX ? Math.abs(own) : 0;
      return { trader, isMaker: true, direction, shares };
    }
    const again = recent.length > 0 && random.unit() < 0.5;
    const trader = again ? random.pick(recent) : this.traders.retail(random);
    if (!again) {
      if (recent.length < RECENT_MAX) recent.push(trader);
      else recent[random.below(RECENT_MAX)] = trader;
    }
    const own = held.get(trader) ?? 0;
    if (again && own !== 0 && random.unit() < 0.5) {
      return { trader, isMaker: false, direction: -Math.sign(own), shares: Math.abs(own) };
    }
    const more = own === 0 ? (random.unit() < 0.6 ? 1 : -1) : Math.sign(own);
    return { trader, isMaker: false, direction: more, shares: 0 };
  }

  /** Picks the maker: of two random market makers, the one whose position shrinks more. */
  #maker({ makers, held }: Market, taker: number, direction: number): number {
    if (this.#random.unit() >= MAKER_IS_MAKER) return this.traders.retail(this.#random);
    const [one, other] = [this.#random.pick(makers), this.#random.pick(makers)];
    const suits = (trader: number) =>
      trader === taker ? Number.NEGATIVE_INFINITY : (held.get(trader) ?? 0) * direction;
    return suits(one) > suits(other) ? one : other;
  }

  /** A fill towards outcome 0 (direction 1) or outcome 1. A trader who holds the other outcome sells it; others buy. */
  #fill(
    { held, kind, tokenIds }: Market,
    order: {
      readonly trader: number;
      readonly isTaker: boolean;
      readonly direction: number;
      readonly shares: number;
      /** Cost of the shares at the price of the outcome that the fill goes towards, micro-USDC. */
      readonly cost: number;
    },
  ): Fill {
    const { trader, isTaker, direction, shares, cost } = order;
    const own = held.get(trader) ?? 0;
    const sells = own * direction <= -shares;
    const towards = direction > 0 ? 0 : 1;
    const outcomeIndex = sells ? (towards === 0 ? 1 : 0) : towards;
    const usdc = sells ? shares - cost : cost;
    const after = own + direction * shares;
    if (after === 0) held.delete(trader);
    else held.set(trader, after);
    const fee = isTaker ? takerFee(kind.feeRate, usdc, shares) : 0;
    // Leaves room for the logs of transfers and FeeCharged that come before a fill on chain.
    this.#logs += fee > 0 ? 4 : 3;
    return {
      logIndex: this.#logs++,
      orderHash: this.#hashes.hex(32),
      trader: this.traders.address(trader),
      ...{ isTaker, side: sells ? 'SELL' : 'BUY', outcomeIndex },
      tokenId: tokenIds[outcomeIndex],
      shares: BigInt(shares),
      usdc: BigInt(usdc),
      fee: BigInt(fee),
    };
  }
}

/** shares · rate · p(1−p), truncated to 5 decimals of a USDC. */
function takerFee(rateMillionths: number, usdc: number, shares: number): number {
  const fee = (rateMillionths * usdc * (1 - usdc / shares)) / 1_000_000;
  return Math.max(0, Math.floor(fee / 10) * 10);
}

/** The lowest ask for an outcome of this price, in thousandths. */
function askOf(price: number, random: Random): number {
  const fair = price * 1_000;
  const tick = fair < 40 || fair > 960 ? 1 : 10;
  // Rounds randomly so that the mean equals the price, then adds a fraction of a tick for the makers.
  const rounded = Math.floor(fair / tick + random.unit()) * tick;
  return Math.min(999, Math.max(1, rounded + (random.unit() < 0.3 ? tick : 0)));
}

/** Value of an order in USDC: log-normal, with a median of 25 for market makers and 12 for others. */
function spent(isMaker: boolean, random: Random): number {
  return isMaker ? 25 * Math.exp(1.1 * gauss(random)) : 12 * Math.exp(1.5 * gauss(random));
}

/** Micro-shares that cost about this amount, at most 300,000 shares. */
function sharesFor(usdc: number, thousandths: number): number {
  const hundredths = Math.round((usdc * 100_000) / thousandths);
  return Math.min(30_000_000, Math.max(100, hundredths)) * SHARE_STEP;
}

/** A random part of the shares for one of `makers` makers, which leaves at least one step for each of the others. */
function part(left: number, makers: number, random: Random): number {
  const steps = left / SHARE_STEP;
  const some = Math.floor((steps / makers) * 2 * random.unit());
  return Math.max(1, Math.min(steps - makers + 1, some)) * SHARE_STEP;
}

function poisson(random: Random, mean: number): number {
  // For large means, exp(-mean) would underflow to 0.
  if (mean > 500) return Math.round(mean + Math.sqrt(mean) * gauss(random));
  const limit = Math.exp(-mean);
  let count = 0;
  for (let product = random.unit(); product > limit; product *= random.unit()) count += 1;
  return count;
}
