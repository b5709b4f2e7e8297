/**
 * The metadata API (Gamma): markets by condition or token id and newest first, and public profiles. The
 * service hides closed markets from some queries, so ids missing from a first response are requested
 * again among the closed ones. A market without tags takes those of its event. An item that cannot be
 * parsed is counted, logged once and treated as unknown; it never affects its neighbours.
 *
 * Unset fields become ''. A market without a condition or tokens is not tradable yet and is left out. The
 * results always fit the contract, because an invalid message would stop its readers. Shapes: real
 * responses in test/fixtures/gamma-*.json.
 */

import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { z } from 'zod';
import { boundedText, ResponseTooLongError } from '../infra/bounded-text.ts';
import { type Hash, Listing, Profile } from './contract.ts';

/** Ids in one request: keeps the URL below 8 KB, which servers and proxies accept. */
export const MARKETS_BATCH_MAX = 50;
export const PROFILES_BATCH_MAX = 50;
const PAGE_MARKETS = 100;
/** After a refused batch, profiles are requested one by one for this long. */
const SINGLE_PROFILES_MS = 3_600_000;
const LOGGED_MAX = 10_000;
const EVENTS_MAX = 5_000;
const EVENT_STALE_MS = 600_000;
const EVENTS_BATCH_MAX = 50;
/** Longer texts are cut; real ones are below 1,000 characters, and a message holds 1 MB. */
const TEXT_MAX = 4_000;
const TAGS_MAX = 100;

const text = z
  .string()
  .nullish()
  .transform((value) => value?.slice(0, TEXT_MAX) ?? '');
const id = z.union([z.string(), z.number().transform(String)]);
const pair = (item: z.ZodType<string>) =>
  z
    .string()
    .transform((json, context) => {
      try {
        return JSON.parse(json) as unknown;
      } catch {
        context.addIssue({ code: 'custom', message: 'no JSON' });
        return z.NEVER;
      }
    })
    .pipe(z.tuple([item, item]));
const slugs = z
  .array(z.object({ slug: z.string() }))
  .nullish()
  .transform((list) => (list ?? []).slice(0, TAGS_MAX).map(({ slug }) => slug));

const GammaMarket = z.object({
  id,
  conditionId: z.string().transform((value) => value.toLowerCase()),
  question: text,
  slug: text,
  startDate: text,
  endDate: text,
  icon: text,
  negRisk: z.boolean().nullish(),
  outcomes: pair(z.string()),
  clobTokenIds: pair(z.string()),
  groupItemTitle: text,
  sportsMarketType: text,
  events: z
    .array(z.object({ id: id.nullish(), slug: text, title: text, icon: text, seriesSlug: text }))
    .nullish(),
  tags: slugs,
});

const GammaEvent = z.object({ id, seriesSlug: text, series: slugs, tags: slugs });

const GammaProfile = z.object({
  proxyWallet: text,
  createdAt: text,
  name: text,
  profileImage: text,
  xUsername: text,
  // An unknown tier is shown as none, as for a wallet without a profile.
  takerTier: z.int().min(0).max(6).nullish().catch(null),
  takerTierName: text,
  weightedVolume: z.number().nonnegative().nullish().catch(null),
});

export type ParsedMarket = { readonly listing: Listing; readonly eventId: string };

/** Tags and series of an event, for its markets without their own. */
export type ParsedEvent = {
  readonly id: string;
  readonly tags: readonly string[];
  readonly seriesSlug: string;
};

/** A market that has no condition or no tokens yet cannot have been traded. */
export function isTradable(answer: unknown): boolean {
  // The parser rejects and counts everything that is not an object.
  if (typeof answer !== 'object' || answer === null) return true;
  const { conditionId, clobTokenIds } = answer as Readonly<Record<string, unknown>>;
  return Boolean(conditionId) && Boolean(clobTokenIds) && clobTokenIds !== '[]';
}

/** A listing from a Gamma market. Throws ZodError if ids are missing or malformed. */
export function parseListing(answer: unknown): Listing {
  return parseMarket(answer).listing;
}

