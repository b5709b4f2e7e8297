/**
 * The devnet's metadata API: the paths of the Gamma API that Fillstream reads, for the markets on the
 * devnet's chain. Read-only, from memory. Wrong parameters return 400 and unknown wallets 404, both with JSON
 * bodies. Plain offsets end at OFFSET_MAX, as on the real service; keysets do not. Responses have Gamma's
 * shape, quirks included: lists as JSON strings, `closedTime` with a space and `+00`, events without tags
 * inside markets.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express, { type NextFunction, type Request, type Response } from 'express';
import type { Hex } from 'viem';
import { z } from 'zod';
import { EXCHANGE, ORACLE } from './contracts.ts';
import { fairPrice, type Market, type MarketEvent, PRICE_UNIT } from './markets.ts';
import { Random } from './random.ts';
import { type Series, TAGS, type Tag, TOPICS, type Topic } from './topics.ts';
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
const OFFSET_MAX = 2_000;
const ADDRESSES_MAX = 500;

/** `?a=1&a=2` and `?a=1,2` mean the same. */
const List = z
  .union([z.string(), z.array(z.string())])
  .transform((value) => [value].flat().flatMap((part) => part.split(',')))
  .pipe(z.array(z.string().min(1)).max(ADDRESSES_MAX))
  .optional();
const Flag = z
  .enum(['true', 'false'])
  .transform((value) => value === 'true')
  .optional();
const Address = z
  .string()
  .regex(/^0x[0-9a-fA-F]{40}$/)
  .transform((text) => text.toLowerCase() as Hex);

const Filter = z.object({
  id: List,
  slug: List,
  clob_token_ids: List,
  condition_ids: List,
  tag_id: List,
  tag_slug: List,
  series_slug: List,
  closed: Flag,
  include_tag: Flag,
  order: z.literal('id').optional(),
  ascending: Flag,
  limit: z.coerce.number().int().min(1).max(LIMIT_MAX).default(LIMIT_DEFAULT),
});
const Offset = z.object({ offset: z.coerce.number().int().min(0).max(OFFSET_MAX).default(0) });
const Cursor = z.object({
  after_cursor: z
    .string()
    .transform((text) => Buffer.from(text, 'base64url').toString())
    .pipe(z.string().regex(/^\d+$/))
    .transform(Number)
    .optional(),
});

/** Starts the API on loopback. */
export async function startGamma(options: GammaOptions): Promise<Gamma> {
  const app = express();
  app.disable('x-powered-by');
  app.disable('etag');
  addMarkets(app, options);
  addProfiles(app, options);
  app.get('/tags', (request, response) => {
    response.json(page(TAGS.map(tagJson), request.query));
  });
  app.get('/series', (request, response) => {
    const series = TOPICS.flatMap((topic) => topic.series ?? []);
    response.json(page(series.map(seriesJson), request.query));
  });
  app.get('/health', (_, response) => {
    const { listed, resolved } = options.world;
    response.json({ status: 'ok', markets: listed.size, resolved: resolved.size });
  });
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
  const search = (filter: z.infer<typeof Filter>) => filterMarkets(world, filter);
  app.get('/markets', (request, response) => {
    const filter = Filter.parse(request.query);
    const { offset } = Offset.parse(request.query);
    const markets = search(filter).slice(offset, offset + filter.limit);
    response.json(markets.map((one) => marketJson(one, stateOf(one), filter.include_tag ?? false)));
  });
  app.get('/markets/keyset', (request, response) => {
    const filter = Filter.parse(request.query);
    const { markets, next_cursor } = keyset(search(filter), (one) => one.id, filter, request.query);
    response.json({
      markets: markets.map((one) => marketJson(one, stateOf(one), filter.include_tag ?? false)),
      ...next_cursor,
    });
  });
  app.get('/events', (request, response) => {
    const filter = Filter.parse(request.query);
    const { offset } = Offset.parse(request.query);
    const events = eventsOf(world, filter).slice(offset, offset + filter.limit);
    response.json(events.map((markets) => eventJson(markets, stateOf)));
  });
  app.get('/events/keyset', (request, response) => {
    const filter = Filter.parse(request.query);
    const all = eventsOf(world, filter);
    const found = keyset(all, (one) => one[0]?.event.id ?? 0, filter, request.query);
    response.json({
      events: found.markets.map((markets) => eventJson(markets, stateOf)),
      ...found.next_cursor,
    });
  });
}

