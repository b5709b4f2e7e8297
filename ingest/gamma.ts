/**
 * The metadata API (Gamma): markets by condition or token id and newest first, public profiles. The
 * service hides closed markets from some queries, so what a first query does not return is asked for
 * again among the closed ones; tags that a market lacks are taken from its event. What cannot be
 * parsed is counted, logged once and taken for unknown: it never takes its neighbours with it.
 */
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Hash } from './contract.ts';
import type { Listing, Profile } from './contract-metadata.ts';
import { EventCache } from './gamma-events.ts';
import { GammaError, type GammaFailure, GammaHttp, type GammaHttpOptions } from './gamma-http.ts';
import {
  isTradable,
  type ParsedMarket,
  parseMarket,
  parseProfile,
  walletOf,
} from './gamma-shapes.ts';

/** Ids in one request: keeps the URL below 8 KB, which servers and proxies take. */
export const MARKETS_BATCH_MAX = 50;
export const PROFILES_BATCH_MAX = 50;
const PAGE_MARKETS = 100;
/** How long a service that refused batches of profiles is asked for single ones. */
const SINGLE_PROFILES_MS = 3_600_000;
const LOGGED_MAX = 10_000;

export type GammaPage = {
  readonly listings: readonly Listing[];
  /** Where the next page begins; undefined at the end. */
  readonly next: string | undefined;
};

export type Gamma = {
  /** Listings of the conditions that the service knows, by condition id; at most MARKETS_BATCH_MAX. */
  listings(conditionIds: readonly string[]): Promise<ReadonlyMap<string, Listing>>;
  /** Listings of the markets that tokens belong to, by token id; at most MARKETS_BATCH_MAX. */
  listingsOfTokens(tokenIds: readonly string[]): Promise<ReadonlyMap<string, Listing>>;
  /** A page of open markets, newest first. */
  newest(cursor: string | undefined): Promise<GammaPage>;
  /** Profiles of the wallets that have one, by address; at most PROFILES_BATCH_MAX. */
  profiles(addresses: readonly string[]): Promise<ReadonlyMap<string, Profile>>;
  /** Requests by how they ended. */
  readonly outcomes: ReadonlyMap<GammaFailure | 'ok', number>;
  /** Markets, events and profiles that could not be parsed. */
  readonly malformed: number;
  /** For how long the service has not answered; 0 while it does. */
  readonly downMs: number;
};

/** The service at a URL. Every method throws GammaError when it cannot be asked. */
export function connectGamma(options: GammaHttpOptions): Gamma {
  const http = new GammaHttp(options);
  const parser = new Parser(options.logger);
  const events = new EventCache(http, parser);
  const markets = new Markets(http, parser, events);
  const profiles = new Profiles(http, parser);
  return {
    async listings(conditionIds) {
      const listings = await markets.byIds('condition_ids', conditionIds, (one) => [
        one.conditionId,
      ]);
      return new Map(listings.map((listing) => [listing.conditionId, listing]));
    },
    async listingsOfTokens(tokenIds) {
      const listings = await markets.byIds('clob_token_ids', tokenIds, (one) => one.tokenIds);
      return new Map(listings.flatMap((one) => one.tokenIds.map((token) => [token, one] as const)));
    },
    newest: (cursor) => markets.newest(cursor),
    profiles: (addresses) => profiles.ask(addresses),
    outcomes: http.outcomes,
    get malformed() {
      return parser.malformed;
    },
    get downMs() {
      return http.downMs;
    },
  };
}

/** Parses one item of an answer at a time: a bad one is counted and left out. */
export class Parser {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();
  malformed = 0;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The parsed items of an answer that must be a list. Throws GammaError when it is none. */
  list<T>(path: string, answer: unknown, parse: (item: unknown) => T): T[] {
    const items = z.array(z.unknown()).safeParse(answer);
    if (!items.success) throw new GammaError('malformed', `${path} answered no list`);
    return items.data.flatMap((item) => {
      const parsed = this.item(path, item, parse);
      return parsed === undefined ? [] : [parsed];
    });
  }

  item<T>(path: string, item: unknown, parse: (item: unknown) => T): T | undefined {
    try {
      return parse(item);
    } catch (error) {
      if (!(error instanceof z.ZodError)) throw error;
      this.malformed += 1;
      this.#log(path, item, error);
      return undefined;
    }
  }

  #log(path: string, item: unknown, error: z.ZodError): void {
    const { id, proxyWallet } = (item ?? {}) as Readonly<Record<string, unknown>>;
    const key = `${path} ${String(id ?? proxyWallet)}`;
    if (this.#logged.has(key) || this.#logged.size >= LOGGED_MAX) return;
    this.#logged.add(key);
    this.#logger.error({ path, id: id ?? proxyWallet, err: error }, 'metadata is malformed');
  }
}

class Markets {
  readonly #http: GammaHttp;
  readonly #parser: Parser;
  readonly #events: EventCache;

  constructor(http: GammaHttp, parser: Parser, events: EventCache) {
    this.#http = http;
    this.#parser = parser;
    this.#events = events;
  }

