/**
 * The devnet's calendar of markets and their prices. Both are pure functions of the seed, so that after a restart,
 * events have the same ids, texts, odds, results and prices without being stored. Every topic has an event for every
 * slot of its rhythm, counted from the unix epoch. This file does not use the state of the chain.
 */
import { LRUCache } from 'lru-cache';
import { concat, encodePacked, type Hex, keccak256, numberToHex, toHex } from 'viem';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { EXCHANGE, EXCHANGE_V3, NEG_RISK_EXCHANGE, ORACLE, PUSD } from './contracts.ts';
import { BINARY, comboId, NEG_RISK, positionId } from './position-ids.ts';
import { Random } from './random.ts';
import { TOPICS, type Topic, writeEvent } from './topics.ts';

export type MarketEvent = {
  readonly id: number;
  readonly slug: string;
  readonly title: string;
  readonly topic: Topic;
  readonly negRisk: boolean;
};

export type Market = {
  /** Unique text of the market; its prices are drawn from it. */
  readonly key: string;
  readonly id: number;
  readonly event: MarketEvent;
  readonly questionId: Hex;
  readonly conditionId: Hex;
  readonly tokenIds: readonly [bigint, bigint];
  readonly exchange: Hex;
  readonly question: string;
  readonly slug: string;
  readonly outcomes: readonly [string, string];
  readonly groupItemTitle: string;
  readonly sportsMarketType: string | undefined;
  /** Probability of outcome 0 at the opening. */
  readonly odds: number;
  /** Smallest price step in thousandths of a USDC: 10 or 1. */
  readonly tick: number;
  readonly startTime: number;
  /** Trading ends at this second. */
  readonly endTime: number;
  /** When the oracle reports: seconds after the end of short markets, minutes after others. */
  readonly resolveTime: number;
  /** What the outcomes get of a share, as parts of their sum. */
  readonly payouts: readonly [number, number];
  /** Of a combo, which pays outcome 0 if all of them win; ordered by their token ids, of different events. */
  readonly legs?: readonly Leg[];
};

type Leg = { readonly market: Market; readonly outcome: 0 | 1 };

export function isV2(market: Market): boolean {
  return market.exchange === EXCHANGE_V3;
}

export function tokenOf({ market, outcome }: Leg): bigint {
  return market.tokenIds[outcome];
}

const HOUR_SECONDS = 3600;
const TOPIC_IDS = 4_000_000;
const SLOT_IDS = 16;
/** Slots are counted from some time before the genesis, since the first events opened before it. */
const SLOTS_BEFORE = 100;
const CACHED_EVENTS_MAX = 5_000;
/** Far more than the markets that are listed at a time. */
const TOKEN_IDS_MAX = 20_000;
const EVEN_SPLIT_CHANCE = 0.03;
/** How many favourites a combo has: of games of consecutive slots, which are open at the same time. */
const COMBO_SIZES = [2, 3];

export class Calendar {
  readonly #seed: string;
  readonly #genesisTime: number;
  readonly #cache = new LRUCache<string, readonly Market[]>({ max: CACHED_EVENTS_MAX });

  constructor(seed: number, genesisTime: number) {
    this.#seed = String(seed);
    this.#genesisTime = genesisTime;
  }

