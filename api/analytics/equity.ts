/**
 * `GET /v2/traders/:address/equity`: realised and unrealised PnL of a trader at the ends of hours or days, at the marks
 * of those times. ClickHouse carries the last position and the last close of each market forward and returns one sum
 * an interval, whatever the trader holds. A resolution settles positions in its own block: it needs no mark here.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../endpoint.ts';
import { Problem } from '../errors.ts';
import { address, inOrder, instant, oneOf } from '../parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { valueSql } from './marks.ts';
import { read } from './query.ts';
import { rowOf, typed } from './rows.ts';
import { amount, time } from './schemas.ts';

const SECONDS = { '1h': 3_600, '1d': 86_400 };
const INTERVALS = Object.keys(SECONDS) as (keyof typeof SECONDS)[];
/** A month of hours. */
const POINTS_MAX = 744;
const POINTS_DEFAULT = { '1h': 168, '1d': 30 };

const Parameters = z
  .object({
    address: address.describe('wallet of the trader; letter case is ignored'),
    interval: oneOf(INTERVALS).default('1h').describe('time between two points'),
    from: instant
      .optional()
      .describe(
        'a time in the interval of the first point (default: 7 days of hours or 30 days before `to`)',
      ),
    to: instant.optional().describe('a time in the interval of the last point (default: now)'),
  })
  .superRefine(inOrder(['from', 'to']));
type Input = z.output<typeof Parameters>;

const PLACE = "(block_number * 1048576 + log_index) * 2 + (kind = 'settlement')";
/** Index of the interval of a time; 0 is all time before the first interval. */
const indexOf = (column: string) =>
  `toUInt32(greatest(0, intDiv(toInt64(toUnixTimestamp(${column})) - {base:Int64}, {width:Int64})))`;

/**
 * Markets in which the trader held shares in the range, and perhaps some in which they held shares before. A subquery a
 * table, because ClickHouse cannot make an IN global for a cluster whose subquery reads two.
 */
const OF_MARKETS = `(
  condition_id IN (
    SELECT condition_id
    FROM trader_hours
    WHERE trader = {trader:FixedString(20)} AND hour >= toDateTime({first:UInt32}, 'UTC'))
  OR condition_id IN (
    SELECT condition_id
    FROM trader_markets
    WHERE trader = {trader:FixedString(20)} AND position.shares > 0)
)`;

const texts = z.array(z.string());
const Row = rowOf({
  realised: typed('arrayMap(sum -> toString(sum), sumForEach(realised))', texts),
  unrealised: typed('arrayMap(sum -> toString(sum), sumForEach(unrealised))', texts),
});

/** Where the last match before the end of an interval is found. */
const CLOSES = { '1h': ['market_minutes', 'minute'], '1d': ['market_days', 'day'] } as const;

/**
 * Two arrays over all markets: realised PnL in each interval, and unrealised PnL at its end. Each market has an array
 * with one element an interval, where the last position and the last close are carried forward; the close before `day`
 * is that of a whole day. In the order of the key, so that only one market is grouped at a time.
 */
