/** Finding a market by its number, condition id or slug, and what is known of it once it was found. */
import type { MarketKey } from '../parameters.ts';
import { Problem } from '../problems.ts';
import { hexText, int, rowOf, texts } from './columns.ts';
import {
  type Listing,
  type Resolution,
  readListing,
  readListings,
  unlisted,
} from './market-object.ts';
import { type Call, FEW_ROWS, newestOf, read } from './query.ts';

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
    const listing = readListings(call, [conditionId]).then((found) => found.get(conditionId));
    // Whoever awaits it gets the error, though another read may fail before.
    listing.catch(() => undefined);
    return { conditionId, listing };
  }
  const listing = await readListing(call, key);
  if (listing === undefined) throw unknownMarket(key);
  return { conditionId: listing.condition_id, listing: Promise.resolve(listing) };
}

/** What fills are shown with. Throws Problem 404 where no market has the number. */
export async function findOutcomes(call: Call, id: string) {
  const select = { sql: OUTCOMES_SQL, parameters: { id }, row: OutcomesRow };
  const market = newestOf(await read(call, select));
  if (market === undefined) throw unknownMarket({ kind: 'id', id });
  return { conditionId: market.condition, outcomes: market.outcomes };
}

/** As few columns as fills need: a market keeps its number, so that the newest row says all. */
const OUTCOMES_SQL = `
SELECT hex(condition_id) AS condition, outcomes, sequence
FROM markets
WHERE market_id = {id:UInt64} AND market_id != 0
${FEW_ROWS}`;

const OutcomesRow = rowOf({ condition: hexText, outcomes: texts, sequence: int });

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
