/**
 * `GET /v1/traders/:address`: profile, tags and windows of one trader (specification 2.1, 2.6, 2.7).
 * Windows are exact to the second, [now − W, now], from the trader's own bookings in one pass.
 * Times have a space in place of T here, as the specification says of this endpoint.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse-reader.ts';
import { endpoint } from '../endpoint.ts';
import { address } from '../parameters.ts';
import { count, int, rowOf, seconds, texts } from './columns.ts';
import { readIdentity } from './identity.ts';
import { MARKET_TAGS } from './market-tags.ts';
import { SpacedProfileV1 } from './profiles.ts';
import { type Call, FEW_ROWS, read } from './query.ts';
import { TagV1, topTags, total, WindowV1, windowV1 } from './sums.ts';
import { isoSecond, spaced } from './wire.ts';

/** Members of `stats` and their length in seconds, shortest first: each holds those before it. */
const WINDOWS = {
  t_1h: 3_600,
  t_4h: 14_400,
  t_1d: 86_400,
  t_3d: 259_200,
  t_7d: 604_800,
  t_30d: 2_592_000,
} as const;
type Window = keyof typeof WINDOWS;
const NAMES = Object.keys(WINDOWS) as readonly Window[];
const TAGS_MAX = 20;

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
});

/**
 * One pass over the trader's bookings: a booking counts in the first window that it is in and in all
 * longer ones. Markets of equal tags are added up, so that few rows come back.
 */
const SQL = `
SELECT
  window,
  ${MARKET_TAGS} AS tags,
  sum(market_pnl) AS pnl,
  sum(market_cost) AS cost,
  sum(market_volume) - sum(market_taker_volume) AS makerVolume,
  sum(market_taker_volume) AS takerVolume,
  count() AS markets,
  countIf(market_pnl > 0) AS wins,
  max(market_newest) AS newest
FROM
(
  SELECT
    arrayJoin(range(toUInt8(arrayFirstIndex(
      length -> block_time >= toDateTime({now:UInt32} - length, 'UTC'),
      [${Object.values(WINDOWS).join(', ')}])), ${NAMES.length + 1})) AS window,
    condition_id,
    sum(realised_pnl) AS market_pnl,
    sum(realised_cost) AS market_cost,
    sumIf(usdc, kind = 'fill') AS market_volume,
    sumIf(usdc, is_taker) AS market_taker_volume,
    maxIf(toUnixTimestamp(block_time), kind = 'fill') AS market_newest
  FROM bookings
  WHERE trader = {trader:FixedString(20)}
    AND block_time >= toDateTime({now:UInt32} - ${WINDOWS.t_30d}, 'UTC')
    AND block_time <= toDateTime({now:UInt32}, 'UTC')
  GROUP BY window, condition_id
)
GROUP BY window, tags
${FEW_ROWS}`;

const Row = rowOf({
  /** 1 for the shortest. */
  window: count,
  tags: texts,
  pnl: int,
  cost: int,
  makerVolume: int,
  takerVolume: int,
  markets: count,
  wins: count,
  /** Fill; 0 where settlements are all. */
  newest: seconds,
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
      trader: new Bytes(given.address),
      now: Math.floor(call.now() / 1000),
    };
    const reading = read(call, { sql: SQL, parameters, row: Row });
    const identifying = readIdentity(call, given.address, reading);
    const [identity, all] = await Promise.all([identifying, reading]);
    const of = (name: Window) => all.filter(({ window }) => NAMES[window - 1] === name);
    const windowOf = (name: Window) => windowV1(total(of(name)));
    return {
      profile: {
        address: given.address,
        name: identity.name,
        profile_image: identity.profile_image,
        x_username: identity.x_username,
        profile_created_at: spaced(identity.profile_created_at),
        last_trade_at: spaced(isoSecond(identity.last_trade_at)),
      },
      top_tags: topTags(of('t_30d'), TAGS_MAX).map((sums) => ({
        slug: sums.tag,
        ...windowV1(sums),
      })),
      stats: {
        t_1h: windowOf('t_1h'),
        t_4h: windowOf('t_4h'),
        t_1d: windowOf('t_1d'),
        t_3d: windowOf('t_3d'),
        t_7d: windowOf('t_7d'),
        t_30d: windowOf('t_30d'),
      },
    };
  },
});
