/**
 * What is known of one trader besides their trades: newest fill and public profile. Shared by the
 * trader endpoints of both versions, with the rule for an address that was never seen.
 */
import { z } from 'zod';
import { Problem } from '../problems.ts';
import { Count, Seconds } from './wire.ts';

/** Columns of `IDENTITY_FROM`. */
export const IDENTITY_COLUMNS = `
  toUnixTimestamp(activity.newest) AS last_trade_at,
  activity.fills AS fills,
  profile.*`;

/** Two one-row tables to cross join: the trader's activity and profile. */
export const IDENTITY_FROM = `
(
  SELECT max(last_trade_at) AS newest, sum(trader_activity.fills) AS fills
  FROM trader_activity
  WHERE trader = unhex({trader:String})
) AS activity
CROSS JOIN
(
  SELECT
    count() AS profiles,
    any(traders.name) AS name,
    any(traders.profile_image) AS profile_image,
    any(traders.x_username) AS x_username,
    any(traders.profile_created_at) AS profile_created_at,
    any(traders.taker_tier) AS taker_tier,
    any(traders.taker_tier_name) AS taker_tier_name,
    any(traders.weighted_volume_usd) AS weighted_volume_usd,
    any(traders.has_weighted_volume) AS has_weighted_volume
  FROM traders FINAL
  WHERE trader = unhex({trader:String})
) AS profile`;

/** The row members that IDENTITY_COLUMNS gives. */
export const IdentityColumns = {
  last_trade_at: Seconds,
  fills: Count,
  profiles: Count,
  name: z.string(),
  profile_image: z.string(),
  x_username: z.string(),
  profile_created_at: z.string(),
  taker_tier: z.int().min(0).max(6),
  taker_tier_name: z.string(),
  weighted_volume_usd: z.number(),
  has_weighted_volume: z.boolean(),
};

/** Throws Problem 404 for an address without any fill and without a public profile. */
export function requireSeen(
  address: string,
  row: { readonly fills: number; readonly profiles: number },
): void {
  if (row.fills > 0 || row.profiles > 0) return;
  const detail = `no trade of ${address} was ever seen`;
  throw new Problem({ status: 404, error: 'not_found', detail });
}
