/**
 * The metadata API (Gamma): markets by condition or token id, public profiles. Parses what it answers
 * into listings and profiles; fields that are not set become ''. Shapes: real answers in
 * test/fixtures/gamma-*.json.
 */
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Hash, Listing, Profile } from './contract.ts';

const REQUEST_MS_MAX = 10_000;
/** Condition ids in one request: keeps the URL below 8 KB. */
export const MARKETS_BATCH_MAX = 50;

const text = z
  .string()
  .nullish()
  .transform((value) => value ?? '');
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

const GammaMarket = z.object({
  id: z.string().regex(/^\d{1,19}$/),
  conditionId: z
    .string()
    .regex(/^0x[0-9a-fA-F]{64}$/)
    .transform((id) => id.toLowerCase() as Hash),
  question: text,
  slug: text,
  startDate: text,
  endDate: text,
  icon: text,
  negRisk: z.boolean().nullish(),
  outcomes: pair(z.string()),
  clobTokenIds: pair(z.string().regex(/^\d{1,78}$/)),
  groupItemTitle: text,
  sportsMarketType: text,
  events: z.array(z.object({ slug: text, title: text, icon: text, seriesSlug: text })).nullish(),
  tags: z.array(z.object({ slug: z.string() })).nullish(),
});

const GammaProfile = z.object({
  createdAt: text,
  name: text,
  profileImage: text,
  xUsername: text,
  takerTier: z.int().min(0).max(6).nullish(),
  takerTierName: text,
  weightedVolume: z.number().nullish(),
});

/** Thrown when the service cannot be asked or answers with an error status. */
export class GammaError extends Error {}

export type Gamma = {
  /** Listings of the conditions that the service knows, by condition id. */
  listings(conditionIds: readonly string[]): Promise<ReadonlyMap<string, Listing>>;
  /** The listing of the market that a token belongs to. */
  listingOfToken(tokenId: string): Promise<Listing | undefined>;
  profile(address: string): Promise<Profile | undefined>;
};

/** A market that cannot be parsed is logged and taken for unknown: its fills are never held back. */
export function connectGamma(url: string, logger: Logger): Gamma {
  const base = url.replace(/\/$/, '');
  const markets = async (name: string, ids: readonly string[]) => {
    const query = new URLSearchParams(ids.map((id): [string, string] => [name, id]));
    query.set('include_tag', 'true');
    query.set('limit', String(MARKETS_BATCH_MAX));
    const answer = await getJson(`${base}/markets?${query}`);
    return z
      .array(z.unknown())
      .parse(answer)
      .flatMap((market) => {
        try {
          return [parseListing(market)];
        } catch (error) {
          if (!(error instanceof z.ZodError)) throw error;
          logger.error({ market, err: error }, 'market metadata is malformed');
          return [];
        }
      });
  };
  return {
    async listings(conditionIds) {
      const listings = await markets('condition_ids', conditionIds);
      return new Map(listings.map((listing) => [listing.conditionId, listing]));
    },
    async listingOfToken(tokenId) {
      const listings = await markets('clob_token_ids', [tokenId]);
      return listings.find((listing) => listing.tokenIds.includes(tokenId));
    },
    async profile(address) {
      const answer = await getJson(`${base}/public-profile?address=${address}`);
      return answer === undefined ? undefined : parseProfile(address as Hash, answer);
    },
  };
}

/** A listing from a Gamma market. Throws ZodError where the ids are missing or malformed. */
export function parseListing(answer: unknown): Listing {
  const market = GammaMarket.parse(answer);
  const event = market.events?.[0];
  return {
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
    tags: (market.tags ?? []).map((tag) => tag.slug),
    outcomes: market.outcomes,
    tokenIds: market.clobTokenIds,
    groupItemTitle: market.groupItemTitle,
    sportsMarketType: market.sportsMarketType,
  };
}

/** A profile from a Gamma public profile. Throws ZodError where a field has another type. */
export function parseProfile(address: Hash, answer: unknown): Profile {
  const profile = GammaProfile.parse(answer);
  return {
    kind: 'profile',
    address,
    name: profile.name,
    profileImage: profile.profileImage,
    xUsername: profile.xUsername,
    createdAt: isoSecond(profile.createdAt),
    takerTier: profile.takerTier ?? 0,
    takerTierName: profile.takerTierName,
    weightedVolumeUsd: profile.weightedVolume ?? null,
  };
}

/** `YYYY-MM-DDTHH:MM:SSZ`; '' for '' and for what is no date. Rounds down to the second. */
function isoSecond(date: string): string {
  const milliseconds = Date.parse(date);
  if (Number.isNaN(milliseconds)) return '';
  return `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
}

async function getJson(url: string): Promise<unknown> {
  const response = await fetch(url, { signal: AbortSignal.timeout(REQUEST_MS_MAX) });
  if (response.status === 404) return undefined;
  if (!response.ok) throw new GammaError(`${new URL(url).pathname} answered ${response.status}`);
  return response.json();
}