function seriesSql(interval: keyof typeof CLOSES, intervals: number): string {
  const [table, begin] = CLOSES[interval];
  const each = (aggregate: string) => `${aggregate}Resample(0, ${intervals}, 1)`;
  const forward = (column: string, isSet: string) =>
    `arrayFill((one, other) -> other > 0, arrayResize(${column}, ${intervals}), arrayResize(${isSet}, ${intervals}))`;
  const from = (column: string, before: string) =>
    `arrayConcat([if(whole[1] = 0, ${before}, ${column}[1])], arraySlice(${column}, 2))`;
  return `
SELECT ${Row.columns}
FROM
(
  SELECT
    realised,
    ${from('whole', 'earlier.3')} AS wholes,
    arrayMap(
      (outcome, shares, basis, usdc, whole) ->
        if(whole = 0, 0, ${valueSql('outcome', 'shares', 'usdc', 'whole')} - basis),
      ${forward('outcomes', 'places')},
      ${forward('shares', 'places')},
      ${forward('bases', 'places')},
      ${forward(from('usdc', 'earlier.2'), 'wholes')},
      ${forward('wholes', 'wholes')}) AS unrealised
  FROM
  (
    SELECT
      condition_id,
      ${each('argMax')}(close.usdc, close.version, ${indexOf(begin)} AS at) AS usdc,
      ${each('argMax')}(close.shares, close.version, at) AS whole
    FROM ${table}
    WHERE ${OF_MARKETS}
      AND ${begin} >= toDateTime({day:UInt32}, 'UTC') AND ${begin} < toDateTime({end:UInt32}, 'UTC')
    GROUP BY condition_id
  ) AS closes
  RIGHT JOIN
  (
    SELECT
      condition_id,
      ${each('sum')}(realised_pnl, ${indexOf('block_time')} AS at) AS realised,
      ${each('max')}(${PLACE} AS place, at) AS places,
      ${each('argMax')}(position_outcome, place, at) AS outcomes,
      ${each('argMax')}(position_shares, place, at) AS shares,
      ${each('argMax')}(position_cost + position_fees, place, at) AS bases
    FROM bookings
    WHERE trader = {trader:FixedString(20)} AND block_time < toDateTime({end:UInt32}, 'UTC')
    GROUP BY trader, condition_id
  ) AS holdings ON holdings.condition_id = closes.condition_id
  LEFT JOIN
  (
    SELECT condition_id, max(close) AS earlier
    FROM market_days
    WHERE ${OF_MARKETS} AND day < toDateTime({day:UInt32}, 'UTC')
    GROUP BY condition_id
  ) AS days ON days.condition_id = holdings.condition_id
)
SETTINGS optimize_aggregation_in_order = 1`;
}

const PointV2 = z.object({
  time: time('end of the interval; now for the one that runs'),
  realised_pnl: amount('realised PnL from the first trade until then, net of fees, micro-USD'),
  unrealised_pnl: amount('PnL of what was held then, at the marks of then, micro-USD'),
  equity: amount('realised_pnl + unrealised_pnl, micro-USD'),
});

export const equityV2 = endpoint({
  name: 'traderEquity',
  path: '/v2/traders/:address/equity',
  summary: 'Realised and unrealised PnL of one trader over time',
  description: `Points at the ends of hours or days (UTC) from \`from\` to \`to\`, oldest first, at most ${POINTS_MAX}; more are a 400. A point counts the blocks before its time and values what was held at the last match of each market before it; a resolution realises what it pays. So equity changes between two points by realised PnL + change of unrealised PnL, exactly. Only the last point changes, until its interval has passed and its blocks are final. Deposits and withdrawals are not part of it. A trader without fills has points of 0.`,
  parameters: Parameters,
  answer: z.object({ points: z.array(PointV2) }),
  list: 'points',
  problems: [],
  keep: SHARED,
  async run(call: Call, input) {
    const now = Math.floor(call.now() / 1_000);
    const width = SECONDS[input.interval];
    const { first, last } = rangeOf(input, now);
    if (first > last) return { points: [] };
    const base = first - width;
    const [sums] = await read(call, {
      sql: seriesSql(input.interval, (last - base) / width + 1),
      parameters: {
        ...{ trader: new Bytes(input.address), width, first, base },
        ...{ day: Math.max(0, base - (base % SECONDS['1d'])), end: last + width },
      },
      row: Row,
    });
    // Without fills there are no sums.
    let realised = BigInt(sums?.realised[0] ?? 0);
    const points = [];
    for (let start = first, at = 1; start <= last; start += width, at++) {
      realised += BigInt(sums?.realised[at] ?? 0);
      const unrealised = BigInt(sums?.unrealised[at] ?? 0);
      points.push({
        time: isoSecond(Math.min(start + width, now)),
        realised_pnl: safeInteger(realised),
        unrealised_pnl: safeInteger(unrealised),
        equity: safeInteger(realised + unrealised),
      });
    }
    return { points };
  },
});

/** Starts of the first and of the last interval, seconds since the epoch. Throws Problem 400 for too many points. */
function rangeOf({ interval, from, to }: Input, now: number) {
  const width = SECONDS[interval];
  const startOf = (seconds: number) => seconds - (seconds % width);
  const last = startOf(Math.min(to ?? now, now));
  const first =
    from === undefined ? Math.max(0, last - (POINTS_DEFAULT[interval] - 1) * width) : startOf(from);
  if ((last - first) / width < POINTS_MAX) return { first, last };
  const message = `more than ${POINTS_MAX} points until \`to\``;
  throw new Problem({
    error: 'invalid_request',
    detail: `from: ${message}`,
    issues: [{ path: 'from', message }],
  });
}
