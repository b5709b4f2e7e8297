/**
 * Metadata of markets and traders: listings, profiles, resolutions, and the outcome of each token. The data
 * comes from the metadata API and the chain. Every new or changed listing and profile goes to METADATA through
 * `onChange`. Missing texts never delay a fill; they are left empty.
 */

import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import { upTo } from '../../infra/lru.ts';
import type { Nats } from '../../infra/nats/connection.ts';
import { retry } from '../../infra/retry.ts';
import {
  type FeedMatch,
  type FeedTrader,
  type Hash,
  type Listing,
  type Profile,
  winningOutcome,
} from '../contract.ts';
import type { Chain } from '../events/chains.ts';
import type { KnownMarkets } from '../events/shares/known-markets.ts';
import { TokenMap } from '../events/token-ids.ts';
import { type Block, eventsOf } from '../ledger/ledger.ts';
import { comboListing } from './combo-listing.ts';
import { MetadataCache } from './fetch-cache.ts';
import { GAMMA_BATCH_MAX, type Gamma } from './gamma.ts';
import { GammaError } from './gamma-http.ts';
import { restoreMetadata, unansweredBlocks } from './metadata-stream.ts';

const RESOLUTIONS_MAX = 500_000;
/** About 1.2 KB each; enough for the markets that trade today. */
const LISTINGS_MAX = 50_000;
/** About 300 bytes each. */
const PROFILES_MAX = 100_000;
/** Most markets, and most profiles, that one sweep refreshes: 1,000 of each a minute. */
const REFRESHES_MAX = 80;

/** 100 markets each, enough for three days of new markets after an outage. Older ones are requested when traded. */
const NEW_PAGES_MAX = 100;

const ANSWERED_MS = 100;

/** Waits and intervals in milliseconds; tests shorten them. */
const TIMES = {
  marketStaleMs: 600_000,
  profileStaleMs: 3_600_000,
  /** First pause after the service did not know a key; doubles up to an hour. */
  marketMissingMs: 15_000,
  profileMissingMs: 600_000,
  /** How often new markets are requested. */
  newMarketsMs: 30_000,
  /** How often old and missing markets and profiles are queued for a refresh. */
  sweepMs: 5_000,
  /** Markets that were used within this time are refreshed. */
  activeMs: 24 * 3_600_000,
  /** How long LEDGER waits for the market of a token before the match is refused. */
  tokenMs: 30_000,
  /** How long a backfill waits for the next response at its end. */
  answerMs: 30_000,
};
export type MetadataTimes = Readonly<typeof TIMES>;

type KnownResolution = { readonly payouts: readonly [bigint, bigint]; readonly resolvedAt: string };

export type MetadataOptions = {
  readonly chain: Chain;
  readonly gamma: Gamma;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with every new or changed listing and profile, one at a time. */
  readonly onChange: (event: Listing | Profile) => Promise<void> | void;
  /** Knows the legs of combos; undefined if they are not read. */
  readonly known?: Pick<KnownMarkets, 'find' | 'placeOf'> | undefined;
  readonly times?: Partial<MetadataTimes>;
};

/** The market and the traders of a match. */
type Traded = {
  readonly conditionId: string;
  readonly fills: readonly { readonly trader: string }[];
};

export class Metadata {
  readonly #gamma: Gamma;
  readonly #known: MetadataOptions['known'];
  readonly #logger: Logger;
  readonly #signal: AbortSignal;
  readonly #times: MetadataTimes;
  readonly #listings: MetadataCache<Listing>;
  readonly #profiles: MetadataCache<Profile>;
  readonly #resolutions = new LRUCache<string, KnownResolution>(upTo(RESOLUTIONS_MAX));
  readonly #tokens: TokenMap;
  readonly #unknownTokens: UnknownTokens;

