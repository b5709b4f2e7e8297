/**
 * The filters of the order feed, one row each: its parameter, and what it compares. Everything else walks through these
 * tables. An absent filter lets everything pass.
 */
import type { AboutMatch } from '../../ingest/contract.ts';
import { ADDRESS } from '../http/parameters.ts';
import {
  ADDRESSES_MAX,
  Addresses,
  Decimal,
  type Fraction,
  List,
  listed,
  MARKETS_MAX,
  Markets,
  Price,
} from './parameters.ts';

/** What filters compare of a match, as it was when it was shown. */
export type Filtered = Omit<AboutMatch, 'matchId' | 'txHash' | 'detectedAtMs'>;
/** The taker's order, micro-USDC and micro-shares. */
type Amounts = Pick<Filtered, 'usdc' | 'shares'>;

const SLUG = { type: 'string', minLength: 1 };

/**
 * Lists: `of` returns the entries of a match, one of which must be in the list. Parameters and entries are in lower case.
 */
export const LISTS = {
  traders: {
    of: ({ traders }: Filtered): readonly string[] => traders,
    parameter: listed(
      Addresses,
      `at most ${ADDRESSES_MAX} wallet addresses (a managed stream takes more); only matches that involve one of them`,
      { type: 'string', pattern: ADDRESS.source },
      ADDRESSES_MAX,
    ),
  },
  tags: {
    of: ({ tags }: Filtered) => tagsOf(tags),
    parameter: listed(List, 'tags of markets, in any letter case', SLUG),
  },
  series: {
    /** '' if the market is in no series. */
    of: ({ seriesSlug }: Filtered) => [seriesSlug.toLowerCase()],
    parameter: listed(List, 'series slugs, in any letter case', SLUG),
  },
  markets: {
    of: ({ conditionId }: Filtered): readonly string[] => [conditionId],
    parameter: listed(
      Markets,
      `at most ${MARKETS_MAX} markets by id, condition id or slug; an unknown market returns 404`,
      SLUG,
      MARKETS_MAX,
    ),
  },
} as const;
export type ListName = keyof typeof LISTS;

/** The lists, most selective first. */
export const BY_SELECTIVITY: readonly ListName[] = ['traders', 'markets', 'series', 'tags'];

/** A market's tags for filters: `sports` means traditional sports only. */
function tagsOf(tags: readonly string[]): readonly string[] {
  const lower = tags.map((tag) => tag.toLowerCase());
  return lower.includes('esports') ? lower.filter((tag) => tag !== 'sports') : lower;
}

const AMOUNT = { type: 'number', minimum: 0 };
const PERCENT = { ...AMOUNT, maximum: 100 };
const MICRO = 1_000_000n;

export type Test = (amounts: Amounts) => boolean;

/** Inclusive bounds on the taker's order: `test` makes the test of a bound. No amount becomes a float. */
export const BOUNDS = {
  min_usdc: {
    parameter: Decimal.meta({ ...AMOUNT, description: 'minimum value of the taker order, USDC' }),
    test(bound: Fraction): Test {
      const least = microAtLeast(bound);
      return ({ usdc }) => usdc >= least;
    },
  },
  max_usdc: {
    parameter: Decimal.meta({ ...AMOUNT, description: 'maximum value of the taker order, USDC' }),
    test(bound: Fraction): Test {
      const most = microAtMost(bound);
      return ({ usdc }) => usdc <= most;
    },
  },
  min_shares: {
    parameter: Decimal.meta({ ...AMOUNT, description: 'minimum shares of the taker order' }),
    test(bound: Fraction): Test {
      const least = microAtLeast(bound);
      return ({ shares }) => shares >= least;
    },
  },
  max_shares: {
    parameter: Decimal.meta({ ...AMOUNT, description: 'maximum shares of the taker order' }),
    test(bound: Fraction): Test {
      const most = microAtMost(bound);
      return ({ shares }) => shares <= most;
    },
  },
  min_price: {
    parameter: Price.meta({
      ...{ ...PERCENT, description: 'minimum execution price of the taker, 0 to 100' },
    }),
    test: (bound: Fraction): Test => {
      return (amounts) => reachesPrice(amounts, bound);
    },
  },
  max_price: {
    parameter: Price.meta({
      ...{ ...PERCENT, description: 'maximum execution price of the taker, 0 to 100' },
    }),
    test: (bound: Fraction): Test => {
      return (amounts) => comparePrice(amounts, bound) <= 0n;
    },
  },
} as const;
export type BoundName = keyof typeof BOUNDS;

// Rounds up: a whole number of micro-units reaches the bound exactly when it reaches the rounded bound.
function microAtLeast({ numerator, denominator }: Fraction): bigint {
  return (numerator * MICRO + denominator - 1n) / denominator;
}

// Rounds down, for the same reason.
function microAtMost({ numerator, denominator }: Fraction): bigint {
  return (numerator * MICRO) / denominator;
}

/**
 * A market buy at 66 cents spends floor(0.66 · shares) micro-USDC, so its quotient may lie just below its price: it
 * passes if the price at which it would have spent a micro-USDC more is above the bound.
 */
function reachesPrice({ usdc, shares }: Amounts, bound: Fraction): boolean {
  const more = { usdc: usdc + 1n, shares };
  return comparePrice({ usdc, shares }, bound) >= 0n || comparePrice(more, bound) > 0n;
}

/**
 * The sign of price · 100 − bound, a fraction, because a price need not be a whole micro-unit. Cross multiplication avoids
 * rounding. A fill of no shares has no price: it compares as infinite, or as equal if it moved no money either.
 */
function comparePrice({ usdc, shares }: Amounts, bound: Fraction): bigint {
  return usdc * 100n * bound.denominator - bound.numerator * shares;
}
