/**
 * Fills the memories with the newest markets when the api begins to follow LEDGER: those are asked for most, and the
 * first answers after a start are as fast as later ones.
 */

import { readListings, readResolutions } from './market-object.ts';
import { type Call, read } from './query.ts';
import { hexText, rowOf } from './rows.ts';

/** Markets of one statement: more would keep other requests waiting. */
const CHUNK = 200;

const NEWEST_SQL = `
SELECT condition_id
FROM markets FINAL
ORDER BY observed_at DESC
LIMIT {most:UInt32}`;

const NewestRow = rowOf({ condition_id: hexText });

/** Reads the newest so many markets. Throws Problem 503 where ClickHouse cannot answer. */
export async function warmUp(
  call: Pick<Call, 'clickhouse' | 'memories' | 'queryMsMax' | 'signal'>,
  most: number,
): Promise<void> {
  const { names } = call.memories;
  const newest = await read(call, { sql: NEWEST_SQL, parameters: { most }, row: NewestRow });
  const slugs = new Set<string>();
  for (let begin = 0; begin < newest.length; begin += CHUNK) {
    call.signal?.throwIfAborted();
    const conditions = newest.slice(begin, begin + CHUNK).map((row) => row.condition_id);
    const [listings] = await Promise.all([
      readListings(call, conditions),
      readResolutions(call, conditions),
    ]);
    for (const condition of conditions) {
      const listing = listings.get(condition);
      if (listing === undefined) continue;
      const { id, sequence, slug } = listing;
      names.keep(`id:${id}`, { conditionId: condition, sequence });
      // The newest market with a slug has it.
      if (!slugs.has(slug)) names.keep(`slug:${slug}`, { conditionId: condition, sequence });
      slugs.add(slug);
    }
  }
}
