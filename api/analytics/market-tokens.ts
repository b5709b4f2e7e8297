/**
 * Token ids of markets that the catalogue does not know, taken from their fills: a fill names the token
 * of its outcome. One read more, only where such a market is shown.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse-reader.ts';
import type { Listing } from './market-object.ts';
import { type Call, read } from './query.ts';
import { HexText } from './wire.ts';

/** Traders of a market whose fills are looked at: a match has both outcomes or is one of many. */
const TRADERS_MAX = 50;

const SQL = `
SELECT
  hex(condition_id) AS condition,
  anyIf(toString(token_id), outcome_index = 0) AS token_0,
  anyIf(toString(token_id), outcome_index = 1) AS token_1
FROM bookings
WHERE kind = 'fill' AND (trader, condition_id) IN
(
  SELECT trader, condition_id
  FROM market_traders
  WHERE fills > 0 AND condition_id IN {conditions:Array(FixedString(32))}
  LIMIT ${TRADERS_MAX} BY condition_id
)
GROUP BY condition_id`;

const Row = z.object({ condition: HexText, token_0: z.string(), token_1: z.string() });

/** Puts the token ids into those of the listings that stand for a market without one. */
export async function fillInTokens(call: Call, listings: readonly Listing[]): Promise<void> {
  const unknown = new Map(
    listings
      .filter((listing) => listing.token_ids.length === 0)
      .map((listing) => [listing.condition_id, listing]),
  );
  if (unknown.size === 0) return;
  const conditions = new Bytes([...unknown.keys()]);
  const rows = await read(call, { sql: SQL, parameters: { conditions }, row: Row });
  for (const row of rows) {
    const listing = unknown.get(row.condition);
    if (listing !== undefined) listing.token_ids = [row.token_0, row.token_1];
  }
}
