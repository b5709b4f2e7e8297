/**
 * Client of the metadata API (Gamma): markets by condition or token id, or newest first, and public profiles. The
 * service hides closed markets from some queries, so ids that are missing from the response are requested again with
 * `closed=true`. A market without tags gets those of its event. Only members that identify an item are required: an item
 * without them is logged once and treated as unknown. Any other member that cannot be parsed is logged once and left out.
 *
 * Unset fields become ''. A market without a condition or tokens is not tradable yet and is left out. One of protocol version 2
 * has position ids in place of both, unless it continues an older market; if they are not as expected, that is logged. Results are
 * validated against contract.ts, because an invalid message would stop its readers. test/fixtures/gamma-*.json are real
 * responses.
 */

import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { z } from 'zod';
import { type Hash, Listing, Profile } from '../contract.ts';
import { structuredId } from '../events/structured-ids.ts';
import { GammaError, GammaHttp, type GammaOptions, type Pair } from './gamma-http.ts';

/** Ids in one request. Keeps the URL below 8 KB, which servers and proxies accept. */
export const GAMMA_BATCH_MAX = 50;
const PAGE_MARKETS = 100;
/** After a refused batch, profiles are requested one by one for this long. */
const SINGLE_PROFILES_MS = 3_600_000;
const LOGGED_MAX = 10_000;
const EVENTS_MAX = 5_000;
const EVENT_STALE_MS = 600_000;
/** Longer texts are cut; real ones are below 1,000 characters, and a message holds 1 MB. */
const TEXT_MAX = 4_000;
const TAGS_MAX = 100;

/** Of names, labels and slugs, of which a message can hold hundreds. */
const NAME_MAX = 200;
const PICTURE_MAX = 1_000;

/** Cuts a text. A half of a surrogate pair, from the cut or from the service, would make ClickHouse refuse the row. */
const cut = (value: string, charactersMax: number) => value.slice(0, charactersMax).toWellFormed();
const textOf = (charactersMax: number) =>
  z
    .string()
    .nullish()
    .transform((value) => cut(value ?? '', charactersMax));
