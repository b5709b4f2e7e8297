/**
 * Filters of listeners, and an index over them. Lists are combined with AND, the entries of one list
 * with OR. Bounds on the taker's order are inclusive. Invariant: no amount becomes a float. Lists and
 * the facts they are compared with are in lower case.
 */
import type { FeedMatch, FeedSequel } from '../../ingest/contract.ts';

/** A rational, `numerator / denominator` with a denominator > 0. */
export type Fraction = { readonly numerator: bigint; readonly denominator: bigint };

export type Filter = {
  /** An empty set does not filter. */
  readonly traders: ReadonlySet<string>;
  readonly tags: ReadonlySet<string>;
  readonly series: ReadonlySet<string>;
  /** Condition ids. */
  readonly markets: ReadonlySet<string>;
  /** Micro-USDC and micro-shares of the taker's order; null = no bound. */
  readonly usdcMin: bigint | null;
  readonly usdcMax: bigint | null;
  readonly sharesMin: bigint | null;
  readonly sharesMax: bigint | null;
  /** Bounds on the taker's price · 100, 0 … 100. They are fractions, because a price need not be a whole micro-unit. */
  readonly priceMin: Fraction | null;
  readonly priceMax: Fraction | null;
};

/** The filter that every match passes. */
export const NO_FILTER: Filter = {
  traders: new Set(),
  tags: new Set(),
  series: new Set(),
  markets: new Set(),
  usdcMin: null,
  usdcMax: null,
  sharesMin: null,
  sharesMax: null,
  priceMin: null,
  priceMax: null,
};

/** The fields of a match that filters compare; extracted once. */
export type Facts = {
  /** All participants, without duplicates. */
  readonly traders: readonly string[];
  readonly tags: readonly string[];
  /** '' if the market is in no series. */
  readonly series: string;
  readonly market: string;
  readonly usdc: bigint;
  readonly shares: bigint;
};

export function factsOf(match: FeedMatch): Facts {
  const addresses = [match.taker, ...match.makers].map((fill) => fill.trader.address);
  return {
    traders: [...new Set(addresses)],
    tags: tagsOf(match.market.tags),
    series: match.market.seriesSlug.toLowerCase(),
    market: match.conditionId,
    usdc: match.taker.usdc,
    shares: match.taker.shares,
  };
}

/** Facts of the match that a sequel refers to, as they were when the match was shown. */
export function factsOfSequel(sequel: FeedSequel): Facts {
  return {
    traders: sequel.traders,
    tags: tagsOf(sequel.tags),
    series: sequel.seriesSlug.toLowerCase(),
    market: sequel.conditionId,
    usdc: sequel.usdc,
    shares: sequel.shares,
  };
}

/** A market's tags for filters: `sports` means traditional sports only. */
function tagsOf(tags: readonly string[]): readonly string[] {
  const lower = tags.map((tag) => tag.toLowerCase());
  return lower.includes('esports') ? lower.filter((tag) => tag !== 'sports') : lower;
}

/** The tags to filter by: a list that contains `all` does not filter. */
export function effectiveTags(tags: readonly string[]): readonly string[] {
  return tags.includes('all') ? [] : tags;
}

/** Whether every match passes. */
export function filtersNothing(filter: Filter): boolean {
  const { traders, tags, series, markets, usdcMin, usdcMax, sharesMin, sharesMax } = filter;
  const isUnlisted = [traders, tags, series, markets].every(({ size }) => size === 0);
  const isUnboundedAmount =
    usdcMin === null && usdcMax === null && sharesMin === null && sharesMax === null;
  return isUnlisted && isUnboundedAmount && filter.priceMin === null && filter.priceMax === null;
}

