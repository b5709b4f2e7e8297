/**
 * `GET /v2/traders/:address/equity`: realised and unrealised PnL of a trader at the ends of hours or days, at the marks
 * of those times. ClickHouse carries the last position and the last close of each market forward and returns what
 * changes in each interval, so a response is as long as its points whatever the trader holds. A resolution
 * settles positions in its own block: it needs no mark here.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../endpoint.ts';
import { Problem } from '../errors.ts';
import { address, inOrder, instant, oneOf } from '../parameters.ts';
import type { Call } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { valueSql } from './marks.ts';
import { read } from './query.ts';
import { int, rowOf } from './rows.ts';
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
type Given = z.output<typeof Parameters>;

const POSITION =
  'Tuple(version UInt64, outcome UInt8, shares Int64, cost_basis Int64, open_fees Int64)';
const PLACE = "(block_number * 1048576 + log_index) * 2 + (kind = 'settlement')";
const newest = (column: string, version: string) => `argMax(${column}, ${version})`;
const bucketOf = (column: string) =>
  `greatest({base:Int64}, intDiv(toUnixTimestamp(${column}), {width:Int64}) * {width:Int64})`;

/** Markets in which the trader held shares in the range. */
const MARKETS = `(
  SELECT condition_id
  FROM trader_hours
  WHERE trader = {trader:FixedString(20)} AND hour >= toDateTime({first:UInt32}, 'UTC')
  UNION DISTINCT
  SELECT condition_id
  FROM trader_markets
  WHERE trader = {trader:FixedString(20)}
  GROUP BY condition_id
  HAVING max(position).shares > 0
)`;

const Row = rowOf({
  bucket: int('bucket'),
  realised: int('sum(realised)'),
  unrealised: int('sum(change)'),
});

/**
 * What each interval adds. Everything before the first one is in one bucket of its own. Versions increase, so the
 * greatest tuple until an interval is the newest. The newest of many rows is found by numbers alone, because tuples
 * are compared many times more slowly.
 */
const SQL = `
SELECT ${Row.columns}
FROM
(
  SELECT
    bucket,
    realised,
    unrealised - lagInFrame(unrealised, 1, 0) OVER (PARTITION BY condition_id ORDER BY bucket
      ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS change
  FROM
  (
    SELECT
      condition_id,
      bucket,
      realised,
      max(own) OVER until AS held,
      max(close) OVER until AS mark,
      if(mark.2 = 0, 0, ${valueSql('held', 'mark')} - held.cost_basis - held.open_fees) AS unrealised
    FROM
    (
      SELECT condition_id, bucket, sum(realised_part) AS realised, max(own_part) AS own, max(close_part) AS close
      FROM
      (
        SELECT
          condition_id,
          ${bucketOf('block_time')} AS bucket,
          sum(realised_pnl) AS realised_part,
          (max(${PLACE}), ${newest('position_outcome', PLACE)}, ${newest('position_shares', PLACE)},
            ${newest('position_cost', PLACE)}, ${newest('position_fees', PLACE)})::${POSITION} AS own_part,
          (false, toUInt64(0), toInt128(0), toInt128(0)) AS close_part
        FROM bookings
        WHERE trader = {trader:FixedString(20)} AND block_time < toDateTime({end:UInt32}, 'UTC')
        GROUP BY condition_id, bucket
        UNION ALL
        SELECT
          condition_id,
          ${bucketOf('minute')} AS bucket,
          0,
          (0, 0, 0, 0, 0)::${POSITION},
          (false, max(close.version), toInt128(${newest('close.usdc', 'close.version')}),
            toInt128(${newest('close.shares', 'close.version')}))
        FROM market_minutes
        WHERE condition_id IN ${MARKETS} AND minute < toDateTime({end:UInt32}, 'UTC')
        GROUP BY condition_id, bucket
      )
      GROUP BY condition_id, bucket
    )
    WINDOW until AS (PARTITION BY condition_id ORDER BY bucket ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
  )
)
GROUP BY bucket
ORDER BY bucket`;

const PointV2 = z.object({
  time: time('end of the interval; now for the one that runs'),
  realised_pnl: amount('realised PnL from the first trade until then, net of fees, micro-USD'),
  unrealised_pnl: amount('PnL of what was held then, at the marks of then, micro-USD'),
  equity: amount('realised_pnl + unrealised_pnl, micro-USD'),
});

export const equityV2 = endpoint({
  path: '/v2/traders/:address/equity',
  summary: 'Realised and unrealised PnL of one trader over time',
  description: `Points at the ends of hours or days (UTC) from \`from\` to \`to\`, oldest first, at most ${POINTS_MAX}; more are a 400. A point counts the blocks before its time and values what was held at the last match of each market before it; a resolution realises what it pays. So equity changes between two points by realised PnL + change of unrealised PnL, exactly. Only the last point changes, until its interval has passed and its blocks are final. Deposits and withdrawals are not part of it. A trader without fills has points of 0.`,
  parameters: Parameters,
  answer: z.object({ points: z.array(PointV2) }),
  list: 'points',
  problems: [],
  async run(call: Call, given) {
    const now = Math.floor(call.now() / 1_000);
    const width = SECONDS[given.interval];
    const { first, last } = rangeOf(given, now);
    if (first > last) return { points: [] };
    const rows = await read(call, {
      sql: SQL,
      parameters: {
        ...{ trader: new Bytes(given.address), width },
        ...{ first, base: first - width, end: last + width },
      },
      row: Row,
    });
    const changes = new Map(rows.map((row) => [Number(row.bucket), row] as const));
    let [realised, unrealised] = [0n, 0n];
    const points = [];
    for (let bucket = first - width; bucket <= last; bucket += width) {
      realised += changes.get(bucket)?.realised ?? 0n;
      unrealised += changes.get(bucket)?.unrealised ?? 0n;
      if (bucket < first) continue;
      points.push({
        time: isoSecond(Math.min(bucket + width, now)),
        realised_pnl: safeInteger(realised),
        unrealised_pnl: safeInteger(unrealised),
        equity: safeInteger(realised + unrealised),
      });
    }
    return { points };
  },
});

/** Starts of the first and of the last interval, seconds since the epoch. Throws Problem 400 for too many points. */
function rangeOf({ interval, from, to }: Given, now: number) {
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
