/** Finding a market by its number, condition id or slug, and what is known of it once it was found. */

import { Problem } from '../errors.ts';
import type { MarketKey } from '../parameters.ts';
import type { Call } from './call.ts';
import { type Resolution, unlisted } from './market-object.ts';
import type { Listing } from './metadata-cache.ts';

export type FoundMarket = {
  readonly conditionId: string;
  /** Under way; undefined where the catalogue does not know the market. */
  readonly listing: Promise<Listing | undefined>;
};

/**
 * Finds the market: by a condition id at once, its listing is read meanwhile. Throws Problem 404 where
 * no market has the number or the slug; a slug that was used again means the newest listing.
 */
export async function findMarket(call: Call, key: MarketKey): Promise<FoundMarket> {
  if (key.kind === 'condition') {
    const { conditionId } = key;
    const listing = call.metadata.listings([conditionId]).then((found) => found.get(conditionId));
    // Whoever awaits it gets the error, though another read may fail before.
    listing.catch(() => undefined);
    return { conditionId, listing };
  }
  const listing = await call.metadata.listing(key);
  if (listing === undefined) throw unknownMarket(key);
  return { conditionId: listing.condition_id, listing: Promise.resolve(listing) };
}

/** The listing of a market's number. Throws Problem 404 where no market has it. */
export async function findListing(call: Call, id: string): Promise<Listing> {
  const listing = await call.metadata.listing({ kind: 'id', id });
  if (listing === undefined) throw unknownMarket({ kind: 'id', id });
  return listing;
}

/**
 * The listing to show. Throws Problem 404 where nothing is known of the market: one that no listing
 * describes is known by its condition id once it was traded or resolved.
 */
export function knownListing(
  key: MarketKey,
  listing: Listing | undefined,
  known: { readonly traders: number; readonly resolution: Resolution | undefined },
): Listing {
  if (listing !== undefined) return listing;
  if (key.kind !== 'condition' || (known.traders === 0 && known.resolution === undefined)) {
    throw unknownMarket(key);
  }
  return unlisted(key.conditionId);
}

/** 404: no market has this number, condition id or slug. */
export function unknownMarket(key: MarketKey): Problem {
  const { kind, ...name } = key;
  const detail = `no market has the ${kind} ${Object.values(name).join('')}`;
  return new Problem({ status: 404, error: 'not_found', detail });
}