/** Whether the match passes every list and every bound. */
export function matches(filter: Filter, facts: Facts): boolean {
  return (
    (filter.traders.size === 0 || facts.traders.some((trader) => filter.traders.has(trader))) &&
    (filter.markets.size === 0 || filter.markets.has(facts.market)) &&
    (filter.series.size === 0 || filter.series.has(facts.series)) &&
    (filter.tags.size === 0 || facts.tags.some((tag) => filter.tags.has(tag))) &&
    within(facts.usdc, filter.usdcMin, filter.usdcMax) &&
    within(facts.shares, filter.sharesMin, filter.sharesMax) &&
    (filter.priceMin === null || reachesPrice(facts, filter.priceMin)) &&
    (filter.priceMax === null || comparePrice(facts, filter.priceMax) <= 0n)
  );
}

function within(amount: bigint, min: bigint | null, max: bigint | null): boolean {
  return (min === null || amount >= min) && (max === null || amount <= max);
}

/**
 * A market buy at 66 cents spends floor(0.66 · shares) micro-USDC, so its quotient may lie just below its price: it
 * passes if the price at which it would have spent a micro-USDC more is above the bound.
 */
function reachesPrice({ usdc, shares }: Facts, bound: Fraction): boolean {
  const more = { usdc: usdc + 1n, shares };
  return comparePrice({ usdc, shares }, bound) >= 0n || comparePrice(more, bound) > 0n;
}

/**
 * The sign of price · 100 − bound. Cross multiplication avoids rounding. A fill of no shares has no price: it
 * compares as infinite, or as equal if it moved no money either.
 */
function comparePrice({ usdc, shares }: Pick<Facts, 'usdc' | 'shares'>, bound: Fraction): bigint {
  return usdc * 100n * bound.denominator - bound.numerator * shares;
}

/**
 * Finds the members whose filters may match an event, so that the cost of an event depends on its candidates instead of
 * all listeners. A member is filed under the entries of its most selective list: traders, then markets, series and tags.
 * Without lists it is a candidate for every event. Callers must check the whole filter, and may see a candidate twice.
 */
export class FilterIndex<Member extends { readonly filter: Filter }> {
  readonly #traders = new Map<string, Set<Member>>();
  readonly #markets = new Map<string, Set<Member>>();
  readonly #series = new Map<string, Set<Member>>();
  readonly #tags = new Map<string, Set<Member>>();
  readonly #all = new Set<Member>();

  add(member: Member): void {
    const { filed, entries } = this.#place(member.filter);
    if (filed === undefined) this.#all.add(member);
    for (const entry of entries) {
      const members = filed?.get(entry);
      if (members === undefined) filed?.set(entry, new Set([member]));
      else members.add(member);
    }
  }

  get isEmpty(): boolean {
    return [this.#traders, this.#markets, this.#series, this.#tags, this.#all].every(
      ({ size }) => size === 0,
    );
  }

  /** Removing during `forEachCandidate` is safe. */
  delete(member: Member): void {
    const { filed, entries } = this.#place(member.filter);
    if (filed === undefined) this.#all.delete(member);
    for (const entry of entries) {
      const members = filed?.get(entry);
      members?.delete(member);
      if (members?.size === 0) filed?.delete(entry);
    }
  }

  forEachCandidate(facts: Facts, visit: (member: Member) => void): void {
    for (const member of this.#all) visit(member);
    for (const member of this.#markets.get(facts.market) ?? []) visit(member);
    for (const member of this.#series.get(facts.series) ?? []) visit(member);
    for (const trader of facts.traders) {
      for (const member of this.#traders.get(trader) ?? []) visit(member);
    }
    for (const tag of facts.tags) {
      for (const member of this.#tags.get(tag) ?? []) visit(member);
    }
  }

  #place(filter: Filter): {
    filed: Map<string, Set<Member>> | undefined;
    entries: ReadonlySet<string>;
  } {
    if (filter.traders.size > 0) return { filed: this.#traders, entries: filter.traders };
    if (filter.markets.size > 0) return { filed: this.#markets, entries: filter.markets };
    if (filter.series.size > 0) return { filed: this.#series, entries: filter.series };
    return { filed: filter.tags.size > 0 ? this.#tags : undefined, entries: filter.tags };
  }
}