  /** Markets of a topic that trade at `time` (unix seconds), ordered by their end. */
  open(topic: Topic, time: number): readonly Market[] {
    return this.#ending(topic, time + 1, time + topic.openHours * HOUR_SECONDS).filter(
      (market) => market.startTime <= time,
    );
  }

  /** All markets whose event is open at some time in [from, to]. */
  between(from: number, to: number): readonly Market[] {
    return TOPICS.flatMap((topic) =>
      this.#ending(topic, from + 1, to + topic.openHours * HOUR_SECONDS).filter(
        (market) => market.startTime <= to,
      ),
    );
  }

  #ending(topic: Topic, from: number, to: number): readonly Market[] {
    const period = topic.periodHours * HOUR_SECONDS;
    const offset = this.#offset(topic);
    const markets: Market[] = [];
    const last = Math.floor((to - offset) / period);
    for (let slot = Math.ceil((from - offset) / period); slot <= last; slot++) {
      markets.push(...this.#event(topic, slot));
    }
    return markets;
  }

  /** Seconds from the epoch's grid to a topic's slots; windows of minutes lie on the grid. */
  #offset(topic: Topic): number {
    if (topic.shape.kind === 'up-or-down') return 0;
    const minutes = new Random(`offset:${this.#seed}:${topic.key}`).below(topic.periodHours * 60);
    return minutes * 60;
  }

  /** The markets of an event, and the combos that end with it. */
  #event(topic: Topic, slot: number): readonly Market[] {
    const markets = this.#marketsOf(topic, slot);
    if (topic.isV2 === undefined || topic.shape.kind !== 'game') return markets;
    return [...markets, ...COMBO_SIZES.map((size) => this.#combo(topic, slot, size))];
  }

  #marketsOf(topic: Topic, slot: number): readonly Market[] {
    return this.#cached(`${topic.key}:${slot}`, () => this.#makeEvent(topic, slot));
  }

  #combo(topic: Topic, slot: number, size: number): Market {
    const key = `combo:${this.#seed}:${topic.key}:${slot}:${size}`;
    const [combo] = this.#cached(key, () => {
      const random = new Random(key);
      const legs = Array.from({ length: size }, (_, at): Leg => {
        const market = random.pick(this.#marketsOf(topic, slot + at));
        return { market, outcome: market.odds >= 0.5 ? 0 : 1 };
      });
      return [makeCombo(key, legs)];
    });
    if (combo === undefined) throw new RangeError(`no combo ${key}`);
    return combo;
  }

  #cached(key: string, make: () => readonly Market[]): readonly Market[] {
    const markets = this.#cache.get(key) ?? make();
    this.#cache.set(key, markets);
    return markets;
  }

  #makeEvent(topic: Topic, slot: number): readonly Market[] {
    const period = topic.periodHours * HOUR_SECONDS;
    const endTime = slot * period + this.#offset(topic);
    const startTime = endTime - topic.openHours * HOUR_SECONDS;
    const random = new Random(`event:${this.#seed}:${topic.key}:${slot}`);
    const text = writeEvent(topic, startTime, endTime, random);
    const place = TOPICS.indexOf(topic) * TOPIC_IDS;
    const slotsAtGenesis = Math.floor(this.#genesisTime / period);
    const id = TOPIC_IDS + place + (slot - slotsAtGenesis + SLOTS_BEFORE) * SLOT_IDS;
    const event: MarketEvent = {
      id,
      slug: text.slugStart,
      title: text.title,
      topic,
      negRisk: text.exclusive,
    };
    const resolveDelay = () => random.below(Math.min(600, period / 20)) + 2;
    // A neg-risk event of protocol version 2 has its results at once, because the winner's decides the others'.
    const jointDelay = topic.isV2 && text.exclusive ? resolveDelay() : undefined;
    const winner = text.exclusive ? random.weighted(text.questions.map((q) => q.odds)) : -1;
    const split = !text.exclusive && random.chance(EVEN_SPLIT_CHANCE);
    return text.questions.map((question, index): Market => {
      const key = `${this.#seed}:${topic.key}:${slot}:${index}`;
      const first = text.exclusive ? index === winner : random.chance(question.odds);
      const ids = topic.isV2
        ? structuredIds(`${this.#seed}:${topic.key}:${slot}`, index, text)
        : deriveIds(key);
      return {
        key,
        id: id + index,
        event,
        ...ids,
        exchange: topic.isV2 ? EXCHANGE_V3 : text.exclusive ? NEG_RISK_EXCHANGE : EXCHANGE,
        question: question.question,
        slug: [text.slugStart, question.slugEnd].filter((part) => part !== '').join('-'),
        outcomes: question.outcomes,
        groupItemTitle: question.groupItemTitle,
        sportsMarketType: question.sportsMarketType,
        odds: question.odds,
        tick: topic.shape.kind === 'one-of-many' ? 1 : 10,
        startTime,
        endTime,
        resolveTime: endTime + (jointDelay ?? resolveDelay()),
        payouts: split ? [1, 1] : first ? [1, 0] : [0, 1],
        get tokenIds() {
          return topic.isV2 ? pairOf(ids.conditionId) : tokenIdsOf(ids.conditionId);
        },
      };
    });
  }
}

