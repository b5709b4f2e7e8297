/**
 * `GET /v1/markets/:id` (specification 2.11): the market, its totals over all traders and its top
 * earners. total_volume sums the traders' own fills, so both sides of a match count. Everything is
 * one statement: totals and earners come from one pass over the market's traders.
 */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { marketId, parseParameters } from '../parameters.ts';
import {
  CONDITION_OF_MARKET_ID,
  MARKET_COLUMNS,
  MarketColumns,
  marketObject,
  resolutionOf,
  unknownMarket,
} from './market-object.ts';
import { addressText, ProfileColumns, profileColumns, profileReader } from './profiles.ts';
import { type Analytics, read } from './query.ts';
import { Count, Int, percent } from './wire.ts';

const TOP_EARNERS_MAX = 20;

const Parameters = z.object({ id: marketId });

const SQL = `
WITH
  ${CONDITION_OF_MARKET_ID} AS condition,
  (
    SELECT
    (
      sum(volume),
      sumIf(pnl, pnl > 0),
      count(),
      countIf(pnl > 0),
      -- Sorted upwards: the greatest PnL, then volume, is the least negated one.
      groupArraySortedIf(${TOP_EARNERS_MAX})((-pnl, -volume, trader, cost), pnl > 0)
    )
    FROM
    (
      SELECT
        trader,
        sum(realised_pnl) AS pnl,
        sum(realised_cost) AS cost,
        sum(maker_volume) + sum(taker_volume) AS volume
      FROM market_traders
      WHERE condition_id = condition
      GROUP BY trader
    )
  ) AS totals
SELECT
  ${MARKET_COLUMNS},
  resolution.*,
  totals.1 AS total_volume,
  totals.2 AS total_pnl_distributed,
  totals.3 AS total_traders,
  totals.4 AS total_winners,
  arrayMap(e -> (${addressText('e.3')}, -e.1, -e.2, e.4), totals.5) AS earners,
  ${profileColumns('arrayMap(e -> e.3, totals.5)')}
FROM (SELECT * FROM markets FINAL WHERE condition_id = condition) AS market
CROSS JOIN (${resolutionOf('condition')}) AS resolution`;

const Row = z.object({
  ...MarketColumns,
  ...ProfileColumns,
  total_volume: Int,
  total_pnl_distributed: Int,
  total_traders: Count,
  total_winners: Count,
  /** Address, PnL, volume, cost. */
  earners: z.array(z.tuple([z.string(), Int, Int, Int])),
});

export function market(analytics: Analytics): RequestHandler {
  return async (request, response) => {
    const { id } = parseParameters(Parameters, request);
    const parameters = { market_id: id };
    const [row] = await read(analytics, response, { sql: SQL, parameters, row: Row });
    if (row === undefined) throw unknownMarket(id);
    const profileOf = profileReader(row);
    response.json({
      market: marketObject(row),
      total_volume: row.total_volume.toString(),
      total_pnl_distributed: row.total_pnl_distributed.toString(),
      total_traders: row.total_traders,
      top_earners: row.earners.map(([address, pnl, volume, cost], index) => ({
        profile: profileOf(address),
        pnl: pnl.toString(),
        volume: volume.toString(),
        roi: percent(pnl, cost),
        rank: index + 1,
      })),
      total_winners: row.total_winners,
    });
  };
}
