/**
 * `GET /v2/markets/:id/prices`: the price of a market's first outcome over time, from the taker fills
 * alone, so that a match counts once. A fill of the second outcome at p is one of the first at 1 − p.
 * From the first fill to the last there are at most 500 equal intervals; sums stay integers.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { integer, marketKey } from '../parameters.ts';
import { amount, time } from './fields.ts';
import { conditionOf, unknownMarket } from './market-key.ts';
import { type Call, read } from './query.ts';
import { Count, Int, isoSecond, price, Seconds, safeInteger } from './wire.ts';

const POINTS_MAX = 500;
const INTERVAL_SECONDS_MIN = 5;

/** Bookings are sorted by trader: the market's traders lead to its fills without reading the rest. */
const FILLS = `
  FROM bookings
  WHERE trader IN (SELECT trader FROM market_traders WHERE condition_id = condition)
    AND condition_id = condition
    AND kind = 'fill' AND is_taker AND bookings.shares > 0`;

const SQL = (condition: string) => `
WITH
  ${condition} AS condition,
  (
    SELECT (toUnixTimestamp(min(block_time)), toUnixTimestamp(max(block_time)))
    ${FILLS}
  ) AS span,
  -- Rounds up, so that the last fill is in the last interval.
  greatest(${INTERVAL_SECONDS_MIN}, intDiv(span.2 - span.1, {points:UInt32}) + 1) AS width
SELECT
  (SELECT count() FROM markets WHERE condition_id = condition) AS listings,
  toUInt32(width) AS interval_seconds,
  (
    SELECT arraySort(groupArray((at, usdc, shares, last_usdc, last_shares)))
    FROM
    (
      SELECT
        toUInt32(span.1 + intDiv(toUnixTimestamp(block_time) - span.1, width) * width) AS at,
        sum(if(outcome_index = 0, bookings.usdc, bookings.shares - bookings.usdc)) AS usdc,
        sum(bookings.shares) AS shares,
        argMax(if(outcome_index = 0, bookings.usdc, bookings.shares - bookings.usdc),
          (block_number, log_index)) AS last_usdc,
        argMax(bookings.shares, (block_number, log_index)) AS last_shares
      ${FILLS}
      GROUP BY at
    )
  ) AS intervals`;

const Row = z.object({
  listings: Count,
  interval_seconds: Seconds,
  /** Start, and of the first outcome: value and shares of all fills, and of the last one. */
  intervals: z.array(z.tuple([Seconds, Int, Int, Int, Int])),
});

const MICRO = 'micro-USD a share, 0 to 1,000,000';

export const pricesV2 = endpoint({
  path: '/v2/markets/:id/prices',
  summary: 'Price line of one market from its fills',
  description:
    'Of the first outcome; the second costs the rest to 1. Intervals without a match are left out.',
  parameters: z.object({
    id: marketKey.describe('market id, condition id or slug'),
    points: integer(1, POINTS_MAX).default(POINTS_MAX).describe('most intervals'),
  }),
  answer: z.object({
    interval_seconds: z
      .int()
      .min(INTERVAL_SECONDS_MIN)
      .meta({ description: 'length of an interval, seconds', examples: [900] }),
    prices: z.array(
      z.object({
        time: time('start of the interval'),
        average: amount(`price of the interval weighted by shares, rounded down, ${MICRO}`),
        last: amount(`price of its last match, rounded down, ${MICRO}`),
        shares: amount('shares traded, each match once, micro-shares'),
      }),
    ),
  }),
  list: 'prices',
  problems: ['not_found'],
  async run(call: Call, { id: key, points }) {
    const { condition, parameters } = conditionOf(key);
    const [row] = await read(call, {
      sql: SQL(condition),
      parameters: { ...parameters, points },
      row: Row,
    });
    if (row === undefined) throw new Error('one row of a market expected, got none');
    if (row.listings === 0 && row.intervals.length === 0) {
      throw unknownMarket(key);
    }
    return {
      interval_seconds: row.interval_seconds,
      prices: row.intervals.map(([at, usdc, shares, lastUsdc, lastShares]) => ({
        time: isoSecond(at),
        average: safeInteger(price(usdc, shares)),
        last: safeInteger(price(lastUsdc, lastShares)),
        shares: safeInteger(shares),
      })),
    };
  },
});