/** Sets ids that the contract has already computed. */
export function rememberTokenIds(conditionId: Hex, ids: readonly [bigint, bigint]): void {
  tokenIds.set(conditionId, ids);
}

const tokenIds = new LRUCache<Hex, readonly [bigint, bigint]>({ max: TOKEN_IDS_MAX });

/** Computed on first use and kept: square roots over a large field are slow. */
function tokenIdsOf(conditionId: Hex): readonly [bigint, bigint] {
  const known = tokenIds.get(conditionId);
  if (known !== undefined) return known;
  const made = positionIds(PUSD, conditionId);
  tokenIds.set(conditionId, made);
  return made;
}

function deriveIds(key: string): { readonly questionId: Hex; readonly conditionId: Hex } {
  const questionId = keccak256(toHex(`question:${key}`));
  const slots = encodePacked(['uint256'], [2n]);
  return { questionId, conditionId: keccak256(concat([ORACLE, questionId, slots])) };
}

/** Ids of protocol version 2. The question is not used there; a binary market is an event of its own. */
function structuredIds(
  eventKey: string,
  index: number,
  { exclusive, questions }: { readonly exclusive: boolean; readonly questions: readonly unknown[] },
): { readonly questionId: Hex; readonly conditionId: Hex } {
  const id = exclusive
    ? positionId(NEG_RISK, toHex(eventKey), questions.length, index)
    : positionId(BINARY, toHex(`${eventKey}:${index}`), 1);
  return { questionId: numberToHex(0, { size: 32 }), conditionId: numberToHex(id, { size: 32 }) };
}

function pairOf(conditionId: Hex): readonly [bigint, bigint] {
  return [BigInt(conditionId), BigInt(conditionId) + 1n];
}

function makeCombo(key: string, unordered: readonly Leg[]): Market {
  const legs = unordered.toSorted((a, b) => (tokenOf(a) < tokenOf(b) ? -1 : 1));
  const [first] = unordered;
  if (first === undefined) throw new RangeError('a combo has legs');
  const { event } = first.market;
  const conditionId = numberToHex(comboId(legs.map(tokenOf)), { size: 32 });
  const won = legs.reduce((product, { market, outcome }) => product * market.payouts[outcome], 1);
  const all = legs.reduce(
    (product, { market: { payouts } }) => product * (payouts[0] + payouts[1]),
    1,
  );
  return {
    key,
    // Metadata has no combos, so nobody sees these texts.
    ...{ id: event.id + SLOT_IDS - legs.length, question: key, slug: key },
    questionId: numberToHex(0, { size: 32 }),
    ...{ groupItemTitle: '', sportsMarketType: undefined },
    ...{ event, conditionId, tokenIds: pairOf(conditionId), exchange: EXCHANGE_V3 },
    outcomes: ['Yes', 'No'],
    odds: legs.reduce((product, { market, outcome }) => product * oddsOf(market, outcome), 1),
    tick: 1,
    startTime: Math.max(...legs.map(({ market }) => market.startTime)),
    endTime: Math.min(...legs.map(({ market }) => market.endTime)),
    resolveTime: Math.max(...legs.map(({ market }) => market.resolveTime)),
    payouts: [won, all - won],
    legs,
  };
}

