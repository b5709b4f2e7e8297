/**
 * The devnet's metadata API: the paths, parameters and fields of the Gamma API that Fillstream reads, for the
 * markets on the devnet's chain. Read-only, from memory. Wrong parameters return 400 and unknown wallets 404,
 * both with JSON bodies. Keeps Gamma's quirks: lists as JSON strings, events without tags inside markets.
 */
import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import express, { type NextFunction, type Request, type Response } from 'express';
import type { Hex } from 'viem';
import { z } from 'zod';
import { foreignRequest } from '../../infra/loopback.ts';
import { isV2, type Market, type MarketEvent } from './markets.ts';
import type { Topic } from './topics.ts';
import { type Profile, profileOf } from './traders.ts';
import type { World } from './world.ts';

export type Gamma = { readonly url: string; close(): Promise<void> };

type GammaOptions = {
  readonly world: World;
  readonly seed: number;
  /** 0: any free port. */
  readonly port: number;
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
  app.use((request: Request, response: Response, next: NextFunction) => {
    const foreign = foreignRequest(request.headers);
    if (foreign === undefined) next();
    else response.status(403).json({ type: 'authorization error', error: foreign });
  });
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

function addMarkets(app: express.Express, { world }: GammaOptions): void {
  const isClosed = (market: Market) => world.resolved.has(market.conditionId);
  const json = (markets: readonly Market[], includeTags = false) =>
    markets.map((market) => ({
      ...marketJson(market, isClosed(market)),
      events: [eventJson(market.event)],
      ...(includeTags ? { tags: tagsJson(market.event.topic) } : {}),
    }));
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
    const events = new Map(marketsOf(world, { closed }).map(({ event }) => [event.id, event]));
    const found = [...events.values()]
      .filter((event) => id === undefined || id.includes(String(event.id)))
      .slice(0, limit);
    response.json(
      found.map((event) => ({
        ...eventJson(event),
        series: event.topic.series === undefined ? [] : [{ slug: event.topic.series }],
        tags: tagsJson(event.topic),
      })),
    );
  });
}

/** Markets that match every given filter, ordered by id; no combos. */
function marketsOf(
  world: World,
  filter: Pick<Partial<z.infer<typeof Markets>>, 'clob_token_ids' | 'condition_ids' | 'closed'>,
): readonly Market[] {
  const { clob_token_ids: tokens, condition_ids: conditions, closed } = filter;
  const wantedTokens = new Set(tokens);
  const wantedConditions = new Set(conditions?.map((id) => id.toLowerCase()));
  return [...world.listed.values()]
    .filter(
      ({ conditionId, tokenIds, legs }) =>
        legs === undefined &&
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

function marketJson(market: Market, closed: boolean) {
  return {
    id: String(market.id),
    question: market.question,
    conditionId: market.conditionId,
    slug: market.slug,
    endDate: isoSecond(market.endTime),
    startDate: isoSecond(market.startTime),
    icon: iconOf(market.event.topic),
    outcomes: JSON.stringify(market.outcomes),
    ...(isV2(market)
      ? { version: 'v2', positionIds: JSON.stringify(market.tokenIds.map(String)) }
      : { clobTokenIds: JSON.stringify(market.tokenIds.map(String)) }),
    closed,
    groupItemTitle: market.groupItemTitle,
    sportsMarketType: market.sportsMarketType,
    negRisk: market.event.negRisk,
  };
}

/** An event as inside a market. */
function eventJson({ id, slug, title, topic }: MarketEvent) {
  return {
    id: String(id),
    slug,
    title,
    icon: iconOf(topic),
    seriesSlug: topic.series,
  };
}

function tagsJson(topic: Topic) {
  return topic.tags.map((slug) => ({ slug }));
}

function iconOf(topic: Topic): string {
  return `https://images.example/devnet/${topic.key}.png`;
}

function isoSecond(time: number): string {
  return `${new Date(time * 1000).toISOString().slice(0, 19)}Z`;
}
