/**
 * What the metadata API answers, parsed into listings and profiles. Fields that are not set become '';
 * a market without a condition or tokens is not tradable yet and gives nothing. What is returned here
 * fits the contract for certain, because a message that does not would stop its readers. Shapes: real
 * answers in test/fixtures/gamma-*.json.
 */
import { z } from 'zod';
import type { Hash } from './contract.ts';
import { Listing, Profile } from './contract-metadata.ts';

/** Longer texts are cut: the real ones are below 1,000 characters, a message holds 1 MB. */
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
  // A tier that we have no name for is shown as none, like that of a wallet without a profile.
  takerTier: z.int().min(0).max(6).nullish().catch(null),
  takerTierName: text,
  weightedVolume: z.number().nonnegative().nullish().catch(null),
});

export type ParsedMarket = { readonly listing: Listing; readonly eventId: string };

/** Tags and series of an event, for its markets that carry none themselves. */
export type ParsedEvent = {
  readonly id: string;
  readonly tags: readonly string[];
  readonly seriesSlug: string;
};

/** A market that has no condition or no tokens yet cannot have been traded. */
export function isTradable(answer: unknown): boolean {
  // What is no object at all is for the parser to refuse and to count.
  if (typeof answer !== 'object' || answer === null) return true;
  const { conditionId, clobTokenIds } = answer as Readonly<Record<string, unknown>>;
  return Boolean(conditionId) && Boolean(clobTokenIds) && clobTokenIds !== '[]';
}

/** A listing from a Gamma market. Throws ZodError where the ids are missing or malformed. */
export function parseListing(answer: unknown): Listing {
  return parseMarket(answer).listing;
}

/** A listing and the id of its event. Throws ZodError where the ids are missing or malformed. */
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

/** Tags and series of a Gamma event. Throws ZodError where it has another shape. */
export function parseEvent(answer: unknown): ParsedEvent {
  const event = GammaEvent.parse(answer);
  return {
    id: event.id,
    tags: event.tags,
    seriesSlug: event.seriesSlug || (event.series[0] ?? ''),
  };
}

/** A profile from a Gamma public profile. Throws ZodError where a field has another type. */
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

/** The wallet that an answer of a batch is about; '' where it names none. */
export function walletOf(answer: unknown): string {
  const parsed = GammaProfile.pick({ proxyWallet: true }).safeParse(answer);
  return parsed.success ? parsed.data.proxyWallet.toLowerCase() : '';
}

/** `YYYY-MM-DDTHH:MM:SSZ`; '' for what is no date of these four digits. Rounds down to the second. */
function isoSecond(date: string): string {
  const milliseconds = Date.parse(date);
  if (Number.isNaN(milliseconds)) return '';
  const iso = `${new Date(milliseconds).toISOString().slice(0, 19)}Z`;
  return /^\d{4}-/.test(iso) ? iso : '';
}