function oddsOf({ odds }: Market, outcome: 0 | 1): number {
  return outcome === 0 ? odds : 1 - odds;
}

/** Prices are in thousandths of a USDC, the exchange's finest tick. */
export const PRICE_UNIT = 1000;
const PRICE_MIN = 8;

/** Prices are constant within a step: a hundredth of a second to a quarter of an hour. */
const PATH_STEPS = 1_024;
const paths = new WeakMap<Market, Float64Array>();

/**
 * Fair price of outcome 0 in thousandths, 8 to 992, a multiple of the market's tick: the probability that a random
 * walk, given its path so far, ends where outcome 0 wins. So prices are a martingale: they have no trend, and a fifth
 * of the outcomes that cost 0.2 win. The calendar determines the result, so the walk is drawn to end there.
 */
export function fairPrice(market: Market, time: number): number {
  const price = market.legs?.reduce((product, leg) => product * legPrice(leg, time), PRICE_UNIT);
  return onTick(market, price ?? priceOnPath(market, time));
}

function legPrice({ market, outcome }: Leg, time: number): number {
  const price = priceOnPath(market, time) / PRICE_UNIT;
  return outcome === 0 ? price : 1 - price;
}

function onTick({ tick }: Market, price: number): number {
  const least = Math.max(PRICE_MIN, tick);
  return Math.min(PRICE_UNIT - least, Math.max(least, Math.round(price / tick) * tick));
}

function priceOnPath(market: Market, time: number): number {
  const span = market.endTime - market.startTime;
  const x = Math.min(1, Math.max(0, (time - market.startTime) / span));
  const step = Math.min(PATH_STEPS - 1, Math.floor(x * PATH_STEPS));
  const ahead = quantile(market.odds) + (pathOf(market)[step] ?? 0);
  return PRICE_UNIT * probability(ahead / Math.sqrt(1 - step / PATH_STEPS));
}

/** A Brownian motion from 0 whose end is above −quantile(odds) exactly if outcome 0 wins. */
function pathOf(market: Market): Float64Array {
  const known = paths.get(market);
  if (known !== undefined) return known;
  const random = new Random(`path:${market.key}`);
  const { odds, payouts } = market;
  const low = payouts[0] > payouts[1] ? 1 - odds : 0;
  const high = payouts[0] < payouts[1] ? 1 - odds : 1;
  const end = quantile(random.between(low, high));
  const path = new Float64Array(PATH_STEPS + 1);
  for (let step = 1; step <= PATH_STEPS; step++) {
    const size = Math.sqrt((-2 * Math.log(1 - random.unit())) / PATH_STEPS);
    path[step] = (path[step - 1] ?? 0) + size * Math.cos(2 * Math.PI * random.unit());
  }
  const correction = end - (path[PATH_STEPS] ?? 0);
  for (let step = 1; step <= PATH_STEPS; step++) {
    path[step] = (path[step] ?? 0) + (step / PATH_STEPS) * correction;
  }
  paths.set(market, path);
  return path;
}

/** The standard normal distribution (Abramowitz and Stegun 26.2.17, error below 10⁻⁷). */
function probability(value: number): number {
  const t = 1 / (1 + 0.231_641_9 * Math.abs(value));
  const series =
    t *
    (0.319_381_53 +
      t * (-0.356_563_782 + t * (1.781_477_937 + t * (-1.821_255_978 + t * 1.330_274_429))));
  const tail = (Math.exp((-value * value) / 2) / Math.sqrt(2 * Math.PI)) * series;
  return value > 0 ? 1 - tail : tail;
}

const QUANTILE_MAX = 6;

/** Its inverse, by bisection. */
function quantile(chance: number): number {
  let [low, high] = [-QUANTILE_MAX, QUANTILE_MAX];
  while (high - low > 1e-6) {
    const middle = (low + high) / 2;
    if (probability(middle) < chance) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}
