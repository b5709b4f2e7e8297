/**
 * `GET /v1/traders/:address/hourly_stats` (specification 2.8): sums of each hour with activity,
 * newest first: the 30 days up to `to` (now) unless `from` says otherwise. Both bound the start of
 * the hour, inclusively. Amounts are micro-USDC.
 */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { address, instant, integer, parseParameters, tagSlug } from '../parameters.ts';
import { ALL_TAGS, HAS_TAG } from './market-tags.ts';
import { type Analytics, read } from './query.ts';
import { Count, hourText, Int, Seconds } from './wire.ts';

const DEFAULT_RANGE_SECONDS = 30 * 86_400;
/** More hours than the exchange is old. */
const HOURS_MAX = 100_000;

const Parameters = z.object({
  address,
  tag: tagSlug.default(ALL_TAGS),
  from: instant.optional(),
  to: instant.optional(),
  limit: integer(1, HOURS_MAX).default(HOURS_MAX),
});

/** A market counts in an hour by a fill or a settlement; it is won by a settlement with a gain. */
const SQL = (filter: string) => `
SELECT
  toUnixTimestamp(hour) AS hour,
  sum(market_pnl) AS pnl,
  count() AS market_count,
  countIf(market_settlements > 0 AND market_pnl > 0) AS win_count,
  sum(market_maker_volume) AS maker_volume,
  sum(market_taker_volume) AS taker_volume
FROM
(
  SELECT
    trader_hours.hour AS hour,
    condition_id,
    sum(realised_pnl) AS market_pnl,
    sum(settlements) AS market_settlements,
    sum(maker_volume) AS market_maker_volume,
    sum(taker_volume) AS market_taker_volume
  FROM trader_hours
  WHERE trader = unhex({trader:String})
    AND trader_hours.hour >= toDateTime({from:UInt32}, 'UTC')
    AND trader_hours.hour <= toDateTime({to:UInt32}, 'UTC')
    ${filter}
  GROUP BY hour, condition_id
)
GROUP BY hour
ORDER BY hour DESC
LIMIT {limit:UInt32}`;

const Row = z.object({
  hour: Seconds,
  pnl: Int,
  market_count: Count,
  win_count: Count,
  maker_volume: Int,
  taker_volume: Int,
});

export function hourlyStats(analytics: Analytics): RequestHandler {
  return async (request, response) => {
    const given = parseParameters(Parameters, request);
    const to = given.to ?? Math.floor(analytics.now() / 1000);
    const parameters = {
      trader: given.address.slice(2),
      tag: given.tag,
      from: given.from ?? Math.max(0, to - DEFAULT_RANGE_SECONDS),
      to,
      limit: given.limit,
    };
    const sql = SQL(given.tag === ALL_TAGS ? '' : `AND ${HAS_TAG}`);
    const rows = await read(analytics, response, { sql, parameters, row: Row });
    response.json({ stats: rows.map(hourObject) });
  };
}

function hourObject(row: z.output<typeof Row>) {
  return {
    hour: hourText(row.hour),
    pnl: row.pnl.toString(),
    market_count: row.market_count,
    win_count: row.win_count,
    taker_volume: row.taker_volume.toString(),
    maker_volume: row.maker_volume.toString(),
    volume: (row.maker_volume + row.taker_volume).toString(),
  };
}
