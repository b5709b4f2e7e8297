/**
 * `GET /v2/markets/:id/prices`: the price of a market's first outcome over time. Each match counts once, with the fill of
 * its taker. A fill of the second outcome at p counts as one of the first at 1 − p. There are at most 500 equal intervals
 * from the first fill to the last.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { integer, marketKey } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { findMarket, unknownMarket } from './market-object.ts';
import { markPrice } from './marks.ts';
import { read } from './query.ts';
import { count, int, rowOf, seconds } from './rows.ts';
import { amount, sharePrice, time } from './schemas.ts';

const POINTS_MAX = 500;
const INTERVAL_SECONDS_MIN = 5;

const FILLS = `
FROM matches FINAL
WHERE condition_id = {condition_id:FixedString(32)}
  AND shares > 0`;

const SpanRow = rowOf({
  fills: count('count()'),
  first: seconds('min(block_time)'),
  last: seconds('max(block_time)'),
});

const SPAN_SQL = `
SELECT ${SpanRow.columns}
${FILLS}`;

const AT = `{first:UInt32}
    + intDiv(toUnixTimestamp(block_time) - {first:UInt32}, {width:UInt32}) * {width:UInt32}`;
const FIRST_USDC = 'if(outcome_index = 0, usdc, shares - usdc)';

/** Start of the interval; value and shares of all fills and of the last fill, in terms of the first outcome. */
const IntervalRow = rowOf({
  at: count(AT),
  total_usdc: int(`sum(${FIRST_USDC})`),
  total_shares: int('sum(shares)'),
  last_usdc: int(`argMax(${FIRST_USDC}, (block_number, log_index))`),
  last_shares: int('argMax(shares, (block_number, log_index))'),
});

const INTERVALS_SQL = `
SELECT ${IntervalRow.columns}
${FILLS}
  -- Excludes fills that arrived after the span was read.
  AND block_time <= toDateTime({last:UInt32}, 'UTC')
GROUP BY ${AT}
ORDER BY ${AT}`;

export const pricesV2 = endpoint({
  name: 'marketPrices',
  path: '/v2/markets/:id/prices',
  summary: 'Price history of one market',
  description:
    'Prices of the first outcome; the price of the second is 1,000,000 minus that. Intervals without a match are omitted.',
  parameters: z.object({
    id: marketKey.describe('market id, condition id or slug'),
    points: integer(1, POINTS_MAX).default(POINTS_MAX).describe('maximum number of intervals'),
  }),
  answer: z.object({
    interval_seconds: z
      .int()
      .min(INTERVAL_SECONDS_MIN)
      .meta({ description: 'length of an interval, seconds', examples: [900] }),
    prices: z.array(
      z.object({
        time: time('start of the interval'),
        average: sharePrice('price of the interval, weighted by shares, rounded to nearest'),
        last: sharePrice('price of its last match, rounded to nearest'),
        shares: amount('shares traded, each match once, micro-shares'),
      }),
    ),
  }),
  list: 'prices',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, { id: key, points }) {
    const { conditionId, listing } = await findMarket(call, key);
    const condition_id = new Bytes(conditionId);
    const [span] = await read(call, { sql: SPAN_SQL, parameters: { condition_id }, row: SpanRow });
    const { fills, first, last } = span ?? { fills: 0, first: 0, last: 0 };
    if (listing === undefined && fills === 0) throw unknownMarket(key);
    // Round up, so that the last fill is in the last interval.
    const width = Math.max(INTERVAL_SECONDS_MIN, Math.floor((last - first) / points) + 1);
    const intervals =
      fills === 0
        ? []
        : await read(call, {
            sql: INTERVALS_SQL,
            parameters: { condition_id, first, last, width },
            row: IntervalRow,
          });
    return {
      interval_seconds: width,
      prices: intervals.map((interval) => ({
        time: isoSecond(interval.at),
        average: safeInteger(
          markPrice({ usdc: interval.total_usdc, shares: interval.total_shares }, 0),
        ),
        last: safeInteger(markPrice({ usdc: interval.last_usdc, shares: interval.last_shares }, 0)),
        shares: safeInteger(interval.total_shares),
      })),
    };
  },
});
