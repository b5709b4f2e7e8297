/**
 * Token ids of markets that the catalogue does not know, taken from their fills: a fill names the token
 * of its outcome. One read more, only where such a market is shown.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import type { Call } from './call.ts';
import type { Listing } from './metadata-cache.ts';
import { read } from './query.ts';
import { hexText, rowOf, string } from './rows.ts';

/** Traders of a market whose fills are looked at: a match has both outcomes or is one of many. */
const TRADERS_MAX = 50;

const Row = rowOf({
  condition: hexText('condition_id'),
  token_0: string('anyIf(toString(token_id), outcome_index = 0)'),
  token_1: string('anyIf(toString(token_id), outcome_index = 1)'),
});

const SQL = `
SELECT ${Row.columns}
FROM bookings
WHERE kind = 'fill' AND (trader, condition_id) IN
(
  SELECT trader, condition_id
  FROM market_traders
  WHERE fills > 0 AND condition_id IN {conditions:Array(FixedString(32))}
  LIMIT ${TRADERS_MAX} BY condition_id
)
GROUP BY condition_id`;

/** The listings, those without token ids with the ids that were traded. */
export async function withTokens(
  call: Call,
  listings: readonly Listing[],
): Promise<readonly Listing[]> {
  const unknown = listings.filter((listing) => listing.token_ids.length === 0);
  if (unknown.length === 0) return listings;
  const conditions = new Bytes(unknown.map((listing) => listing.condition_id));
  const rows = await read(call, { sql: SQL, parameters: { conditions }, row: Row });
  const traded = new Map(rows.map((row) => [row.condition, [row.token_0, row.token_1]]));
  return listings.map((listing) => {
    const token_ids = traded.get(listing.condition_id);
    return token_ids === undefined ? listing : { ...listing, token_ids };
  });
}
