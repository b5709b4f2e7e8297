/**
 * Weighted volume (specification 2.9): Σ of a trader's taker fills of `usdc · (1 − price)` times the
 * weight of the market's category, bonuses 1. It decides the taker tier; the public profile's own
 * figure goes before ours, because bonuses are not public.
 *
 * A market has many tags and one weight: the least of the weights of its tags that name a category,
 * 1.7 ("other") where none does. So a market that is both politics and geopolitics counts 0.
 * Source of the weights: the exchange's published table (facts of the exchange).
 */
/** Weight in tenths of each tag that names a category. */
const WEIGHT_TENTHS: Readonly<Record<string, number>> = {
  geopolitics: 0,
  sports: 10,
  politics: 13,
  finance: 13,
  mentions: 13,
  'tweets-markets': 13,
  tech: 13,
  economy: 17,
  economics: 17,
  culture: 17,
  'pop-culture': 17,
  weather: 17,
  crypto: 23,
};
const OTHER_TENTHS = 17;

/**
 * Aggregate over rows of `bookings`: Σ usdc · (1 − price) of taker fills, micro-USDC. Rounds each
 * fill down; as price = usdc / shares, it is usdc · (shares − usdc) / shares.
 */
export const UNWEIGHTED = 'sumIf(intDivOrZero(toInt128(usdc) * (shares - usdc), shares), is_taker)';

/** Dollars of what the markets' fills come to unweighted; a double only at the end. */
export function weightedUsd(
  all: readonly { readonly tags: readonly string[]; readonly unweighted: bigint }[],
): number {
  const microTenths = all.reduce(
    (sum, { tags, unweighted }) => sum + unweighted * BigInt(weightTenths(tags)),
    0n,
  );
  return Number(microTenths) / 10_000_000;
}

/** Weight in tenths of a market with these tags. */
function weightTenths(tags: readonly string[]): number {
  const weights = tags.flatMap((tag) =>
    Object.hasOwn(WEIGHT_TENTHS, tag) ? WEIGHT_TENTHS[tag] : [],
  ) as number[];
  return weights.length === 0 ? OTHER_TENTHS : Math.min(...weights);
}
