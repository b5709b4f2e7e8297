/**
 * Everything that ingest knows about markets and traders: listings, profiles, resolutions, and the outcome of each
 * token. It comes from the metadata API and the chain; every change goes to METADATA through `onChange`. It never
 * delays a fill: unknown texts are empty.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Nats } from '../infra/nats/connection.ts';
import type { Chain } from './chains.ts';
import {
  type FeedMatch,
  type FeedTrader,
  type Hash,
  type Listing,
  type Profile,
  winningOutcome,
} from './contract.ts';
import { type Gamma, GammaError, MARKETS_BATCH_MAX, PROFILES_BATCH_MAX } from './gamma.ts';
import { MetadataCache } from './metadata-cache.ts';
import { restoreMetadata } from './metadata-stream.ts';
import { TokenMap } from './token-ids.ts';

const RESOLUTIONS_MAX = 500_000;
/** About 1.2 KB each; enough for the markets that trade today. */
const LISTINGS_MAX = 50_000;
/** About 300 bytes each. */
const PROFILES_MAX = 100_000;
/** 1,000 markets and as many profiles a minute are refreshed. */
const REFRESHES_MAX = 20;

/** 100 markets each: three days of new markets after an outage. A market beyond it is requested when it is traded. */
const NEW_PAGES_MAX = 100;

/** Waits and intervals in milliseconds; tests shorten them. */
export type MetadataTimes = {
  readonly marketStaleMs: number;
  readonly profileStaleMs: number;
  /** First pause after the service did not know a key; doubles up to an hour. */
  readonly marketMissingMs: number;
  readonly profileMissingMs: number;
  /** How often new markets are looked for. */
  readonly newMarketsMs: number;
  /** How often old and missing markets are queued. */
  readonly sweepMs: number;
  /** Markets that were used within this time are refreshed. */
  readonly activeMs: number;
  /** How long LEDGER waits for the market of a token before the match is refused. */
  readonly tokenMs: number;
};
const TIMES: MetadataTimes = {
  marketStaleMs: 600_000,
  profileStaleMs: 3_600_000,
  marketMissingMs: 15_000,
  profileMissingMs: 600_000,
  newMarketsMs: 30_000,
  sweepMs: 5_000,
  activeMs: 24 * 3_600_000,
  tokenMs: 30_000,
};

type KnownResolution = { readonly payouts: readonly [bigint, bigint]; readonly resolvedAt: string };

export type MetadataOptions = {
  readonly chain: Chain;
  readonly gamma: Gamma;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called with every new or changed listing and profile, one at a time. */
  readonly onChange: (event: Listing | Profile) => Promise<void> | void;
  readonly times?: Partial<MetadataTimes>;
};

export class Metadata {
  readonly #gamma: Gamma;
  readonly #logger: Logger;
  readonly #signal: AbortSignal;
  readonly #times: MetadataTimes;
  readonly #listings: MetadataCache<Listing>;
  readonly #profiles: MetadataCache<Profile>;
  readonly #resolutions = new LRUCache<string, KnownResolution>({ max: RESOLUTIONS_MAX });
  readonly #tokens: TokenMap;
  readonly #unknownTokens: UnknownTokens;