const text = textOf(TEXT_MAX);
const name = textOf(NAME_MAX);
const HAS_TIME = /\d:\d\d/;
const HAS_ZONE = /(Z|[+-]\d\d(:?\d\d)?)$/i;
/** `YYYY-MM-DDTHH:MM:SSZ`, rounded down; '' for an invalid date or a year beyond four digits. UTC without a zone. */
const isoSecond = text.transform((date) => {
  const isLocal = HAS_TIME.test(date) && !HAS_ZONE.test(date);
  const milliseconds = Date.parse(isLocal ? `${date}Z` : date);
  if (Number.isNaN(milliseconds)) return '';
  const iso = `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
  return /^\d{4}-/.test(iso) ? iso : '';
});
/** Refuses numbers that JSON cannot carry exactly, because v2 of the API sends ids as numbers. */
const id = z
  .union([z.string(), z.number().transform(String)])
  .refine(
    (text) => !/^\d+$/.test(text) || Number(text) <= Number.MAX_SAFE_INTEGER,
    'above 2^53 - 1',
  );
/** A list of two, or its JSON text. */
const pair = z
  .unknown()
  .transform((given, context) => {
    if (typeof given !== 'string') return given;
    try {
      return JSON.parse(given) as unknown;
    } catch {
      context.addIssue({ code: 'custom', message: 'not JSON' });
      return z.NEVER;
    }
  })
  .pipe(z.tuple([z.string(), z.string()]))
  .transform(([first, second]): [string, string] => [cut(first, NAME_MAX), cut(second, NAME_MAX)]);
const slugs = z
  .array(z.object({ slug: z.string() }))
  .nullish()
  .transform((list) => (list ?? []).slice(0, TAGS_MAX).map(({ slug }) => cut(slug, NAME_MAX)));

const GammaMarket = z.object({
  id,
  conditionId: z.string().toLowerCase(),
  question: text,
  slug: text,
  startDate: isoSecond,
  endDate: isoSecond,
  icon: text,
  negRisk: z
    .boolean()
    .nullish()
    .transform((value) => value ?? false),
  outcomes: pair.nullish().transform((labels): [string, string] => labels ?? ['', '']),
  clobTokenIds: pair,
  groupItemTitle: text,
  sportsMarketType: text,
  events: z
    .array(z.object({ id: id.nullish(), slug: text, title: text, icon: text, seriesSlug: text }))
    .nullish(),
  tags: slugs,
});
/** A listing and the id of its event; '' if the response has none. */
type ParsedMarket = { readonly listing: Listing; readonly eventId: string };

/** Tags and series of an event, for markets that have none of their own. */
const GammaEvent = z
  .object({ id, seriesSlug: text, series: slugs, tags: slugs })
  .transform(({ series, ...event }) => ({
    ...event,
    seriesSlug: event.seriesSlug || (series[0] ?? ''),
  }));
type GammaEvent = z.infer<typeof GammaEvent>;

const GammaProfile = z.object({
  name,
  profileImage: textOf(PICTURE_MAX),
  xUsername: name,
  createdAt: isoSecond,
  // An unknown tier counts as none, like that of a wallet without a profile.
  takerTier: z.int().min(0).max(6).catch(0),
  takerTierName: name,
  weightedVolume: z.number().nonnegative().nullable().catch(null),
});
const Wallet = z.object({ proxyWallet: text });

const Items = z.array(z.unknown());
const KeysetPage = z.object({ markets: Items, next_cursor: z.string().nullish() });

/** False for a market without a condition or tokens, which cannot have been traded yet. */
function isTradable(answer: unknown): boolean {
  // The parser rejects everything that is not an object.
  if (typeof answer !== 'object' || answer === null) return true;
  const { conditionId, clobTokenIds } = answer as Readonly<Record<string, unknown>>;
  return Boolean(conditionId) && Boolean(clobTokenIds) && clobTokenIds !== '[]';
}

/** Whether a market has no other ids than those of protocol version 2. */
function isProtocolV2(answer: unknown): boolean {
  if (typeof answer !== 'object' || answer === null) return false;
  const { version, positionIds, clobTokenIds } = answer as Readonly<Record<string, unknown>>;
  const isOlder = Boolean(clobTokenIds) && clobTokenIds !== '[]';
  return !isOlder && (version === 'v2' || Boolean(positionIds));
}

/** The market with the condition and tokens that its position ids say; undefined if they are not those of one condition. */
function withPositions(answer: unknown): unknown {
  const { positionIds, ...market } = answer as Readonly<Record<string, unknown>>;
  const parsed = pair.safeParse(positionIds);
  if (!parsed.success || !parsed.data.every((text) => /^\d{1,78}$/.test(text))) return undefined;
  const [first, second] = parsed.data.map(structuredId);
  if (first === undefined || first.conditionId !== second?.conditionId) return undefined;
  return { ...market, conditionId: first.conditionId, clobTokenIds: parsed.data };
}

/** Members of items and of listings that identify them. */
const REQUIRED: ReadonlySet<string> = new Set([
  ...['id', 'conditionId', 'clobTokenIds'],
  ...['marketId', 'tokenIds', 'address'],
]);

/** Parses a market of the API. Throws ZodError if ids are missing or malformed. */
export function parseListing(answer: unknown): Listing {
  return parseMarket(answer).listing;
}

function parseMarket(answer: unknown): ParsedMarket {
  const { id: marketId, clobTokenIds, events, ...market } = GammaMarket.parse(answer);
  const event = events?.[0];
  const listing = Listing.parse({
    ...market,
    kind: 'listing',
    marketId,
    tokenIds: clobTokenIds,
    eventSlug: event?.slug ?? '',
    eventTitle: event?.title ?? '',
    eventIcon: event?.icon ?? '',
    seriesSlug: event?.seriesSlug ?? '',
  });
  return { listing, eventId: event?.id ?? '' };
}

function parseProfile(address: string, answer: unknown): Profile {
  const { weightedVolume, ...profile } = GammaProfile.parse(answer);
  return Profile.parse({
    ...profile,
    kind: 'profile',
    address,
    weightedVolumeUsd: weightedVolume,
  });
}

/** The wallet of an item in a batch; '' if it has none. */
function walletOf(answer: unknown): string {
  const parsed = Wallet.safeParse(answer);
  return parsed.success ? parsed.data.proxyWallet.toLowerCase() : '';
}

/** The metadata API at a URL. Every request throws GammaError if the service does not respond. */
export class Gamma {
  readonly #http: GammaHttp;
  readonly #logger: Logger;
  /** Items and members that were already logged. */
  readonly #logged = new LRUCache<string, true>({ max: LOGGED_MAX });
  /** By id, because the markets of an event share it; `event` is undefined if the service does not know the id. */
  readonly #events = new LRUCache<string, { readonly event: GammaEvent | undefined }>({
    max: EVENTS_MAX,
    ttl: EVENT_STALE_MS,
  });
  #singleProfilesUntilMs = 0;
  #leftOut = 0;

  constructor(options: GammaOptions) {
    this.#http = new GammaHttp(options);
    this.#logger = options.logger;
  }

  /** How long all requests have failed, in milliseconds; 0 after a success. */
  get failingMs(): number {
    return this.#http.failingMs;
  }

  /** Like `failingMs`, but 0 for the first few failures. */
  get downMs(): number {
    return this.#http.downMs;
  }

  /** Listings of the conditions that the service knows, by condition id; none if it refuses the request. */
  async listings(conditionIds: readonly string[]): Promise<ReadonlyMap<string, Listing>> {
    try {
      const idsOf = ({ conditionId }: Listing) => [conditionId];
      const listings = await this.#complete(
        await this.#markets('condition_ids', conditionIds, idsOf),
      );
      return new Map(listings.map((listing) => [listing.conditionId, listing]));
    } catch (error) {
      if (error instanceof GammaError && error.reason === 'refused') return new Map();
      throw error;
    }
  }

  /** Listings of the markets that tokens belong to, by token id. */
  async listingsOfTokens(tokenIds: readonly string[]): Promise<ReadonlyMap<string, Listing>> {
    const markets = await this.#markets('clob_token_ids', tokenIds, (one) => one.tokenIds);
    const listings = await this.#complete(markets);
    return new Map(listings.flatMap((one) => one.tokenIds.map((token) => [token, one] as const)));
  }

  /** A page of open markets, newest first; `next` is the cursor of the next page, undefined at the end. */
  async newest(cursor: string | undefined) {
    const path = '/markets/keyset';
    const answer = await this.#http.get(path, [
      ['limit', String(PAGE_MARKETS)],
      ['order', 'id'],
      ['ascending', 'false'],
      ['include_tag', 'true'],
      ...(cursor === undefined ? [] : [['after_cursor', cursor] satisfies Pair]),
    ]);
    const page = KeysetPage.safeParse(answer);
    if (!page.success) throw new GammaError('malformed', `${path} did not return a page`);
    const markets = this.#parseAll(path, this.#listed(path, page.data.markets), parseMarket);
    return { listings: await this.#complete(markets), next: page.data.next_cursor || undefined };
  }

  /**
   * Profiles of the wallets that have one, by address. Requests them as a batch, then those that it omits one by one.
   */
  async profiles(addresses: readonly string[]): Promise<ReadonlyMap<string, Profile>> {
    const found = new Map((await this.#profileBatch(addresses)).map((one) => [one.address, one]));
    const missing = (addresses as readonly Hash[]).filter((address) => !found.has(address));
    for (const profile of await Promise.all(missing.map((address) => this.#profile(address)))) {
      if (profile !== undefined) found.set(profile.address, profile);
    }
    return found;
  }

  async #profileBatch(addresses: readonly string[]): Promise<readonly Profile[]> {
    if (addresses.length < 2 || performance.now() < this.#singleProfilesUntilMs) return [];
    const path = '/public-profiles';
    try {
      const answer = await this.#http.get(path, [['addresses', addresses.join(',')]]);
      const profiles = itemsOf(path, answer).filter((one) => addresses.includes(walletOf(one)));
      return this.#parseAll(path, profiles, (one) => parseProfile(walletOf(one), one));
    } catch (error) {
      // The service does not support batches, or expects different parameters.
      const isUnable =
        error instanceof GammaError && (error.reason === 'refused' || error.reason === 'malformed');
      if (!isUnable) throw error;
      this.#singleProfilesUntilMs = performance.now() + SINGLE_PROFILES_MS;
      return [];
    }
  }

  async #profile(address: string): Promise<Profile | undefined> {
    const path = '/public-profile';
    try {
      const answer = await this.#http.get(path, [['address', address]]);
      return this.#parseAll(path, [answer], (one) => parseProfile(address, one))[0];
    } catch (error) {
      // 404: the wallet has no profile. Any other refusal is treated the same way, and the profile is requested again later.
      if (error instanceof GammaError && error.reason === 'refused') return undefined;
      throw error;
    }
  }

  /** How many markets of protocol version 2 were left out, because their ids are not as expected. */
  get leftOut(): number {
    return this.#leftOut;
  }

  #listed(path: string, items: readonly unknown[]): readonly unknown[] {
    return items
      .flatMap((item) => {
        if (!isProtocolV2(item)) return [item];
        const market = withPositions(item);
        if (market !== undefined) return [market];
        const { id } = item as Readonly<Record<string, unknown>>;
        if (this.#isFirst(`v2 ${String(id)}`)) {
          this.#leftOut += 1;
          this.#logger.warn(
            { path, id },
            'skipping a market of protocol version 2 with unknown ids',
          );
        }
        return [];
      })
      .filter(isTradable);
  }

  /** Whether this is to be logged now. */
  #isFirst(what: string): boolean {
    if (this.#logged.has(what)) return false;
    this.#logged.set(what, true);
    return true;
  }

  /** Open and closed markets with one of the ids. */
  #markets(
    parameter: string,
    ids: readonly string[],
    idsOf: (listing: Listing) => readonly string[],
    hasTags = true,
  ): Promise<readonly ParsedMarket[]> {
    const path = '/markets';
    return openAndClosed(
      ids,
      ({ listing }) => idsOf(listing),
      async (some, extra) => {
        const answer = await this.#http.get(path, [
          ...some.map((one): Pair => [parameter, one]),
          ['include_tag', String(hasTags)],
          ...extra,
          ['limit', String(PAGE_MARKETS)],
        ]);
        return this.#parseAll(path, this.#listed(path, itemsOf(path, answer)), parseMarket);
      },
    );
  }

  /** The listings. Those without tags get tags and series from their events. */
  async #complete(parsed: readonly ParsedMarket[]): Promise<readonly Listing[]> {
    const markets = await this.#withEvents(parsed);
    const untagged = markets.filter((one) => one.listing.tags.length === 0 && one.eventId !== '');
    await this.#learnEvents(new Set(untagged.map(({ eventId }) => eventId)));
    return markets.map(({ listing, eventId }) => {
      const event = listing.tags.length === 0 ? this.#events.get(eventId)?.event : undefined;
      if (event === undefined) return listing;
      const { tags, seriesSlug } = event;
      return { ...listing, tags, seriesSlug: listing.seriesSlug || seriesSlug };
    });
  }

  /** Some responses with tags omit the event, so those markets are requested again without tags. */
  async #withEvents(markets: readonly ParsedMarket[]): Promise<readonly ParsedMarket[]> {
    const ids = markets
      .filter(({ eventId }) => eventId === '')
      .map(({ listing }) => listing.conditionId);
    const plain = await this.#markets('condition_ids', ids, (one) => [one.conditionId], false);
    const byId = new Map(plain.map((one) => [one.listing.conditionId, one]));
    return markets.map((market) => {
      const other = byId.get(market.listing.conditionId);
      if (market.eventId !== '' || other === undefined) return market;
      const { eventSlug, eventTitle, eventIcon, seriesSlug } = other.listing;
      const listing = { ...market.listing, eventSlug, eventTitle, eventIcon, seriesSlug };
      return { listing, eventId: other.eventId };
    });
  }

  async #learnEvents(ids: ReadonlySet<string>): Promise<void> {
    const path = '/events';
    const wanted = [...ids].filter((one) => !this.#events.has(one));
    let events: readonly GammaEvent[] = [];
    try {
      events = await openAndClosed(
        wanted,
        (event) => [event.id],
        async (some, extra) => {
          const answer = await this.#http.get(path, [
            ...some.map((one): Pair => ['id', one]),
            ...extra,
            ['limit', String(GAMMA_BATCH_MAX)],
          ]);
          return this.#parseAll(path, itemsOf(path, answer), (one) => GammaEvent.parse(one));
        },
      );
    } catch (error) {
      // Markets are published even if the service refuses to return events.
      if (!(error instanceof GammaError && error.reason === 'refused')) throw error;
    }
    const byId = new Map(events.map((event) => [event.id, event]));
    for (const one of wanted) this.#events.set(one, { event: byId.get(one) });
  }

  /** The items that can be parsed. */
  #parseAll<T>(path: string, items: readonly unknown[], parse: (item: unknown) => T): readonly T[] {
    return items.flatMap((item) => {
      try {
        return [parse(item)];
      } catch (error) {
        if (!(error instanceof z.ZodError)) throw error;
        try {
          return [parse(this.#withoutMalformed(path, item, error))];
        } catch (again) {
          if (!(again instanceof z.ZodError)) throw again;
          this.#logMalformed(path, item, error);
          return [];
        }
      }
    });
  }

  /** The item without the members that could not be parsed. Throws the error if one of them is required. */
  #withoutMalformed(path: string, item: unknown, error: z.ZodError): unknown {
    if (error.issues.some(({ path: [top] }) => top === undefined || REQUIRED.has(String(top)))) {
      throw error;
    }
    const copy = structuredClone(item) as Record<string, unknown>;
    for (const { message, path: place } of error.issues) {
      const [top = '', index, field] = place.map(String);
      // Of an event, only the field.
      const isField = top === 'events' && field !== undefined;
      if (isField) delete (copy.events as Record<string, unknown>[])[Number(index)]?.[field];
      else delete copy[top];
      const member = isField ? `events.${field}` : top;
      if (this.#isFirst(`${path} ${member}`)) {
        const { id } = copy;
        this.#logger.warn({ path, member, id, message }, 'ignoring a malformed field of metadata');
      }
    }
    return copy;
  }

  #logMalformed(path: string, item: unknown, err: z.ZodError): void {
    const { id, proxyWallet } = (item ?? {}) as Readonly<Record<string, unknown>>;
    if (!this.#isFirst(`${path} ${String(id ?? proxyWallet)}`)) return;
    this.#logger.error(
      { path, id: id ?? proxyWallet, err },
      'ignoring a malformed item of metadata',
    );
  }
}

/** The items of a response. Throws GammaError if it is not a list. */
function itemsOf(path: string, answer: unknown): readonly unknown[] {
  const items = Items.safeParse(answer);
  if (items.success) return items.data;
  throw new GammaError('malformed', `${path} did not return a list`);
}

/** Requests ids in batches, and those that a response omits again with `closed=true`. */
async function openAndClosed<Item>(
  ids: readonly string[],
  idsOf: (item: Item) => readonly string[],
  request: (ids: readonly string[], extra: readonly Pair[]) => Promise<readonly Item[]>,
): Promise<readonly Item[]> {
  const found: Item[] = [];
  for (let i = 0; i < ids.length; i += GAMMA_BATCH_MAX) {
    const batch = ids.slice(i, i + GAMMA_BATCH_MAX);
    const open = await accepted(batch, (some) => request(some, []));
    const foundIds = new Set(open.flatMap(idsOf));
    const missing = batch.filter((one) => !foundIds.has(one));
    const closed = await accepted(missing, (some) => request(some, [['closed', 'true']]));
    found.push(...open, ...closed);
  }
  return found;
}

/** Statuses of a request that is too large, or has one id that the service does not accept. */
const BATCH_REFUSALS: readonly number[] = [400, 413, 414, 422];

/** Requests the ids, in smaller batches if the service refuses them. An id that it refuses alone has no item. */
async function accepted<Item>(
  ids: readonly string[],
  request: (ids: readonly string[]) => Promise<readonly Item[]>,
): Promise<readonly Item[]> {
  if (ids.length === 0) return [];
  try {
    return await request(ids);
  } catch (error) {
    if (!(error instanceof GammaError && BATCH_REFUSALS.includes(error.status))) throw error;
    if (ids.length === 1) return [];
    const half = Math.ceil(ids.length / 2);
    const first = await accepted(ids.slice(0, half), request);
    return [...first, ...(await accepted(ids.slice(half), request))];
  }
}
