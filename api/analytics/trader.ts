/**
 * `GET /v1/traders/:address`: profile, tags and windows of one trader (specification 2.1, 2.6, 2.7).
 * Windows are exact to the second, [now − W, now], from the trader's own bookings: one pass sums
 * each market by the shortest window that a booking is in, and longer windows add those up.
 * Times have a space in place of T here, as the specification says of this endpoint.
 */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { address, parseParameters } from '../parameters.ts';
import { Problem } from '../problems.ts';
import { COUNTED_TAGS } from './market-tags.ts';
import { type Analytics, read } from './query.ts';
import { Count, Int, isoSecond, percent, Seconds, spaced } from './wire.ts';

/** Members of `stats` and their length in seconds, shortest first. */
const WINDOWS = {
  t_1h: 3_600,
  t_4h: 14_400,
  t_1d: 86_400,
  t_3d: 259_200,
  t_7d: 604_800,
  t_30d: 2_592_000,
} as const;
const WINDOW_LENGTHS = `[${Object.values(WINDOWS).join(', ')}]`;
const TAGS_MAX = 20;

const Parameters = z.object({ address });

const SQL = `
SELECT
  toUnixTimestamp(activity.newest) AS last_trade_at,
  activity.fills AS fills,
  profile.*,
  own.sums AS sums
FROM
(
  SELECT groupArray((seconds, tag, pnl, cost, maker_volume, taker_volume, markets, wins)) AS sums
  FROM
  (
    SELECT
      seconds,
      -- The tag '' stands for all markets; tags are of the longest window only.
      arrayJoin(arrayConcat(
        [''], if(seconds = ${WINDOWS.t_30d}, ${COUNTED_TAGS}, []))) AS tag,
      sum(market_pnl) AS pnl,
      sum(market_cost) AS cost,
      sum(market_maker_volume) AS maker_volume,
      sum(market_taker_volume) AS taker_volume,
      count() AS markets,
      countIf(market_pnl > 0) AS wins
    FROM
    (
      SELECT
        arrayJoin(arrayFilter(length -> length >= shortest, ${WINDOW_LENGTHS})) AS seconds,
        condition_id,
        sum(part_pnl) AS market_pnl,
        sum(part_cost) AS market_cost,
        sum(part_maker_volume) AS market_maker_volume,
        sum(part_taker_volume) AS market_taker_volume
      FROM
      (
        SELECT
          condition_id,
          arrayFirst(length -> block_time >= toDateTime({now:UInt32} - length, 'UTC'),
            ${WINDOW_LENGTHS}) AS shortest,
          sum(realised_pnl) AS part_pnl,
          sum(realised_cost) AS part_cost,
          sumIf(usdc, kind = 'fill' AND NOT is_taker) AS part_maker_volume,
          sumIf(usdc, kind = 'fill' AND is_taker) AS part_taker_volume
        FROM bookings
        WHERE trader = unhex({trader:String})
          AND block_time >= toDateTime({now:UInt32} - ${WINDOWS.t_30d}, 'UTC')
          AND block_time <= toDateTime({now:UInt32}, 'UTC')
        GROUP BY condition_id, shortest
      )
      GROUP BY seconds, condition_id
    )
    GROUP BY seconds, tag
  )
) AS own
CROSS JOIN
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
    any(traders.profile_created_at) AS profile_created_at
  FROM traders FINAL
  WHERE trader = unhex({trader:String})
) AS profile`;

const Sums = z
  .tuple([z.int(), z.string(), Int, Int, Int, Int, Count, Count])
  .transform(([seconds, tag, pnl, cost, makerVolume, takerVolume, markets, wins]) => ({
    seconds,
    tag,
    pnl,
    cost,
    makerVolume,
    takerVolume,
    volume: makerVolume + takerVolume,
    markets,
    wins,
  }));
type Sums = z.output<typeof Sums>;

const Row = z.object({
  last_trade_at: Seconds,
  fills: Count,
  profiles: Count,
  name: z.string(),
  profile_image: z.string(),
  x_username: z.string(),
  profile_created_at: z.string(),
  sums: z.array(Sums),
});

export function traderProfile(analytics: Analytics): RequestHandler {
  return async (request, response) => {
    const given = parseParameters(Parameters, request);
    const parameters = {
      trader: given.address.slice(2),
      now: Math.floor(analytics.now() / 1000),
    };
    const [row] = await read(analytics, response, { sql: SQL, parameters, row: Row });
    if (row === undefined) throw new Error('one row of sums without a key expected, got none');
    if (row.fills === 0 && row.profiles === 0) {
      const detail = `no trade of ${given.address} was ever seen`;
      throw new Problem({ status: 404, error: 'not_found', detail });
    }
    response.json({
      profile: {
        address: given.address,
        name: row.name,
        profile_image: row.profile_image,
        x_username: row.x_username,
        profile_created_at: spaced(row.profile_created_at),
        last_trade_at: spaced(isoSecond(row.last_trade_at)),
      },
      top_tags: topTags(row.sums).map((sums) => ({ slug: sums.tag, ...statsObject(sums) })),
      stats: Object.fromEntries(
        Object.entries(WINDOWS).map(([name, seconds]) => [
          name,
          statsObject(row.sums.find((sums) => sums.seconds === seconds && sums.tag === '')),
        ]),
      ),
    });
  };
}

/** By PnL, then volume, then slug, so that equal inputs give equal lists. */
function topTags(all: readonly Sums[]): readonly Sums[] {
  return all
    .filter((sums) => sums.tag !== '')
    .sort((a, b) => compare(b.pnl, a.pnl) || compare(b.volume, a.volume) || compare(a.tag, b.tag))
    .slice(0, TAGS_MAX);
}

function compare<Value extends bigint | string>(a: Value, b: Value): number {
  if (a === b) return 0;
  return a < b ? -1 : 1;
}

/** The shape that windows and tags share; zeros where there was no booking. */
function statsObject(sums: Sums | undefined) {
  return {
    pnl: String(sums?.pnl ?? 0n),
    volume: String(sums?.volume ?? 0n),
    roi: percent(sums?.pnl ?? 0n, sums?.cost ?? 0n),
    win_rate: percent(BigInt(sums?.wins ?? 0), BigInt(sums?.markets ?? 0)),
    markets_count: sums?.markets ?? 0,
    wins_count: sums?.wins ?? 0,
    maker_volume: String(sums?.makerVolume ?? 0n),
    taker_volume: String(sums?.takerVolume ?? 0n),
  };
}