  constructor({ chain, gamma, logger, signal, onChange, known, times }: MetadataOptions) {
    this.#gamma = gamma;
    this.#known = known;
    this.#logger = logger;
    this.#signal = signal;
    this.#times = { ...TIMES, ...times };
    this.#tokens = new TokenMap(chain, logger);
    this.#listings = new MetadataCache<Listing>({
      name: 'markets',
      batchMax: GAMMA_BATCH_MAX,
      concurrentMax: 4,
      missingMs: this.#times.marketMissingMs,
      staleMs: this.#times.marketStaleMs,
      keysMax: LISTINGS_MAX,
      fetch: async (keys) => this.#checked(await this.#fetched(keys)),
      ...{ onChange, logger, signal },
    });
    this.#profiles = new MetadataCache<Profile>({
      name: 'profiles',
      batchMax: GAMMA_BATCH_MAX,
      concurrentMax: 2,
      missingMs: this.#times.profileMissingMs,
      staleMs: this.#times.profileStaleMs,
      keysMax: PROFILES_MAX,
      fetch: (keys) => gamma.profiles(keys),
      ...{ onChange, logger, signal },
    });
    this.#unknownTokens = new UnknownTokens({
      onListing: (listing) => this.#take(listing),
      waitMs: this.#times.tokenMs,
      ...{ gamma, logger, signal },
    });
  }

  /**
   * Reads METADATA and LEDGER, so that a restart neither fetches nor publishes the same metadata again, and requests what
   * the last process did not receive. Calls `onUnanswered` with the blocks whose traders may lack their data.
   */
  async restore(nats: Nats, onUnanswered: (block: Block) => void = () => undefined): Promise<void> {
    const most = { listings: LISTINGS_MAX, profiles: PROFILES_MAX };
    await restoreMetadata(nats, this.#logger, most, (event) => {
      if (event.kind === 'listing') {
        this.#listings.restore(event.conditionId, event);
        this.#tokens.restore(event);
      }
      if (event.kind === 'profile') this.#profiles.restore(event.address, event);
      if (event.kind === 'resolution') {
        this.resolve(event.conditionId, event.payouts, event.blockTime);
      }
    });
    for await (const block of unansweredBlocks(nats)) {
      this.learnOf(eventsOf('matches', [block]));
      onUnanswered(block);
    }
  }

  /** Polls for new and changed markets until the signal aborts. */
  async run(): Promise<void> {
    let requestedAtMs = Number.NEGATIVE_INFINITY;
    while (!this.#signal.aborted) {
      this.#listings.sweep(this.#times.activeMs, REFRESHES_MAX);
      // Only profiles that were used since they went stale.
      this.#profiles.sweep(this.#times.profileStaleMs, REFRESHES_MAX);
      if (performance.now() - requestedAtMs >= this.#times.newMarketsMs) {
        requestedAtMs = performance.now();
        await this.#leniently(() => this.#readNewMarkets());
        await this.#leniently(() => this.#unknownTokens.retryAbandoned());
      }
      await delay(this.#times.sweepMs, undefined, { signal: this.#signal }).catch(() => undefined);
    }
  }

  /** Remembers a resolution for the feed's market objects. `blockTime` in seconds. */
  resolve(conditionId: string, payouts: readonly [bigint, bigint], blockTime: number): void {
    if (this.#resolutions.has(conditionId)) return;
    const resolvedAt = `${new Date(blockTime * 1_000).toISOString().slice(0, 19)}Z`;
    this.#resolutions.set(conditionId, { payouts, resolvedAt });
  }

  /**
   * The outcome index of a token in a condition, derived from the condition id or taken from metadata. Undefined if
   * neither works.
   */
  outcomeOf(conditionId: string, tokenId: string, exchange: string): 0 | 1 | undefined {
    return this.#tokens.outcomeOf(conditionId, tokenId, exchange);
  }

  /**
   * The market of a token, for when neither calldata nor derivation reveals it. An unknown one is requested; undefined
   * if the metadata API does not return it within `tokenMs`. Rejects when ingest stops.
   */
  async conditionOfToken(tokenId: string): Promise<Hash | undefined> {
    return this.#tokens.conditionOf(tokenId) ?? this.#unknownTokens.find(tokenId);
  }

  /** Like `conditionOfToken`, but does not wait: an unknown token is requested in the background. */
  conditionOfKnownToken(tokenId: string): Hash | undefined {
    const known = this.#tokens.conditionOf(tokenId);
    if (known === undefined) {
      this.#unknownTokens.find(tokenId).catch((error) => {
        if (!this.#signal.aborted) throw error;
      });
    }
    return known;
  }

  /** Requests unknown keys. Resolves after their responses, or after `waitMs`. */
  async learn(
    conditionIds: Iterable<string>,
    traders: Iterable<string>,
    waitMs: number,
  ): Promise<void> {
    await Promise.all([
      this.#listings.settled(conditionIds, waitMs),
      this.#profiles.settled(traders, waitMs),
    ]);
  }

  /** Requests the unknown markets and traders of matches in the background. */
  learnOf(matches: readonly Traded[]): void {
    const traders = matches.flatMap(({ fills }) => fills.map(({ trader }) => trader));
    void this.learn(new Set(matches.map(({ conditionId }) => conditionId)), new Set(traders), 0);
  }

  /**
   * Resolves when every requested key has a response and no balance waits, with a warning if there was no progress for
   * `answerMs`, or when the signal aborts.
   */
  async answered(balances = { waiting: 0 }): Promise<void> {
    let least = Number.POSITIVE_INFINITY;
    let atMs = 0;
    while (!this.#signal.aborted) {
      const { listings, profiles } = this.waiting;
      const waiting = listings + profiles + balances.waiting;
      if (waiting === 0) return;
      if (waiting < least) {
        least = waiting;
        atMs = performance.now();
      } else if (performance.now() - atMs > this.#times.answerMs) {
        const message = 'no response: these markets and traders have no texts or balances yet';
        this.#logger.warn({ listings, profiles, balances: balances.waiting }, message);
        return;
      }
      await delay(ANSWERED_MS, undefined, { signal: this.#signal }).catch(() => undefined);
    }
  }

  /** The market object of a feed message; unknown texts are empty. */
  feedMarket(conditionId: string, exchange: string): FeedMatch['market'] {
    const listing = this.#listings.get(conditionId) ?? this.#unknown(conditionId, exchange);
    const { kind: _kind, conditionId: _condition, ...market } = listing;
    const resolution = this.#resolutions.get(conditionId);
    return {
      ...market,
      resolvedAt: resolution?.resolvedAt ?? '',
      winningOutcome:
        resolution === undefined ? '' : winningOutcome(market.outcomes, resolution.payouts),
    };
  }

  feedTrader(address: string): FeedTrader {
    const profile = this.#profiles.get(address);
    return {
      address: address as FeedTrader['address'],
      name: profile?.name ?? '',
      profileImage: profile?.profileImage ?? '',
      xUsername: profile?.xUsername ?? '',
      createdAt: profile?.createdAt ?? '',
    };
  }

  /** Number of requested keys without a response yet. */
  get waiting() {
    return { listings: this.#listings.waiting, profiles: this.#profiles.waiting };
  }

  /** Ignores an unavailable service: the next round tries again. */
  async #leniently(attempt: () => Promise<unknown>): Promise<void> {
    try {
      await attempt();
    } catch (error) {
      if (!(error instanceof GammaError) && !this.#signal.aborted) throw error;
    }
  }

  /**
   * Fetches new markets before they are traded: newest first, until a page has no new one. Throws GammaError.
   */
  async #readNewMarkets(): Promise<void> {
    let cursor: string | undefined;
    for (let pages = 0; pages < NEW_PAGES_MAX; pages++) {
      const { listings, next } = await this.#gamma.newest(cursor);
      const hasNew = listings.some(({ conditionId }) => !this.#listings.knows(conditionId));
      // This also refreshes the known markets of the page.
      for (const listing of listings) await this.#take(listing);
      if (!hasNew || next === undefined) return;
      cursor = next;
    }
  }

  async #take(listing: Listing): Promise<void> {
    const checked = await this.#checked(new Map([[listing.conditionId, listing]]));
    for (const one of checked.values()) await this.#listings.learn(one.conditionId, one);
  }

  /** The listings that the metadata API knows, and those of combos, which name their legs. Throws GammaError. */
  async #fetched(conditionIds: readonly string[]): Promise<ReadonlyMap<string, Listing>> {
    const listings = new Map(await this.#gamma.listings(conditionIds));
    const combos = conditionIds.flatMap((id) => {
      const legs = listings.has(id) ? undefined : this.#known?.find(id)?.legs;
      const places = legs?.flatMap((leg) => this.#known?.placeOf(leg) ?? []);
      return places === undefined ? [] : [{ id: id as Hash, places }];
    });
    const legs = new Set(combos.flatMap(({ places }) => places.map((leg) => leg.conditionId)));
    const ofLegs =
      legs.size === 0
        ? new Map<string, Listing>()
        : await this.#checked(await this.#gamma.listings([...legs]));
    for (const { id, places } of combos) {
      const named = places.map((leg) => ({ ...leg, listing: ofLegs.get(leg.conditionId) }));
      listings.set(id, comboListing(id, named));
    }
    return listings;
  }

  /** The listings with their outcomes in the chain's order. */
  async #checked(listings: ReadonlyMap<string, Listing>): Promise<ReadonlyMap<string, Listing>> {
    const checked = new Map<string, Listing>();
    for (const [key, listing] of listings) {
      const one = this.#tokens.listed(listing);
      this.#unknownTokens.listed(one);
      checked.set(key, one);
      // A derivation takes about 0.5 ms; pending matches must not wait for fifty of them.
      await setImmediate();
    }
    return checked;
  }

  #unknown(conditionId: string, exchange: string): Listing {
    return {
      kind: 'listing',
      conditionId: conditionId as Hash,
      marketId: '0',
      question: '',
      slug: '',
      startDate: '',
      endDate: '',
      icon: '',
      negRisk: false,
      eventSlug: '',
      eventTitle: '',
      eventIcon: '',
      seriesSlug: '',
      tags: [],
      outcomes: ['', ''],
      tokenIds: [...this.#tokens.pairOf(conditionId, exchange)],
      groupItemTitle: '',
      sportsMarketType: '',
    };
  }
}

const TOKEN_RETRY_MS = 250;
const TOKENS_MAX = 100_000;

/** The metadata API does not know a token. */
class UnlistedTokenError extends Error {}

type UnknownTokensOptions = {
  readonly gamma: Pick<Gamma, 'listingsOfTokens' | 'failingMs'>;
  /** Called with each listing that was found. */
  readonly onListing: (listing: Listing) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly waitMs: number;
};

/**
 * Finds the market of tokens for which neither calldata nor derivation reveals it. LEDGER waits for the result, so each
 * search has a time limit, which an outage of the metadata API uses up only once. The caller refuses matches of
 * abandoned tokens and keeps them raw. If a market appears later, an error is logged.
 */
class UnknownTokens {
  readonly #options: UnknownTokensOptions;
  readonly #searches = new Map<string, Promise<Hash | undefined>>();
  /** Abandoned tokens; true if the service was up and did not know the token. */
  readonly #abandoned = new LRUCache<string, boolean>(upTo(TOKENS_MAX));

  constructor(options: UnknownTokensOptions) {
    this.#options = options;
  }

  /** The market of a token; undefined if the service does not return it in time. Rejects when the signal aborts. */
  async find(tokenId: string): Promise<Hash | undefined> {
    if (this.#abandoned.peek(tokenId) === true) return undefined;
    const { gamma, logger, signal, waitMs } = this.#options;
    // An outage delays LEDGER once, not once per token.
    const leftMs = Math.max(waitMs - gamma.failingMs, 0);
    // After that, one search at a time is enough to notice the end of the outage.
    if (leftMs > 0 || this.#searches.size === 0) this.#search(tokenId, leftMs);
    const timer = new AbortController();
    const timeout = delay(leftMs, undefined, { signal: timer.signal }).catch(() => undefined);
    const found = await Promise.race([this.#searches.get(tokenId), timeout]);
    timer.abort();
    if (found !== undefined) return found;
    // Never refuse a match because ingest is stopping.
    signal.throwIfAborted();
    if (!this.#abandoned.has(tokenId)) {
      const message = 'the market of a token is unknown: its matches are stored as refused events';
      logger.error({ tokenId, waitedMs: leftMs }, message);
    }
    // After an outage the token is requested again on its next use.
    this.#abandoned.set(tokenId, gamma.failingMs === 0);
    return undefined;
  }

  /** Requests some of the abandoned tokens again, in turn. Throws GammaError. */
  async retryAbandoned(): Promise<void> {
    const { gamma, onListing } = this.#options;
    const tokenIds = [...this.#abandoned.rkeys()].slice(0, GAMMA_BATCH_MAX);
    if (tokenIds.length === 0) return;
    // `get` moves a token to the end of the queue.
    for (const tokenId of tokenIds) this.#abandoned.get(tokenId);
    const found = await gamma.listingsOfTokens(tokenIds);
    for (const listing of new Set(found.values())) await onListing(listing);
  }

  /** Marks the tokens of a listing as known. */
  listed({ tokenIds, conditionId }: Listing): void {
    for (const tokenId of tokenIds) {
      if (!this.#abandoned.delete(tokenId)) continue;
      this.#options.logger.error(
        { tokenId, conditionId },
        'the market of refused matches is now known: read LEDGER again from their block to add them',
      );
    }
  }

  #search(tokenId: string, forMs: number): void {
    const { gamma, onListing, signal } = this.#options;
    if (this.#searches.has(tokenId)) return;
    const request = async () => {
      const listing = (await gamma.listingsOfTokens([tokenId])).get(tokenId);
      if (listing === undefined) throw new UnlistedTokenError(tokenId);
      await onListing(listing);
      return listing.conditionId;
    };
    const isRetryable = (error: unknown) =>
      error instanceof UnlistedTokenError || error instanceof GammaError;
    const search = retry(request, {
      ...{ signal, isRetryable, giveUpAfterMs: forMs, pauseMs: TOKEN_RETRY_MS },
    })
      .catch((error) => {
        if (!isRetryable(error) && !signal.aborted) throw error;
        return undefined;
      })
      .finally(() => this.#searches.delete(tokenId));
    this.#searches.set(tokenId, search);
  }
}