function addProfiles(app: express.Express, { world, seed }: GammaOptions): void {
  const profiles = new Map<Hex, Profile>();
  for (const [index, trader] of world.traders.entries()) {
    const profile = profileOf(seed, trader, index);
    if (profile !== undefined) profiles.set(trader.address, profile);
  }
  const One = z.object({ address: Address });
  const Many = z.object({ addresses: z.array(Address).min(1).max(ADDRESSES_MAX) });
  const find = (addresses: readonly Hex[]) =>
    addresses.flatMap((address) => profiles.get(address) ?? []);
  app.get('/public-profile', (request, response) => {
    const profile = profiles.get(One.parse(request.query).address);
    if (profile === undefined) {
      response.status(404).json({ type: 'not found error', error: 'profile not found' });
    } else {
      response.json(profile);
    }
  });
  app.get('/public-profiles', (request, response) => {
    const { address, addresses } = request.query;
    response.json(
      find(Many.parse({ addresses: List.parse(addresses ?? address) ?? [] }).addresses),
    );
  });
  app.post('/public-profiles', express.json({ limit: '1mb' }), (request, response) => {
    response.json(find(Many.parse(request.body).addresses));
  });
}

/** Markets that match every filter, ordered by id. */
function filterMarkets(world: World, filter: z.infer<typeof Filter>): readonly Market[] {
  const accepts: ((market: Market) => boolean)[] = [];
  const within = (values: readonly string[] | undefined, of: (market: Market) => string[]) => {
    if (values === undefined) return;
    const wanted = new Set(values);
    accepts.push((market) => of(market).some((value) => wanted.has(value)));
  };
  within(filter.id, (market) => [String(market.id)]);
  within(filter.slug, (market) => [market.slug]);
  within(
    filter.condition_ids?.map((id) => id.toLowerCase()),
    (market) => [market.conditionId],
  );
  within(filter.clob_token_ids, (market) => market.tokenIds.map(String));
  within(filter.tag_id, (market) => market.event.topic.tags.map((tag) => tag.id));
  within(filter.tag_slug, (market) => market.event.topic.tags.map((tag) => tag.slug));
  within(filter.series_slug, (market) => [market.event.topic.series?.slug ?? '']);
  const { closed } = filter;
  if (closed !== undefined) {
    accepts.push((market) => world.resolved.has(market.conditionId) === closed);
  }
  return [...world.listed.values()]
    .filter((market) => accepts.every((accept) => accept(market)))
    .sort((a, b) => a.id - b.id);
}

/** Matching markets grouped by event, ordered by its id; filters on id or slug apply to the event. */
function eventsOf(world: World, filter: z.infer<typeof Filter>): readonly (readonly Market[])[] {
  const { id, slug, ...rest } = filter;
  const groups = Map.groupBy(filterMarkets(world, rest), (market) => market.event.id);
  return [...groups.values()]
    .filter(([first]) => id === undefined || id.includes(String(first?.event.id)))
    .filter(([first]) => slug === undefined || slug.includes(first?.event.slug ?? ''))
    .sort((a, b) => (a[0]?.event.id ?? 0) - (b[0]?.event.id ?? 0));
}

/** The part of a list sorted by id that follows the cursor; no next cursor at the end. */
function keyset<T>(
  sorted: readonly T[],
  idOf: (one: T) => number,
  { limit, order, ascending = true }: Pick<z.infer<typeof Filter>, 'limit' | 'order' | 'ascending'>,
  query: unknown,
) {
  const { after_cursor: after } = Cursor.parse(query);
  const isDescending = order !== undefined && !ascending;
  const isAfter = (id: number) => after === undefined || (isDescending ? id < after : id > after);
  const rest = (isDescending ? sorted.toReversed() : sorted).filter((one) => isAfter(idOf(one)));
  const markets = rest.slice(0, limit);
  const last = markets.at(-1);
  const more = rest.length > limit && last !== undefined;
  const next = more ? { next_cursor: Buffer.from(String(idOf(last))).toString('base64url') } : {};
  return { markets, next_cursor: next };
}

function page<T>(all: readonly T[], query: unknown): readonly T[] {
  const { offset } = Offset.parse(query);
  const { limit } = Filter.pick({ limit: true }).parse(query);
  return all.slice(offset, offset + limit);
}

function refuse(error: unknown, _: Request, response: Response, next: NextFunction): void {
  if (response.headersSent) {
    next(error);
  } else if (error instanceof z.ZodError) {
    const [issue] = error.issues;
    const where = issue?.path.join('.') ?? '';
    response.status(400).json({ type: 'validation error', error: `${where}: ${issue?.message}` });
  } else if (error instanceof SyntaxError) {
    response.status(400).json({ type: 'validation error', error: 'the body is not JSON' });
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
