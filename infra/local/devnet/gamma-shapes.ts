/**
 * The devnet's markets, events and tags in the JSON shape of the Gamma API (facts/gamma), quirks
 * included: lists as JSON strings, `closedTime` with a blank and `+00`, events without tags inside
 * markets. Volumes are drawn from the market's key: nothing reads them.
 */
import { EXCHANGE, ORACLE } from './addresses.ts';
import type { Market, MarketEvent } from './markets.ts';
import { fairPrice, PRICE_UNIT } from './prices.ts';
import { Random } from './random.ts';
import type { Series, Tag, Topic } from './topics.ts';

export type MarketState = { readonly closed: boolean; readonly now: number };

const CREATED_BEFORE_SECONDS = 120;

/** A market as `/markets` shows it. */
export function marketJson(market: Market, state: MarketState, includeTags: boolean) {
  const { event, payouts } = market;
  const [first, second] = state.closed
    ? payouts.map((payout) => payout / (payouts[0] + payouts[1]))
    : pricesOf(market, state.now);
  const volume = new Random(`volume:${market.key}`).between(500, 400_000);
  const rate = event.topic.feeRateMillionths;
  return {
    id: String(market.id),
    question: market.question,
    conditionId: market.conditionId,
    slug: market.slug,
    resolutionSource: '',
    endDate: isoSecond(market.endTime),
    startDate: isoSecond(market.startTime),
    image: iconOf(event.topic),
    icon: iconOf(event.topic),
    description: `Devnet market: ${market.question}`,
    outcomes: JSON.stringify(market.outcomes),
    outcomePrices: JSON.stringify([String(first), String(second)]),
    volume: volume.toFixed(6),
    active: true,
    closed: state.closed,
    marketMakerAddress: '',
    createdAt: isoSecond(market.startTime - CREATED_BEFORE_SECONDS),
    updatedAt: isoSecond(state.closed ? market.resolveTime : market.startTime),
    ...(state.closed ? { closedTime: sqlTime(market.resolveTime) } : {}),
    new: false,
    featured: false,
    archived: false,
    resolvedBy: ORACLE,
    restricted: true,
    groupItemTitle: market.groupItemTitle,
    groupItemThreshold: '0',
    questionID: market.questionId,
    ...(state.closed ? { umaResolutionStatus: 'resolved' } : {}),
    enableOrderBook: true,
    orderPriceMinTickSize: market.tick / PRICE_UNIT,
    orderMinSize: 1,
    volumeNum: volume,
    endDateIso: isoSecond(market.endTime).slice(0, 10),
    startDateIso: isoSecond(market.startTime).slice(0, 10),
    clobTokenIds: JSON.stringify(market.tokenIds.map(String)),
    acceptingOrders: !state.closed && state.now < market.endTime,
    negRisk: market.exchange !== EXCHANGE,
    ...(market.sportsMarketType === undefined ? {} : sportsFields(market)),
    events: [eventFields(event, state)],
    ...(includeTags ? { tags: event.topic.tags.map(tagJson) } : {}),
    lastTradePrice: first,
    feesEnabled: rate > 0,
    ...(rate > 0 ? feeFields(event.topic) : {}),
    version: 'v1',
  };
}

/** An event as `/events` shows it: with its tags, series and markets. */
export function eventJson(markets: readonly Market[], stateOf: (market: Market) => MarketState) {
  const [first] = markets;
  if (first === undefined) throw new RangeError('an event has markets');
  const states = markets.map(stateOf);
  const closed = states.every((state) => state.closed);
  const { event } = first;
  const { series } = event.topic;
  return {
    ...eventFields(event, { closed, now: states[0]?.now ?? 0 }),
    series: series === undefined ? [] : [seriesJson(series)],
    tags: event.topic.tags.map(tagJson),
    markets: markets.map((market) => {
      const { events: _, ...rest } = marketJson(market, stateOf(market), false);
      return rest;
    }),
  };
}

export function tagJson(tag: Tag) {
  return { ...tag, forceShow: false, createdAt: '2024-06-12T20:13:03.615956Z' };
}

export function seriesJson(series: Series) {
  return {
    ...series,
    ticker: series.slug,
    seriesType: 'single',
    recurrence: 'daily',
    active: true,
    closed: false,
    archived: false,
  };
}

function eventFields(event: MarketEvent, state: MarketState) {
  return {
    id: String(event.id),
    ticker: event.slug,
    slug: event.slug,
    title: event.title,
    description: `Devnet event: ${event.title}`,
    startDate: isoSecond(event.startTime),
    creationDate: isoSecond(event.startTime - CREATED_BEFORE_SECONDS),
    endDate: isoSecond(event.endTime),
    image: iconOf(event.topic),
    icon: iconOf(event.topic),
    active: true,
    closed: state.closed,
    archived: false,
    new: false,
    featured: false,
    restricted: true,
    enableOrderBook: true,
    negRisk: event.negRisk,
    enableNegRisk: event.negRisk,
    ...(event.topic.series === undefined ? {} : { seriesSlug: event.topic.series.slug }),
    version: 'v1',
  };
}

function sportsFields(market: Market) {
  return {
    sportsMarketType: market.sportsMarketType,
    gameStartTime: sqlTime(market.endTime - 3 * 3600),
  };
}

function feeFields(topic: Topic) {
  const rate = topic.feeRateMillionths / 1_000_000;
  return {
    feeType: topic.feeType,
    feeSchedule: { exponent: 1, rate, takerOnly: true, rebateRate: 0.25 },
  };
}

function pricesOf(market: Market, now: number): readonly number[] {
  const price = fairPrice(market, now);
  return [price / PRICE_UNIT, (PRICE_UNIT - price) / PRICE_UNIT];
}

function iconOf(topic: Topic): string {
  return `https://images.example/devnet/${topic.key}.png`;
}

function isoSecond(time: number): string {
  return `${new Date(time * 1000).toISOString().slice(0, 19)}Z`;
}

/** `2026-09-10 15:11:42+00`, as Gamma writes closing times. */
function sqlTime(time: number): string {
  return `${new Date(time * 1000).toISOString().slice(0, 19).replace('T', ' ')}+00`;
}
