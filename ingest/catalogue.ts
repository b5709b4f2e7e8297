/**
 * What ingest knows about markets and traders: listings, profiles, resolutions, and which outcome a
 * token stands for. Learned from the metadata API and the chain; every change goes to LEDGER through
 * `onChange`. It never holds back a fill: what is unknown is empty.
 */

import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { Nats } from '../infra/nats.ts';
import { readRange } from '../infra/nats-read.ts';
import type { Chain } from './chains.ts';
import {
  decodeLedgerEvent,
  type FeedMatch,
  type FeedTrader,
  type Hash,
  LEDGER_STREAM,
  type Listing,
  type Profile,
  winningOutcome,
} from './contract.ts';
import { type Gamma, MARKETS_BATCH_MAX } from './gamma.ts';
import { Lookup } from './lookup.ts';
import { positionIds } from './token-ids.ts';

const READ_MESSAGES = 10_000;
const TOKEN_PAIRS_MAX = 200_000;
const MARKET_STALE_MS = 600_000;
const PROFILE_STALE_MS = 3_600_000;
const MARKET_MISSING_MS = 15_000;
const PROFILE_MISSING_MS = 600_000;
const PROFILES_CONCURRENT_MAX = 16;

type KnownResolution = { readonly payouts: readonly [bigint, bigint]; readonly resolvedAt: string };

export type CatalogueOptions = {
  readonly chain: Chain;
  readonly gamma: Gamma;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onChange: (event: Listing | Profile) => void;
};

export class Catalogue {
  readonly #chain: Chain;
  readonly #gamma: Gamma;
  readonly #logger: Logger;
  readonly #listings: Lookup<Listing>;
  readonly #profiles: Lookup<Profile>;
  readonly #resolutions = new Map<string, KnownResolution>();
  readonly #tokenPairs = new Map<string, readonly [string, string]>();

  constructor({ chain, gamma, logger, signal, onChange }: CatalogueOptions) {
    this.#chain = chain;
    this.#gamma = gamma;
    this.#logger = logger;
    const change = (_key: string, event: Listing | Profile) => onChange(event);
    this.#listings = new Lookup<Listing>({
      name: 'markets',
      batchMax: MARKETS_BATCH_MAX,
      concurrentMax: 4,
      missingMs: MARKET_MISSING_MS,
      staleMs: MARKET_STALE_MS,
      fetch: (keys) => gamma.listings(keys),
      onChange: change,
      logger,
      signal,
    });
    this.#profiles = new Lookup<Profile>({
      name: 'profiles',
      batchMax: 1,
      concurrentMax: PROFILES_CONCURRENT_MAX,
      missingMs: PROFILE_MISSING_MS,
      staleMs: PROFILE_STALE_MS,
      fetch: async ([address = '']) => {
        const profile = await gamma.profile(address);
        return new Map(profile === undefined ? [] : [[address, profile]]);
      },
      onChange: change,
      logger,
      signal,
    });
  }

  /** Puts back what LEDGER already holds, so that a restart neither asks nor publishes it again. */
  async restore(nats: Nats): Promise<void> {
    for (const kind of ['listing', 'profile', 'resolution']) {
      for await (const event of ledgerEvents(nats, `ledger.*.${kind}`)) {
        if (event.kind === 'listing') this.#listings.restore(event.conditionId, event);
        if (event.kind === 'profile') this.#profiles.restore(event.address, event);
        if (event.kind === 'resolution') {
          this.resolve(event.conditionId, event.payouts, event.blockTime);
        }
      }
    }
  }

  /** Remembers a resolution for the feed's market objects. `blockTime` in seconds. */
  resolve(conditionId: string, payouts: readonly [bigint, bigint], blockTime: number): void {
    if (this.#resolutions.has(conditionId)) return;
    const resolvedAt = `${new Date(blockTime * 1_000).toISOString().slice(0, 19)}Z`;
    this.#resolutions.set(conditionId, { payouts, resolvedAt });
  }

  /**
   * Which outcome of the condition the token is: derived from the condition id, or from metadata.
   * Undefined where neither knows.
   */
  outcomeOf(conditionId: string, tokenId: string, exchange: string): 0 | 1 | undefined {
    return (
      indexIn(this.#derivedTokens(conditionId, exchange), tokenId) ??
      indexIn(this.#listings.get(conditionId)?.tokenIds, tokenId)
    );
  }

  /** The market of a token, from the metadata API: for matches whose calldata is not readable. */
  async conditionOfToken(tokenId: string): Promise<Hash | undefined> {
    let listing: Listing | undefined;
    try {
      listing = await this.#gamma.listingOfToken(tokenId);
    } catch (error) {
      // The ledger does not wait for metadata: the match is refused and kept raw.
      this.#logger.error({ tokenId, err: error }, 'no metadata for a token without a market');
    }
    if (listing !== undefined) this.#listings.restore(listing.conditionId, listing);
    return listing?.conditionId;
  }

  /** Starts to learn what is not known of these; resolves when it is, or after `waitMs`. */
  async learn(conditionId: string, traders: Iterable<string>, waitMs: number): Promise<void> {
    await Promise.all([
      this.#listings.settled([conditionId], waitMs),
      this.#profiles.settled(traders, waitMs),
    ]);
  }

  /** The market object of a feed message; empty texts where the catalogue knows nothing. */
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
      tokenIds: [...this.#derivedTokens(conditionId, exchange)],
      groupItemTitle: '',
      sportsMarketType: '',
    };
  }

  #derivedTokens(conditionId: string, exchange: string): readonly [string, string] {
    const key = `${exchange}:${conditionId}`;
    const known = this.#tokenPairs.get(key);
    if (known !== undefined) return known;
    const collateral = this.#chain.exchanges.get(exchange) ?? this.#chain.collateral;
    const [first, second] = positionIds(collateral, conditionId as Hex);
    const pair = [first.toString(), second.toString()] as const;
    const oldest = this.#tokenPairs.keys().next();
    if (this.#tokenPairs.size >= TOKEN_PAIRS_MAX && !oldest.done) {
      this.#tokenPairs.delete(oldest.value);
    }
    this.#tokenPairs.set(key, pair);
    return pair;
  }
}

async function* ledgerEvents(nats: Nats, subject: string) {
  for (let next = 1; ; ) {
    const messages = await readRange(nats, LEDGER_STREAM, next, READ_MESSAGES, subject);
    for (const message of messages) yield decodeLedgerEvent(message.data);
    const last = messages.at(-1);
    if (last === undefined) return;
    next = last.sequence + 1;
  }
}

function indexIn(pair: readonly [string, string] | undefined, tokenId: string): 0 | 1 | undefined {
  if (pair?.[0] === tokenId) return 0;
  if (pair?.[1] === tokenId) return 1;
  return undefined;
}