  constructor({ chain, gamma, logger, signal, onChange, times }: MetadataOptions) {
    this.#gamma = gamma;
    this.#logger = logger;
    this.#signal = signal;
    this.#times = { ...TIMES, ...times };
    this.#tokens = new TokenMap(chain, logger);
    const shared = { refreshesMax: REFRESHES_MAX, logger, signal };
    const change = (_key: string, event: Listing | Profile) => onChange(event);
    this.#listings = new MetadataCache<Listing>({
      ...shared,
      name: 'markets',
      batchMax: MARKETS_BATCH_MAX,
      concurrentMax: 4,
      missingMs: this.#times.marketMissingMs,
      staleMs: this.#times.marketStaleMs,
      valuesMax: LISTINGS_MAX,
      fetch: async (keys) => this.#checked(await gamma.listings(keys)),
      onChange: change,
    });
    this.#profiles = new MetadataCache<Profile>({
      ...shared,
      name: 'profiles',
      batchMax: PROFILES_BATCH_MAX,
      concurrentMax: 2,
      missingMs: this.#times.profileMissingMs,
      staleMs: this.#times.profileStaleMs,
      valuesMax: PROFILES_MAX,
      fetch: (keys) => gamma.profiles(keys),
      onChange: change,
    });
    this.#unknownTokens = new UnknownTokens({
      fetch: (tokenIds) => gamma.listingsOfTokens(tokenIds),
      onListing: (listing) => this.#take(listing),
      logger,
      signal,
      waitMs: this.#times.tokenMs,
    });
  }

  /** Restores the content of METADATA and LEDGER, so that a restart neither fetches nor publishes it again. */
  async restore(nats: Nats): Promise<void> {
    await restoreMetadata(nats, this.#logger, (event) => {
      if (event.kind === 'listing') {
        this.#listings.restore(event.conditionId, event);
        this.#tokens.restore(event);
      }
      if (event.kind === 'profile') this.#profiles.restore(event.address, event);
      if (event.kind === 'resolution') {
        this.resolve(event.conditionId, event.payouts, event.blockTime);
      }
    });
  }

  /** Polls for new and changed markets until the signal aborts. */
  async run(): Promise<void> {
    let askedAtMs = Number.NEGATIVE_INFINITY;
    while (!this.#signal.aborted) {
      this.#listings.sweep(this.#times.activeMs);
      if (performance.now() - askedAtMs >= this.#times.newMarketsMs) {
        askedAtMs = performance.now();
        await this.#leniently(() => this.#readNewMarkets());
        await this.#leniently(() => this.#unknownTokens.retry());
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
   * The token's outcome of the condition: derived from the condition id, or from metadata. Undefined if neither
   * knows it.
   */
  outcomeOf(conditionId: string, tokenId: string, exchange: string): 0 | 1 | undefined {
    return this.#tokens.outcomeOf(conditionId, tokenId, exchange);
  }

  /**
   * The market of a token that neither calldata nor derivation reveals: already known, or requested. Undefined if
   * the metadata API does not return it within `tokenMs`; never rejects.
   */
  async conditionOfToken(tokenId: string): Promise<Hash | undefined> {
    return this.#tokens.conditionOf(tokenId) ?? this.#unknownTokens.find(tokenId);
  }

  /** Like `conditionOfToken`, but does not wait: an unknown token is requested in the background. */
  conditionOfKnownToken(tokenId: string): Hash | undefined {
    const known = this.#tokens.conditionOf(tokenId);
    if (known === undefined) void this.#unknownTokens.find(tokenId);
    return known;
  }

  /** Requests the unknown keys; resolves when they are known, or after `waitMs`. */
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

  /** Figures for metrics. */
  get state() {
    return {
      listings: this.#listings.state,
      profiles: this.#profiles.state,
      mismatches: this.#tokens.mismatches,
      tokensAwaited: this.#unknownTokens.waiting,
      tokensGivenUp: this.#unknownTokens.givenUp,
      tokensFoundLate: this.#unknownTokens.foundLate,
    };
  }

  /** Ignores an unavailable service: the next round tries again. */
  async #leniently(ask: () => Promise<unknown>): Promise<void> {
    try {
      await ask();
    } catch (error) {
      if (!(error instanceof GammaError) && !this.#signal.aborted) throw error;
    }
  }

  /**
   * Fetches markets before they are traded: the newest pages first, until a page has nothing new. Throws
   * GammaError.
   */
  async #readNewMarkets(): Promise<void> {
    let cursor: string | undefined;
    for (let pages = 0; pages < NEW_PAGES_MAX; pages++) {
      const { listings, next } = await this.#gamma.newest(cursor);
      const hasNew = listings.some(({ conditionId }) => !this.#listings.knows(conditionId));
      // Known markets too: this response is as good as a refresh.
      for (const listing of listings) await this.#take(listing);
      if (!hasNew || next === undefined) return;
      cursor = next;
    }
  }

  async #take(listing: Listing): Promise<void> {
    const checked = await this.#checked(new Map([[listing.conditionId, listing]]));
    for (const one of checked.values()) await this.#listings.learn(one.conditionId, one);
  }

  /** Listings with their tokens compared with the chain's. */
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

/** How long LEDGER waits for the market of a token before the match is refused. */
const WAIT_MS = 30_000;
const RETRY_MIN_MS = 250;
const RETRY_MAX_MS = 4_000;
/** How long a token that the service did not know is refused without another request. */
const GIVEN_UP_MS = 600_000;
const TOKENS_MAX = 100_000;
const RETRY_TOKENS_MAX = 50;

export type UnknownTokensOptions = {
  readonly fetch: (tokenIds: readonly string[]) => Promise<ReadonlyMap<string, Listing>>;
  /** Called with each listing that was found. */
  readonly onListing: (listing: Listing) => Promise<void>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly waitMs?: number;
};

/**
 * Tokens whose market neither calldata nor derivation reveals. Requests to the metadata API have a time limit,
 * because LEDGER waits meanwhile. An unknown token is abandoned after `waitMs` and not requested again for a
 * while. An outage of the service causes one wait, not one per token. The caller refuses matches of abandoned
 * tokens and keeps them raw; a market that appears later is reported.
 */
export class UnknownTokens {
  readonly #options: UnknownTokensOptions;
  readonly #waitMs: number;
  readonly #asking = new Map<string, Promise<Hash | undefined>>();
  /** Token → until when it is refused without a request (monotonic milliseconds). */
  readonly #givenUp = new Map<string, number>();
  /** Start of the current outage: none of these requests had a response since. */
  #unansweredSinceMs: number | undefined;
  #requests = 0;
  /** Number of tokens whose market appeared after their matches were refused. */
  foundLate = 0;

  constructor(options: UnknownTokensOptions) {
    this.#options = options;
    this.#waitMs = options.waitMs ?? WAIT_MS;
  }

  /** Number of tokens that were abandoned and are still unknown. */
  get givenUp(): number {
    return this.#givenUp.size;
  }

  /** Number of tokens with a pending request. */
  get waiting(): number {
    return this.#asking.size;
  }

  /** The market of a token; undefined if the service does not return it in time. Never rejects. */
  find(tokenId: string): Promise<Hash | undefined> {
    if (performance.now() < (this.#givenUp.get(tokenId) ?? 0)) return Promise.resolve(undefined);
    const asking = this.#asking.get(tokenId) ?? this.#ask(tokenId);
    this.#asking.set(tokenId, asking);
    return asking;
  }

  /** Retries some of the abandoned tokens, the oldest first. Throws GammaError. */
  async retry(): Promise<void> {
    const tokenIds = [...this.#givenUp.keys()].slice(0, RETRY_TOKENS_MAX);
    if (tokenIds.length === 0) return;
    const found = await this.#options.fetch(tokenIds);
    for (const listing of new Set(found.values())) await this.#options.onListing(listing);
    // Tokens that are still unknown go to the end of the queue.
    for (const tokenId of tokenIds) {
      const until = this.#givenUp.get(tokenId);
      if (until === undefined) continue;
      this.#givenUp.delete(tokenId);
      this.#givenUp.set(tokenId, until);
    }
  }

  /** Marks the tokens of a listing as known. */
  listed(listing: Listing): void {
    for (const tokenId of listing.tokenIds) {
      if (!this.#givenUp.delete(tokenId)) continue;
      this.foundLate += 1;
      const { conditionId } = listing;
      this.#options.logger.error(
        { tokenId, conditionId },
        'the market of refused matches is known now: a rebuild from their block adds them',
      );
    }
  }

  async #ask(tokenId: string): Promise<Hash | undefined> {
    const { signal } = this.#options;
    const startedAt = performance.now();
    try {
      for (let waitMs = RETRY_MIN_MS; ; waitMs = Math.min(waitMs * 2, RETRY_MAX_MS)) {
        const listing = await this.#attempt(tokenId);
        if (listing !== undefined) {
          await this.#options.onListing(listing);
          return listing.conditionId;
        }
        if (signal.aborted) return undefined;
        const waitedMs =
          performance.now() - Math.min(startedAt, this.#unansweredSinceMs ?? startedAt);
        if (waitedMs >= this.#waitMs) break;
        await delay(Math.min(waitMs, this.#waitMs - waitedMs), undefined, { signal });
      }
    } catch (error) {
      if (!signal.aborted) throw error;
      return undefined;
    } finally {
      this.#asking.delete(tokenId);
    }
    this.#giveUp(tokenId);
    return undefined;
  }

  /** One request, abandoned when the wait is over: the service's own pace may be slower. */
  async #attempt(tokenId: string): Promise<Listing | undefined> {
    const { fetch, signal } = this.#options;
    const begunAt = performance.now();
    const leftMs = this.#waitMs - (begunAt - (this.#unansweredSinceMs ?? begunAt));
    // If an outage has already caused a wait, one open request is enough to notice its end.
    if (leftMs <= 0 && this.#requests > 0) return undefined;
    this.#requests += 1;
    const answer = fetch([tokenId]).then(
      (found) => {
        this.#unansweredSinceMs = undefined;
        return found.get(tokenId);
      },
      (error: unknown) => {
        if (!(error instanceof GammaError) && !signal.aborted) throw error;
        this.#unansweredSinceMs ??= begunAt;
        return undefined;
      },
    );
    const answered = answer.finally(() => {
      this.#requests -= 1;
    });
    answered.catch(() => undefined);
    const timer = new AbortController();
    const late = delay(Math.max(leftMs, 0), undefined, { signal: timer.signal })
      .then(() => {
        this.#unansweredSinceMs ??= begunAt;
      })
      .catch(() => undefined);
    try {
      return (await Promise.race([answered, late])) ?? undefined;
    } finally {
      timer.abort();
    }
  }

  #giveUp(tokenId: string): void {
    this.#options.logger.error(
      { tokenId, waitedMs: this.#waitMs },
      'no market is known for a token: its matches are refused and kept raw',
    );
    this.#givenUp.delete(tokenId);
    const isOutage = this.#unansweredSinceMs !== undefined;
    // After an outage the token is requested again as soon as the service is back.
    this.#givenUp.set(tokenId, isOutage ? 0 : performance.now() + GIVEN_UP_MS);
    const oldest = this.#givenUp.keys().next();
    if (this.#givenUp.size > TOKENS_MAX && !oldest.done) this.#givenUp.delete(oldest.value);
  }
}
