/**
 * What the analytics cover, for `/v2/status`: whether sampled balances of shares on the chain equal what was booked, and what
 * ingest could not explain. Each figure is of a small table or a short range of an index; they are read every 10 seconds at most.
 */
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Select } from '../../infra/clickhouse.ts';
import { QUERY_MS_MAX, read } from '../analytics/query.ts';
import { rowOf, count as rows, typed } from '../analytics/rows.ts';
import { count as counted } from '../analytics/schemas.ts';

const READ_AGE_MS_MAX = 10_000;

export const Coverage = z.object({
  movements_from_block: z
    .int()
    .min(0)
    .nullable()
    .meta({
      description:
        'block from which on all movements of shares were read; null if they are not read, or before the first comparison',
      examples: [85_670_000],
    }),
  balances: z
    .object({
      equal: counted('equal what was booked'),
      less: counted('less was booked, as for shares from before the first block'),
      more: counted('more was booked, which is always a defect'),
      newest_block: counted('block of the newest comparison; 0 if there is none'),
    })
    .meta({
      description:
        'balances of shares on the chain, for a sample of traders and markets, by the comparisons of the last day',
    }),
  unexplained_movements: counted('movements of shares that nothing on the chain explains'),
  refused: z
    .array(
      z.object({
        reason: z
          .string()
          .meta({ description: 'why ingest refused the log', examples: ['unknown_operator'] }),
        logs: counted('number of such logs'),
        newest_block: counted('block of the newest one'),
      }),
    )
    .meta({
      description: 'logs that could not be decoded, or that a person has to look at, by reason',
    }),
});
export type Coverage = z.output<typeof Coverage>;

const number = z.coerce.number<string>().int();

const Row = rowOf({
  balances: typed(
    `(SELECT [countIf(result = 'equal'), countIf(result = 'less'), countIf(result = 'more'),
        maxIf(block_number, result != 'waiting'), argMax(covered_from, block_number)]
      FROM share_balances WHERE observed_at > now() - INTERVAL 1 DAY)`,
    z.array(number),
  ),
  unexplained: rows(
    `(SELECT uniqExact(block_number, log_index, part) FROM movements
      WHERE reason = 'unexplained' AND kind = 'movement')`,
  ),
  refused: typed(
    `(SELECT groupArray((name, toString(logs), toString(newest))) FROM (
        SELECT toString(reason) AS name, count() AS logs, max(block_number) AS newest
        FROM refused_events FINAL GROUP BY name ORDER BY name))`,
    z.array(z.tuple([z.string(), number, number])),
  ),
});

/** Reads all but `movements_from_block`, which is null unless movements are read now. */
export function createCoverage(select: Select): (movementsRead: boolean) => Promise<Coverage> {
  const cache = new LRUCache<'coverage', Coverage>({
    max: 1,
    ttl: READ_AGE_MS_MAX,
    fetchMethod: () => readCoverage(select),
  });
  return async (movementsRead) => {
    const coverage = await cache.forceFetch('coverage');
    return movementsRead ? coverage : { ...coverage, movements_from_block: null };
  };
}

async function readCoverage(select: Select): Promise<Coverage> {
  const statement = { sql: `SELECT ${Row.columns}`, parameters: {}, row: Row };
  const [row] = await read({ select, queryMsMax: QUERY_MS_MAX, signal: null }, statement);
  if (row === undefined) throw new Error('one row of the coverage expected, got none');
  const [equal = 0, less = 0, more = 0, newest = 0, coveredFrom = 0] = row.balances;
  return {
    movements_from_block: newest === 0 ? null : coveredFrom,
    balances: { equal, less, more, newest_block: newest },
    unexplained_movements: row.unexplained,
    refused: row.refused.map(([reason, logs, newest_block]) => ({ reason, logs, newest_block })),
  };
}