/** A listing and the id of its event. Throws ZodError if ids are missing or malformed. */
export function parseMarket(answer: unknown): ParsedMarket {
  const market = GammaMarket.parse(answer);
  const event = market.events?.[0];
  const listing = Listing.parse({
    kind: 'listing',
    conditionId: market.conditionId,
    marketId: market.id,
    question: market.question,
    slug: market.slug,
    startDate: isoSecond(market.startDate),
    endDate: isoSecond(market.endDate),
    icon: market.icon,
    negRisk: market.negRisk ?? false,
    eventSlug: event?.slug ?? '',
    eventTitle: event?.title ?? '',
    eventIcon: event?.icon ?? '',
    seriesSlug: event?.seriesSlug ?? '',
    tags: market.tags,
    outcomes: market.outcomes,
    tokenIds: market.clobTokenIds,
    groupItemTitle: market.groupItemTitle,
    sportsMarketType: market.sportsMarketType,
  });
  return { listing, eventId: event?.id ?? '' };
}

/** Tags and series of a Gamma event. Throws ZodError if it has another shape. */
export function parseEvent(answer: unknown): ParsedEvent {
  const event = GammaEvent.parse(answer);
  return {
    id: event.id,
    tags: event.tags,
    seriesSlug: event.seriesSlug || (event.series[0] ?? ''),
  };
}

/** A profile from a Gamma public profile. Throws ZodError if a field has another type. */
export function parseProfile(address: Hash, answer: unknown): Profile {
  const profile = GammaProfile.parse(answer);
  return Profile.parse({
    kind: 'profile',
    address,
    name: profile.name,
    profileImage: profile.profileImage,
    xUsername: profile.xUsername,
    createdAt: isoSecond(profile.createdAt),
    takerTier: profile.takerTier ?? 0,
    takerTierName: profile.takerTierName,
    weightedVolumeUsd: profile.weightedVolume ?? null,
  });
}

/** The wallet of an item in a batch; '' if it names none. */
export function walletOf(answer: unknown): string {
  const parsed = GammaProfile.pick({ proxyWallet: true }).safeParse(answer);
  return parsed.success ? parsed.data.proxyWallet.toLowerCase() : '';
}

