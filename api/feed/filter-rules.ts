/**
 * The rules of the order feed's filters, without their parameters: the page applies them, too, where several of its tabs
 * share a stream. filters.ts adds the parameters.
 */
import type { AboutMatch } from '../../ingest/contract.ts';

/** What filters compare of a match, as it was when it was shown. */
export type Filtered = Omit<AboutMatch, 'matchId' | 'txHash' | 'detectedAtMs'>;
/** The taker's order, micro-USDC and micro-shares. */
type Amounts = Pick<Filtered, 'usdc' | 'shares'>;
/** A rational, `numerator / denominator` with a denominator > 0. */
export type Fraction = { readonly numerator: bigint; readonly denominator: bigint };
export type Test = (amounts: Amounts) => boolean;

/** Lists: the entries of a match, one of which must be in the list. Parameters and entries are in lower case. */
export const ENTRIES = {
  traders: ({ traders }: Filtered): readonly string[] => traders,
  tags: ({ tags }: Filtered) => tagsOf(tags),
  /** '' if the market is in no series. */
  series: ({ seriesSlug }: Filtered) => [seriesSlug.toLowerCase()],
  markets: ({ conditionId }: Filtered): readonly string[] => [conditionId],
} as const;
export type ListName = keyof typeof ENTRIES;

/** The tag that means no filter. */
export const ALL_TAGS = 'all';

/** A market's tags for filters: `sports` means traditional sports only. */
function tagsOf(tags: readonly string[]): readonly string[] {
  const lower = tags.map((tag) => tag.toLowerCase());
  return lower.includes('esports') ? lower.filter((tag) => tag !== 'sports') : lower;
}

const MICRO = 1_000_000n;

/** Inclusive bounds on the taker's order: the test of each bound. No amount becomes a float. */
export const TESTS = {
  min_usdc(bound: Fraction): Test {
    const least = microAtLeast(bound);
    return ({ usdc }) => usdc >= least;
  },
  max_usdc(bound: Fraction): Test {
    const most = microAtMost(bound);
    return ({ usdc }) => usdc <= most;
  },
  min_shares(bound: Fraction): Test {
    const least = microAtLeast(bound);
    return ({ shares }) => shares >= least;
  },
  max_shares(bound: Fraction): Test {
    const most = microAtMost(bound);
    return ({ shares }) => shares <= most;
  },
  min_price(bound: Fraction): Test {
    return (amounts) => reachesPrice(amounts, bound);
  },
  max_price(bound: Fraction): Test {
    return (amounts) => comparePrice(amounts, bound) <= 0n;
  },
} as const;
export type BoundName = keyof typeof TESTS;

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

/** Limits the size of computed numbers, far beyond any real amount. */
const EXPONENT_MAX = 40;
const DECIMAL = /^(\d{0,40})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?$/;

/** The exact value of a decimal such as `0.5`, `12` or `1e-05`; undefined if it is not one. */
export function parseDecimal(text: string): Fraction | undefined {
  const [, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const shift = Number(exponent) - fraction.length;
  if (whole + fraction === '' || Math.abs(Number(exponent)) > EXPONENT_MAX) return undefined;
  const digits = BigInt(whole + fraction);
  return shift >= 0
    ? { numerator: digits * 10n ** BigInt(shift), denominator: 1n }
    : { numerator: digits, denominator: 10n ** BigInt(-shift) };
}
