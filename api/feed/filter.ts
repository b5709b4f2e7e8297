/**
 * Which matches a listener wants: lists combined with AND, the entries of one with OR, inclusive
 * bounds on the taker's order. Invariant: no float touches an amount. Lists hold lower-case text,
 * and so do the facts they are compared with. Pure.
 */
import type { FeedMatch, FeedRestored, FeedVoid } from '../../ingest/contract-feed.ts';

/** A rational, `numerator / denominator` with a denominator > 0. */
export type Fraction = { readonly numerator: bigint; readonly denominator: bigint };

export type Filter = {
  /** An empty set does not filter. */
  readonly traders: ReadonlySet<string>;
  readonly tags: ReadonlySet<string>;
  readonly series: ReadonlySet<string>;
  /** Micro-USDC and micro-shares of the taker's order; null = no bound. */
  readonly usdcMin: bigint | null;
  readonly usdcMax: bigint | null;
  readonly sharesMin: bigint | null;
  readonly sharesMax: bigint | null;
  /** Of the taker's price · 100, 0 … 100; exact, as a price need not be a whole micro-unit. */
  readonly priceMin: Fraction | null;
  readonly priceMax: Fraction | null;
};

/** The filter that every match passes. */
export const NO_FILTER: Filter = {
  traders: new Set(),
  tags: new Set(),
  series: new Set(),
  usdcMin: null,
  usdcMax: null,
  sharesMin: null,
  sharesMax: null,
  priceMin: null,
  priceMax: null,
};

/** What a filter looks at, taken from a match once. */
export type Facts = {
  /** Every participant, each once. */
  readonly traders: readonly string[];
  readonly tags: readonly string[];
  /** '' where the market is in no series. */
  readonly series: string;
  readonly usdc: bigint;
  readonly shares: bigint;
};

export function factsOf(match: FeedMatch): Facts {
  const addresses = [match.taker, ...match.makers].map((fill) => fill.trader.address);
  return {
    traders: [...new Set(addresses)],
    tags: tagsOf(match.market.tags),
    series: match.market.seriesSlug.toLowerCase(),
    usdc: match.taker.usdc,
    shares: match.taker.shares,
  };
}

/** Those of the match that it tells of, as they were when the match was shown. */
export function factsOfSequel(sequel: FeedVoid | FeedRestored): Facts {
  return {
    traders: sequel.traders,
    tags: tagsOf(sequel.tags),
    series: sequel.seriesSlug.toLowerCase(),
    usdc: sequel.usdc,
    shares: sequel.shares,
  };
}

/** A market's tags as filters see them: `sports` is traditional sports only (specification 4.3). */
function tagsOf(tags: readonly string[]): readonly string[] {
  const lower = tags.map((tag) => tag.toLowerCase());
  return lower.includes('esports') ? lower.filter((tag) => tag !== 'sports') : lower;
}

/** The entries of a list of tags that filter: `all` among them is no filter. */
export function effectiveTags(tags: readonly string[]): readonly string[] {
  return tags.includes('all') ? [] : tags;
}

/** True when every match passes. */
export function filtersNothing(filter: Filter): boolean {
  const { traders, tags, series, usdcMin, usdcMax, sharesMin, sharesMax } = filter;
  const isUnlisted = traders.size === 0 && tags.size === 0 && series.size === 0;
  const isUnboundedAmount =
    usdcMin === null && usdcMax === null && sharesMin === null && sharesMax === null;
  return isUnlisted && isUnboundedAmount && filter.priceMin === null && filter.priceMax === null;
}

/** True when the match passes every list and every bound. */
export function matches(filter: Filter, facts: Facts): boolean {
  return (
    (filter.traders.size === 0 || facts.traders.some((trader) => filter.traders.has(trader))) &&
    (filter.series.size === 0 || filter.series.has(facts.series)) &&
    (filter.tags.size === 0 || facts.tags.some((tag) => filter.tags.has(tag))) &&
    within(facts.usdc, filter.usdcMin, filter.usdcMax) &&
    within(facts.shares, filter.sharesMin, filter.sharesMax) &&
    (filter.priceMin === null || comparePrice(facts, filter.priceMin) >= 0n) &&
    (filter.priceMax === null || comparePrice(facts, filter.priceMax) <= 0n)
  );
}

function within(amount: bigint, min: bigint | null, max: bigint | null): boolean {
  return (min === null || amount >= min) && (max === null || amount <= max);
}

/**
 * The sign of price · 100 − bound, by cross multiplication: nothing is rounded. A fill of no shares
 * has no price: it compares as infinite, or as equal where it moved no money either.
 */
function comparePrice({ usdc, shares }: Facts, bound: Fraction): bigint {
  return usdc * 100n * bound.denominator - bound.numerator * shares;
}