  /** Markets that carry one of the ids, open and closed ones. */
  async byIds(
    parameter: string,
    ids: readonly string[],
    idsOf: (listing: Listing) => readonly string[],
  ): Promise<readonly Listing[]> {
    const open = await this.#ask(parameter, ids, {});
    const found = new Set(open.flatMap(({ listing }) => idsOf(listing)));
    const missing = ids.filter((id) => !found.has(id));
    const closed = missing.length === 0 ? [] : await this.#ask(parameter, missing, CLOSED);
    return this.#events.complete([
      ...(await this.#withEvents(open, {})),
      ...(await this.#withEvents(closed, CLOSED)),
    ]);
  }

  async newest(cursor: string | undefined): Promise<GammaPage> {
    const query = new URLSearchParams({
      limit: String(PAGE_MARKETS),
      order: 'id',
      ascending: 'false',
      include_tag: 'true',
    });
    if (cursor !== undefined) query.set('after_cursor', cursor);
    const path = '/markets/keyset';
    const answer = await this.#http.get(path, query);
    const page = KeysetPage.safeParse(answer);
    if (!page.success) throw new GammaError('malformed', `${path} answered no page`);
    const parsed = this.#parse(path, page.data.markets);
    return {
      listings: await this.#events.complete(await this.#withEvents(parsed, {})),
      next: page.data.next_cursor || undefined,
    };
  }

  /** Some answers with tags leave the event out: those markets are asked for without tags too. */
  async #withEvents(
    markets: readonly ParsedMarket[],
    extra: Readonly<Record<string, string>>,
  ): Promise<readonly ParsedMarket[]> {
    const bare = markets.filter(({ eventId }) => eventId === '');
    if (bare.length === 0) return markets;
    const ids = bare.map(({ listing }) => listing.conditionId);
    const plain = await this.#ask('condition_ids', ids, { ...extra, include_tag: 'false' });
    const byId = new Map(plain.map((one) => [one.listing.conditionId, one]));
    return markets.map((market) => {
      const other = byId.get(market.listing.conditionId);
      if (market.eventId !== '' || other === undefined) return market;
      const { eventSlug, eventTitle, eventIcon, seriesSlug } = other.listing;
      const listing = { ...market.listing, eventSlug, eventTitle, eventIcon, seriesSlug };
      return { listing, eventId: other.eventId };
    });
  }

  async #ask(
    parameter: string,
    ids: readonly string[],
    extra: Readonly<Record<string, string>>,
  ): Promise<ParsedMarket[]> {
    if (ids.length > MARKETS_BATCH_MAX) throw new RangeError(`${ids.length} ids in one request`);
    const query = new URLSearchParams(ids.map((id): [string, string] => [parameter, id]));
    query.set('include_tag', 'true');
    for (const [name, value] of Object.entries(extra)) query.set(name, value);
    query.set('limit', String(PAGE_MARKETS));
    const answer = await this.#http.get('/markets', query);
    return this.#parse('/markets', answer);
  }

  #parse(path: string, answer: unknown): ParsedMarket[] {
    const tradable = Array.isArray(answer) ? answer.filter(isTradable) : answer;
    return this.#parser.list(path, tradable, parseMarket);
  }
}

const CLOSED = { closed: 'true' } as const;
const KeysetPage = z.object({ markets: z.array(z.unknown()), next_cursor: z.string().nullish() });

class Profiles {
  readonly #http: GammaHttp;
  readonly #parser: Parser;
  #singleUntilMs = 0;

  constructor(http: GammaHttp, parser: Parser) {
    this.#http = http;
    this.#parser = parser;
  }

  /** A batch first; whom it leaves out is asked for alone, and only a 404 there means "none". */
  async ask(addresses: readonly string[]): Promise<ReadonlyMap<string, Profile>> {
    const found = await this.#batch(addresses);
    const missing = addresses.filter((address) => !found.has(address));
    const single = await Promise.all(missing.map((address) => this.#single(address)));
    for (const profile of single) {
      if (profile !== undefined) found.set(profile.address, profile);
    }
    return found;
  }

  async #batch(addresses: readonly string[]): Promise<Map<string, Profile>> {
    if (addresses.length < 2 || performance.now() < this.#singleUntilMs) return new Map();
    const path = '/public-profiles';
    try {
      const query = new URLSearchParams({ addresses: addresses.join(',') });
      const answer = await this.#http.get(path, query);
      const asked = new Set(addresses);
      const mine = Array.isArray(answer)
        ? answer.filter((one) => asked.has(walletOf(one)))
        : answer;
      const profiles = this.#parser.list(path, mine, (one) =>
        parseProfile(walletOf(one) as Hash, one),
      );
      return new Map(profiles.map((profile) => [profile.address, profile]));
    } catch (error) {
      // The service has no such batch, or means something else by it.
      const unable =
        error instanceof GammaError && (error.reason === 'refused' || error.reason === 'malformed');
      if (!unable) throw error;
      this.#singleUntilMs = performance.now() + SINGLE_PROFILES_MS;
      return new Map();
    }
  }

  async #single(address: string): Promise<Profile | undefined> {
    const path = '/public-profile';
    try {
      const answer = await this.#http.get(path, new URLSearchParams({ address }));
      return this.#parser.item(path, answer, (one) => parseProfile(address as Hash, one));
    } catch (error) {
      if (error instanceof GammaError && error.status === 404) return undefined;
      throw error;
    }
  }
}
