/**
 * The devnet's metadata API: the paths and parameters of the Gamma API that Fillstream reads, for the markets
 * on the devnet's chain. Read-only, from memory. Wrong parameters return 400 and unknown wallets 404, both
 * with JSON bodies. Responses have Gamma's shape, quirks included: lists as JSON strings, `closedTime` with a
 * space and `+00`, events without tags inside markets.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express, { type NextFunction, type Request, type Response } from 'express';
import type { Hex } from 'viem';
import { z } from 'zod';
import { EXCHANGE, ORACLE } from './contracts.ts';
import { fairPrice, type Market, type MarketEvent, PRICE_UNIT } from './markets.ts';
import { Random } from './random.ts';
import type { Series, Tag, Topic } from './topics.ts';
import { type Profile, profileOf } from './traders.ts';
import type { World } from './world.ts';

export type Gamma = { readonly url: string; close(): Promise<void> };

type GammaOptions = {
  readonly world: World;
  readonly seed: number;
  /** 0: any free port. */
  readonly port: number;
  /** Unix milliseconds. */
  readonly now: () => number;
};

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 500;
const ITEMS_MAX = 500;

/** `?a=1&a=2` and `?a=1,2` mean the same. */
const List = z
  .union([z.string(), z.array(z.string())])
  .transform((value) => [value].flat().flatMap((part) => part.split(',')))
  .pipe(z.array(z.string().min(1)).max(ITEMS_MAX))
  .optional();
const Flag = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .optional();
const Address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .transform((text) => text.toLowerCase() as Hex);
const Limit = z.coerce.number().int().min(1).max(LIMIT_MAX).default(LIMIT_DEFAULT);

const Markets = z.object({
  clob_token_ids: List,
  condition_ids: List,
  closed: Flag,
  include_tag: Flag,
  limit: Limit,
});
const MarketPage = z.object({
  order: z.literal('id').optional(),
  ascending: Flag,
  after_cursor: z
    .string()
    .transform((text) => Buffer.from(text, 'base64url').toString())
    .pipe(z.string().regex(/^\d+$/))
    .transform(Number)
    .optional(),
});
const Events = z.object({ id: List, closed: Flag, limit: Limit });
const OneProfile = z.object({ address: Address });
const Profiles = z.object({
  addresses: z
    .string()
    .transform((text) => text.split(','))
    .pipe(z.array(Address).max(ITEMS_MAX)),
});

/** Starts the API on loopback. */
export async function startGamma(options: GammaOptions): Promise<Gamma> {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  addMarkets(app, options);
  addProfiles(app, options);
  app.use((_: Request, response: Response) => {
    response.status(404).json({ type: 'not found error', error: 'not found' });
  });
  app.use(refuse);
  const server = app.listen(options.port, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.close();
      server.closeAllConnections();
      await once(server, 'close');
    },
  };
}

function addMarkets(app: express.Express, { world, now }: GammaOptions): void {
  const stateOf = (market: Market): MarketState => ({
    closed: world.resolved.has(market.conditionId),
    now: Math.floor(now() / 1000),
  });
  const json = (markets: readonly Market[], includeTags = false) =>
    markets.map((market) => marketJson(market, stateOf(market), includeTags));
  app.get('/markets', (request, response) => {
    const filter = Markets.parse(request.query);
    const found = marketsOf(world, filter).slice(0, filter.limit);
    response.json(json(found, filter.include_tag));
  });
  app.get('/markets/keyset', (request, response) => {
    const filter = Markets.parse(request.query);
    const { order, ascending = true, after_cursor: after } = MarketPage.parse(request.query);
    const isDescending = order !== undefined && !ascending;
    const all = marketsOf(world, filter);
    const rest = (isDescending ? all.toReversed() : all).filter(
      ({ id }) => after === undefined || (isDescending ? id < after : id > after),
    );
    const markets = rest.slice(0, filter.limit);
    const last = rest.length > filter.limit ? markets.at(-1) : undefined;
    const next = last && { next_cursor: Buffer.from(String(last.id)).toString('base64url') };
    response.json({ markets: json(markets, filter.include_tag), ...next });
  });
  app.get('/events', (request, response) => {
    const { id, closed, limit } = Events.parse(request.query);
    const groups = Map.groupBy(marketsOf(world, { closed }), (market) => market.event.id);
    const events = [...groups]
      .filter(([eventId]) => id === undefined || id.includes(String(eventId)))
      .sort(([a], [b]) => a - b)
      .slice(0, limit);
    response.json(events.map(([, markets]) => eventJson(markets, stateOf)));
  });
}

/** Markets that match every given filter, ordered by id. */
function marketsOf(
  world: World,
  filter: Pick<Partial<z.infer<typeof Markets>>, 'clob_token_ids' | 'condition_ids' | 'closed'>,
): readonly Market[] {
  const { clob_token_ids: tokens, condition_ids: conditions, closed } = filter;
  const wantedTokens = new Set(tokens);
  const wantedConditions = new Set(conditions?.map((id) => id.toLowerCase()));
  return [...world.listed.values()]
    .filter(
      ({ conditionId, tokenIds }) =>
        (tokens === undefined || tokenIds.some((id) => wantedTokens.has(String(id)))) &&
        (conditions === undefined || wantedConditions.has(conditionId)) &&
        (closed === undefined || world.resolved.has(conditionId) === closed),
    )
    .sort((a, b) => a.id - b.id);
}

function addProfiles(app: express.Express, { world, seed }: GammaOptions): void {
  const profiles = new Map<Hex, Profile>();
  for (const [index, trader] of world.traders.entries()) {
    const profile = profileOf(seed, trader, index);
    if (profile !== undefined) profiles.set(trader.address, profile);
  }
  app.get('/public-profile', (request, response) => {
    const profile = profiles.get(OneProfile.parse(request.query).address);
    if (profile !== undefined) response.json(profile);
    else response.status(404).json({ type: 'not found error', error: 'profile not found' });
  });
  app.get('/public-profiles', (request, response) => {
    const { addresses } = Profiles.parse(request.query);
    response.json(addresses.flatMap((address) => profiles.get(address) ?? []));
  });
}

function refuse(error: unknown, _: Request, response: Response, next: NextFunction): void {
  if (error instanceof z.ZodError) {
    const [issue] = error.issues;
    const message = `${issue?.path.join('.') ?? ''}: ${issue?.message}`;
    response.status(400).json({ type: 'validation error', error: message });
  } else {
    next(error);
  }
}

type MarketState = { readonly closed: boolean; readonly now: number };

const CREATED_BEFORE_SECONDS = 120;

/** A market as in `/markets`. Volumes are drawn from its key; nothing reads them. */
function marketJson(market: Market, state: MarketState, includeTags: boolean) {
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

/** An event as in `/events`, with its tags, series and markets. */
function eventJson(markets: readonly Market[], stateOf: (market: Market) => MarketState) {
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

function tagJson(tag: Tag) {
  return { ...tag, forceShow: false, createdAt: '2024-06-12T20:13:03.615956Z' };
}

function seriesJson(series: Series) {
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

/** `2026-09-10 15:11:42+00`, Gamma's format of closing times. */
function sqlTime(time: number): string {
  return `${new Date(time * 1000).toISOString().slice(0, 19).replace('T', ' ')}+00`;
}
