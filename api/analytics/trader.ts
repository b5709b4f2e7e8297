/**
 * `GET /v1/traders/:address`: profile, tags and windows of one trader (specification 2.1, 2.6, 2.7).
 * Windows are exact to the second, [now − W, now], from the trader's own bookings: one pass sums
 * each market by the shortest window that a booking is in, and longer windows add those up.
 * Times have a space in place of T here, as the specification says of this endpoint.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { address } from '../parameters.ts';
import { readIdentity } from './identity.ts';
import { COUNTED_TAGS } from './market-tags.ts';
import { SpacedProfileV1 } from './profiles.ts';
import { type Call, read } from './query.ts';
import { TagV1, topTags, WindowV1, windowV1 } from './sums.ts';
import { Count, Int, isoSecond, spaced } from './wire.ts';

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

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
});

const SQL = `
SELECT
  seconds,
  -- The tag '' stands for all markets; tags are of the longest window only.
  arrayJoin(arrayConcat(
    [''], if(seconds = ${WINDOWS.t_30d}, ${COUNTED_TAGS}, []))) AS tag,
  sum(market_pnl) AS pnl,
  sum(market_cost) AS cost,
  sum(market_maker_volume) AS makerVolume,
  sum(market_taker_volume) AS takerVolume,
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
GROUP BY seconds, tag`;

const Row = z.object({
  seconds: z.int(),
  tag: z.string(),
  pnl: Int,
  cost: Int,
  makerVolume: Int,
  takerVolume: Int,
  markets: Count,
  wins: Count,
});

const Answer = z.object({
  profile: SpacedProfileV1,
  top_tags: z.array(TagV1),
  stats: z.object({
    t_1h: WindowV1.describe('the last hour'),
    t_4h: WindowV1.describe('the last 4 hours'),
    t_1d: WindowV1.describe('the last day'),
    t_3d: WindowV1.describe('the last 3 days'),
    t_7d: WindowV1.describe('the last 7 days'),
    t_30d: WindowV1.describe('the last 30 days'),
  }),
});

export const traderV1 = endpoint({
  path: '/v1/traders/:address',
  summary: 'One trader: profile, tags, six windows',
  description:
    'Windows end now and are exact to the second. `top_tags` are the at most 20 tags of the last 30 days, ranked by PnL, then volume.',
  parameters: Parameters,
  answer: Answer,
  problems: ['not_found'],
  async run(call: Call, given) {
    const parameters = {
      trader: given.address.slice(2),
      now: Math.floor(call.now() / 1000),
    };
    const [identity, all] = await Promise.all([
      readIdentity(call, given.address),
      read(call, { sql: SQL, parameters, row: Row }),
    ]);
    const windowOf = (seconds: number) =>
      windowV1(all.find((sums) => sums.seconds === seconds && sums.tag === ''));
    return {
      profile: {
        address: given.address,
        name: identity.name,
        profile_image: identity.profile_image,
        x_username: identity.x_username,
        profile_created_at: spaced(identity.profile_created_at),
        last_trade_at: spaced(isoSecond(identity.last_trade_at)),
      },
      top_tags: topTags(all, TAGS_MAX).map((sums) => ({
        slug: sums.tag,
        ...windowV1(sums),
      })),
      stats: {
        t_1h: windowOf(WINDOWS.t_1h),
        t_4h: windowOf(WINDOWS.t_4h),
        t_1d: windowOf(WINDOWS.t_1d),
        t_3d: windowOf(WINDOWS.t_3d),
        t_7d: windowOf(WINDOWS.t_7d),
        t_30d: windowOf(WINDOWS.t_30d),
      },
    };
  },
});