/** `YYYY-MM-DDTHH:MM:SSZ`, rounded down; '' for an invalid date or a year beyond four digits. */
function isoSecond(date: string): string {
  const milliseconds = Date.parse(date);
  if (Number.isNaN(milliseconds)) return '';
  const iso = `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
  return /^\d{4}-/.test(iso) ? iso : '';
}

const CLOSED = { closed: 'true' } as const;
const KeysetPage = z.object({ markets: z.array(z.unknown()), next_cursor: z.string().nullish() });

export type GammaPage = {
  readonly listings: readonly Listing[];
  /** Cursor of the next page; undefined at the end. */
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
  /** Requests by outcome. */
  readonly outcomes: ReadonlyMap<GammaFailure | 'ok', number>;
  /** Markets, events and profiles that could not be parsed. */
  readonly malformed: number;
  /** How long the service has not responded, in milliseconds; 0 if it responds. */
  readonly downMs: number;
};

/** The service at a URL. Every method throws GammaError if the service does not respond. */
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

/** Parses the items of a response one by one; a malformed item is counted and left out. */
class Parser {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();
  malformed = 0;

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  /** The parsed items of a response. Throws GammaError if it is not a list. */
  list<T>(path: string, answer: unknown, parse: (item: unknown) => T): T[] {
    const items = z.array(z.unknown()).safeParse(answer);
    if (!items.success) throw new GammaError('malformed', `${path} did not return a list`);
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

  /** Open and closed markets with one of the ids. */
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
    if (!page.success) throw new GammaError('malformed', `${path} did not return a page`);
    const parsed = this.#parse(path, page.data.markets);
    return {
      listings: await this.#events.complete(await this.#withEvents(parsed, {})),
      next: page.data.next_cursor || undefined,
    };
  }

  /** Some responses with tags omit the event; those markets are also requested without tags. */
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

class Profiles {
  readonly #http: GammaHttp;
  readonly #parser: Parser;
  #singleUntilMs = 0;

  constructor(http: GammaHttp, parser: Parser) {
    this.#http = http;
    this.#parser = parser;
  }

  /** Requests a batch first. Wallets that it omits are requested one by one; a 404 means "none". */
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
      // The service does not support this batch, or interprets it differently.
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

/**
 * Tags and series of events, for markets without tags of their own (on the real service, the event inside
 * a market has none). Cached for a while, because the markets of an event share it.
 */
class EventCache {
  readonly #http: GammaHttp;
  readonly #parser: Parser;
  /** `event` is undefined if the service does not know the id. */
  readonly #entries = new LRUCache<string, { readonly event: ParsedEvent | undefined }>({
    max: EVENTS_MAX,
    ttl: EVENT_STALE_MS,
  });

  constructor(http: GammaHttp, parser: Parser) {
    this.#http = http;
    this.#parser = parser;
  }

  /** The listings; those without tags take tags and series from their events. Throws GammaError. */
  async complete(markets: readonly ParsedMarket[]): Promise<readonly Listing[]> {
    const ids = new Set(
      markets
        .filter(({ listing, eventId }) => listing.tags.length === 0 && eventId !== '')
        .map(({ eventId }) => eventId),
    );
    const events = await this.#learn([...ids]);
    return markets.map(({ listing, eventId }) => {
      const event = events.get(eventId);
      if (event === undefined) return listing;
      return {
        ...listing,
        tags: [...event.tags],
        seriesSlug: listing.seriesSlug || event.seriesSlug,
      };
    });
  }

  async #learn(ids: readonly string[]): Promise<ReadonlyMap<string, ParsedEvent>> {
    const wanted = ids.filter((id) => !this.#entries.has(id));
    for (let i = 0; i < wanted.length; i += EVENTS_BATCH_MAX) {
      const batch = wanted.slice(i, i + EVENTS_BATCH_MAX);
      const events = await this.#ask(batch);
      for (const id of batch) this.#entries.set(id, { event: events.get(id) });
    }
    const known = new Map<string, ParsedEvent>();
    for (const id of ids) {
      const event = this.#entries.get(id)?.event;
      if (event !== undefined) known.set(id, event);
    }
    return known;
  }

  async #ask(ids: readonly string[]): Promise<ReadonlyMap<string, ParsedEvent>> {
    const found = new Map<string, ParsedEvent>();
    try {
      for (const extra of [{}, { closed: 'true' }]) {
        const missing = ids.filter((id) => !found.has(id));
        if (missing.length === 0) break;
        const query = new URLSearchParams(missing.map((id): [string, string] => ['id', id]));
        for (const [name, value] of Object.entries(extra)) query.set(name, value);
        query.set('limit', String(EVENTS_BATCH_MAX));
        const answer = await this.#http.get('/events', query);
        for (const event of this.#parser.list('/events', answer, parseEvent)) {
          found.set(event.id, event);
        }
      }
    } catch (error) {
      // Markets are published even if the service refuses to return events.
      if (!(error instanceof GammaError && error.reason === 'refused')) throw error;
    }
    return found;
  }
}

const CONCURRENT_MAX = 6;
const REQUEST_MS_MAX = 10_000;
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 15_000;
/** Limit on Retry-After, so that a service with a wrong clock does not stop us for a day. */
const RETRY_AFTER_MS_MAX = 120_000;
/** 50 markets with all their fields are about 500 KB. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** Consecutive failures that count as an outage. */
const OUTAGE_FAILURES = 3;

/** Why a request failed. `refused` (a 4xx) is final; the others are transient. */
export type GammaFailure = 'timeout' | 'network' | 'busy' | 'server' | 'malformed' | 'refused';

/** The service did not respond or responded with an error; `status` is 0 without a response. */
export class GammaError extends Error {
  override readonly name = 'GammaError';
  readonly reason: GammaFailure;
  readonly status: number;
  /** From the response's Retry-After; 0 without one. */
  readonly retryAfterMs: number;

  constructor(reason: GammaFailure, message: string, given: ErrorGiven = {}) {
    super(message, 'cause' in given ? { cause: given.cause } : {});
    this.reason = reason;
    this.status = given.status ?? 0;
    this.retryAfterMs = given.retryAfterMs ?? 0;
  }
}
type ErrorGiven = {
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
};

export type GammaHttpOptions = {
  readonly url: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly requestMsMax?: number;
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
};

/**
 * Requests to the metadata API: bounded in number, time and size, with one pace for the whole process. A
 * service that is busy or down gets one request at a time, with growing pauses, until it responds again.
 * Retries are up to the caller. An outage is logged when it begins and when it ends; every attempt is
 * counted under its class.
 */
export class GammaHttp {
  readonly #base: string;
  readonly #options: Required<GammaHttpOptions>;
  /** Attempts by outcome: `ok` or a GammaFailure. */
  readonly outcomes = new Map<GammaFailure | 'ok', number>();
  #running = 0;
  #entering: (() => void)[] = [];
  #failures = 0;
  #pausedUntilMs = 0;
  #downSinceMs: number | undefined;

  constructor(options: GammaHttpOptions) {
    this.#base = options.url.replace(/\/$/, '');
    this.#options = {
      requestMsMax: REQUEST_MS_MAX,
      backoffMinMs: BACKOFF_MIN_MS,
      backoffMaxMs: BACKOFF_MAX_MS,
      ...options,
    };
  }

  /** How long the service has not responded, in milliseconds; 0 if it responds. */
  get downMs(): number {
    return this.#downSinceMs === undefined ? 0 : performance.now() - this.#downSinceMs;
  }

  /** Requests the JSON of a path once. Throws GammaError. */
  async get(path: string, query: URLSearchParams): Promise<unknown> {
    await this.#enter();
    try {
      const answer = await this.#attempt(path, query);
      this.#ended('ok');
      return answer;
    } catch (error) {
      if (!(error instanceof GammaError)) throw error;
      if (!this.#options.signal.aborted) this.#ended(error.reason, error);
      throw error;
    } finally {
      this.#running -= 1;
      for (const wake of this.#entering.splice(0)) wake();
    }
  }

  async #enter(): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const waitMs = this.#pausedUntilMs - performance.now();
      if (waitMs > 0) {
        await delay(waitMs, undefined, { signal });
      } else if (this.#running < (this.#failures > 0 ? 1 : CONCURRENT_MAX)) {
        this.#running += 1;
        return;
      } else {
        await new Promise<void>((resolve) => this.#entering.push(resolve));
      }
    }
  }

  async #attempt(path: string, query: URLSearchParams): Promise<unknown> {
    const { signal, requestMsMax } = this.#options;
    const timeout = AbortSignal.timeout(requestMsMax);
    let text: string;
    try {
      const response = await fetch(`${this.#base}${path}?${query}`, {
        signal: AbortSignal.any([signal, timeout]),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw refusal(path, response);
      }
      text = await boundedText(response, ANSWER_BYTES_MAX);
    } catch (cause) {
      if (cause instanceof GammaError) throw cause;
      if (cause instanceof ResponseTooLongError) {
        throw new GammaError('malformed', `${path} answered ${cause.message}`);
      }
      throw new GammaError(timeout.aborted ? 'timeout' : 'network', `${path} not answered`, {
        cause,
      });
    }
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new GammaError('malformed', `${path} did not return JSON`, { cause });
    }
  }

  #ended(outcome: GammaFailure | 'ok', error?: GammaError): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    const { logger, backoffMinMs, backoffMaxMs } = this.#options;
    if (error === undefined || outcome === 'refused') {
      if (this.#failures >= OUTAGE_FAILURES) {
        logger.info({ downMs: Math.round(this.downMs) }, 'metadata API answers again');
      }
      this.#failures = 0;
      this.#pausedUntilMs = 0;
      this.#downSinceMs = undefined;
      return;
    }
    this.#failures += 1;
    const backoffMs = Math.min(backoffMinMs * 2 ** (this.#failures - 1), backoffMaxMs);
    const pauseMs = Math.max(error.retryAfterMs, backoffMs);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, performance.now() + pauseMs);
    if (this.#failures < OUTAGE_FAILURES) return;
    if (this.#downSinceMs === undefined) {
      this.#downSinceMs = performance.now();
      logger.warn({ err: error }, 'metadata API does not answer; fills continue without it');
    }
  }
}

function refusal(path: string, response: Response): GammaError {
  const { status } = response;
  const reason =
    status === 429 || status === 408 || status === 425
      ? 'busy'
      : status >= 500
        ? 'server'
        : 'refused';
  const retryAfterMs = retryAfter(response.headers.get('retry-after'));
  return new GammaError(reason, `${path} answered ${status}`, { status, retryAfterMs });
}

/** Parses a header in seconds or as a date into milliseconds; 0 if it is neither. */
function retryAfter(value: string | null): number {
  if (value === null) return 0;
  const seconds = /^\d{1,9}$/.test(value)
    ? Number(value)
    : (Date.parse(value) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds * 1_000, 0), RETRY_AFTER_MS_MAX);
}
