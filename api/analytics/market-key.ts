/**
 * Finding a market by its number, condition id or slug: the SQL of its condition id, and what is known of
 * it once its row was read.
 */
import type { MarketKey } from '../parameters.ts';
import { Problem } from '../problems.ts';
import { type Listing, type Resolution, unlisted } from './market-object.ts';

/** Condition id of the market whose number is the parameter `market_id`; NULL for no market. */
export const CONDITION_OF_MARKET_ID = `(
  SELECT condition_id
  FROM markets FINAL
  WHERE market_id = {market_id:UInt64} AND market_id != 0
  ORDER BY sequence DESC
  LIMIT 1
)`;

/** A slug that was used again means the newest listing. */
const CONDITION_OF_SLUG = `(
  SELECT condition_id
  FROM markets FINAL
  WHERE slug = {slug:String}
  ORDER BY sequence DESC
  LIMIT 1
)`;

/** SQL of the condition id with the values that it binds; NULL or an unknown one for no market. */
export function conditionOf(key: MarketKey): {
  readonly condition: string;
  readonly parameters: Readonly<Record<string, string>>;
} {
  switch (key.kind) {
    case 'id':
      return { condition: CONDITION_OF_MARKET_ID, parameters: { market_id: key.id } };
    case 'slug':
      return { condition: CONDITION_OF_SLUG, parameters: { slug: key.slug } };
    case 'condition':
      return {
        condition: 'toFixedString(unhex({condition_id:String}), 32)',
        parameters: { condition_id: key.conditionId.slice(2) },
      };
  }
}

/**
 * The market of a row that `marketColumns` is in. Throws Problem 404 where nothing is known of it: a
 * market that no listing describes is known by its condition id once it was traded or resolved.
 */
export function knownMarket(
  key: MarketKey,
  row: { readonly listings: readonly Listing[]; readonly resolutions: readonly Resolution[] },
  traders: number,
): { readonly listing: Listing; readonly resolution: Resolution | undefined } {
  const [listing] = row.listings;
  const [resolution] = row.resolutions;
  if (listing !== undefined) return { listing, resolution };
  if (key.kind !== 'condition' || (traders === 0 && resolution === undefined)) {
    throw unknownMarket(key);
  }
  return { listing: unlisted(key.conditionId), resolution };
}

/** 404: no market has this number, condition id or slug. */
export function unknownMarket(key: MarketKey): Problem {
  const { kind, ...name } = key;
  const detail = `no market has the ${kind} ${Object.values(name).join('')}`;
  return new Problem({ status: 404, error: 'not_found', detail });
}
