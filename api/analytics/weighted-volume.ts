/**
 * Weighted volume (specification 2.9): Σ of a trader's taker fills of `usdc · (1 − price)` times the
 * weight of the market's category, bonuses 1. It decides the taker tier; the public profile's own
 * figure goes before ours, because bonuses are not public.
 *
 * A market has many tags and one weight: the least of the weights of its tags that name a category,
 * 1.7 ("other") where none does. So a market that is both politics and geopolitics counts 0.
 * Source of the weights: the exchange's published table (facts of the exchange).
 */
import { MARKET_TAGS } from './market-tags.ts';

/** Weight in tenths of each tag that names a category. */
const WEIGHT_TENTHS = {
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
} as const;
const OTHER_TENTHS = 17;
/** Above every weight: marks a tag that names no category. */
const NONE = 255;

const TAG_LIST = Object.keys(WEIGHT_TENTHS)
  .map((tag) => `'${tag}'`)
  .join(', ');
const LEAST = `arrayMin(arrayPushBack(arrayMap(
  tag -> transform(tag, [${TAG_LIST}], [${Object.values(WEIGHT_TENTHS).join(', ')}], ${NONE}),
  ${MARKET_TAGS}), ${NONE}))`;

/** Weight in tenths of the market in the column `condition_id`. */
export const MARKET_WEIGHT_TENTHS = `transform(${LEAST}, [${NONE}], [${OTHER_TENTHS}])`;

/**
 * Aggregate over rows of `bookings`: Σ usdc · (1 − price) of taker fills, micro-USDC. Rounds each
 * fill down; as price = usdc / shares, it is usdc · (shares − usdc) / shares.
 */
export const UNWEIGHTED = `sumIf(
  intDivOrZero(toInt128(usdc) * (toInt128(shares) - toInt128(usdc)), toInt128(shares)),
  kind = 'fill' AND is_taker)`;

/** Dollars of a sum of micro-USDC times tenths: the only rounding to a double, at the end. */
export function weightedUsd(microTenths: bigint): number {
  return Number(microTenths) / 10_000_000;
}
