/**
 * `GET /v2/traders/:address/pnl`: realised and unrealised PnL of a trader at the ends of hours or days, at the marks
 * of those times. Two statements read what the trader realised in each interval and held at the end of it, then two read the
 * last matches of the markets that were held. A resolution settles positions in its own block, so it needs no mark here.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { Problem } from '../http/errors.ts';
import { address, inOrder, instant, oneOf } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { marketsOf, valueAt } from './marks.ts';
import { read } from './query.ts';
import { hexText, int, type RowOf, type RowSchema, rowOf, seconds, typed } from './rows.ts';
import { amount, time } from './schemas.ts';

const SECONDS = { '1h': 3_600, '1d': 86_400 };
const INTERVALS = Object.keys(SECONDS) as (keyof typeof SECONDS)[];
/** One month of hours. */
const POINTS_MAX = 744;
const POINTS_DEFAULT = { '1h': 168, '1d': 30 };

const Parameters = z
  .object({
    address,
    interval: oneOf(INTERVALS).default('1h').describe('time between two points'),
    from: instant
      .optional()
      .describe(
        'a time in the interval of the first point (default: 7 days before `to` for hours, 30 days for days)',
      ),
    to: instant.optional().describe('a time in the interval of the last point (default: now)'),
  })
  .superRefine(inOrder(['from', 'to']));
type Input = z.output<typeof Parameters>;

/** The function that returns the start of an interval, and the table and column with the closes. */
const SOURCES = {
  '1h': { begin: 'toStartOfHour', closes: 'market_minutes', closedAt: 'minute' },
  '1d': { begin: 'toStartOfDay', closes: 'market_days', closedAt: 'day' },
} as const;

/** The start of the interval that contains a time; `base` for all times before the first interval. */
const beginSql = (interval: Input['interval'], column: string) =>
  `greatest(${SOURCES[interval].begin}(${column}), toDateTime({base:UInt32}, 'UTC'))`;

const IN_RANGE = "trader = {trader:FixedString(20)} AND hour < toDateTime({end:UInt32}, 'UTC')";

/** The realised PnL of each interval. */
function realisedStatement(interval: Input['interval']) {
  const row = rowOf({
    begin: seconds(`${beginSql(interval, 'hour')} AS begin`),
    realised: int('sum(realised_pnl)'),
  });
  const sql = `SELECT ${row.columns} FROM trader_hours WHERE ${IN_RANGE} GROUP BY begin`;
  return { sql, row };
}

/** The position at the end of each interval with a fill or settlement, of the markets that were held at the end of any. */
function heldStatement(interval: Input['interval']) {
  const row = rowOf({
    conditionId: hexText('condition_id'),
    begin: seconds(`${beginSql(interval, 'hour')} AS begin`),
    outcome: typed('argMax(position.outcome, position.version)', z.literal([0, 1])),
    shares: int('argMax(position.shares, position.version) AS shares'),
    basis: int('argMax(position.cost_basis + position.open_fees, position.version)'),
  });
  const sql = `
SELECT ${row.columns}
FROM trader_market_hours
WHERE ${IN_RANGE}
GROUP BY condition_id, begin
QUALIFY max(shares) OVER (PARTITION BY condition_id) > 0`;
  return { sql, row };
}

const CLOSE = {
  conditionId: hexText('condition_id'),
  usdc: int('argMax(close.usdc, close.version)'),
  shares: int('argMax(close.shares, close.version)'),
};
const EarlierRow = rowOf({ ...CLOSE, begin: seconds("toDateTime({base:UInt32}, 'UTC')") });

/** The last match of each of these markets (an expression after IN) before `day`. */
const earlierStatement = (markets: string) => ({
  sql: `
SELECT ${EarlierRow.columns}
FROM market_days
WHERE condition_id IN ${markets} AND day < toDateTime({day:UInt32}, 'UTC')
GROUP BY condition_id`,
  row: EarlierRow,
});

/** The last match of each of these markets in each interval, from `day` on. */
function closesStatement(interval: Input['interval'], markets: string) {
  const { closes, closedAt } = SOURCES[interval];
  const row = rowOf({ ...CLOSE, begin: seconds(`${beginSql(interval, closedAt)} AS begin`) });
  const sql = `
SELECT ${row.columns}
FROM ${closes}
WHERE condition_id IN ${markets}
  AND ${closedAt} >= toDateTime({day:UInt32}, 'UTC') AND ${closedAt} < toDateTime({end:UInt32}, 'UTC')
GROUP BY condition_id, begin`;
  return { sql, row };
}

type Held = RowOf<ReturnType<typeof heldStatement>['row']>;
type Close = RowOf<typeof EarlierRow>;
/** Values of the statements' parameters. */
type Bound = { readonly trader: Bytes; readonly base: number };

/** The closes of the markets that were held at the end of an interval. */
async function readCloses(
  call: Call,
  interval: Input['interval'],
  ends: readonly Held[],
  bound: Bound,
): Promise<readonly Close[]> {
  const held = ends.filter(({ shares }) => shares > 0n);
  // A market that was not held before had a match in the interval of the first fill.
  const heldBefore = held.filter(({ begin }) => begin === bound.base);
  const [earlier, closes] = await Promise.all([
    readClosesOf(call, heldBefore, earlierStatement, bound),
    readClosesOf(call, held, (markets) => closesStatement(interval, markets), bound),
  ]);
  // A match of the interval before the first one replaces an earlier one.
  return [...earlier, ...closes];
}

async function readClosesOf(
  call: Call,
  held: readonly Held[],
  statementOf: (markets: string) => { readonly sql: string; readonly row: RowSchema<Close> },
  bound: Bound,
): Promise<readonly Close[]> {
  const conditions = [...new Set(held.map(({ conditionId }) => conditionId))];
  if (conditions.length === 0) return [];
  const { markets, keys } = marketsOf(bound.trader, conditions);
  return await read(call, { ...statementOf(markets), parameters: { ...bound, ...keys } });
}

/** The changes of unrealised PnL, by the start of the interval. */
function unrealisedChanges(ends: readonly Held[], closes: readonly Close[]) {
  const changes = new Map<number, bigint>();
  const closesOf = Map.groupBy(closes, ({ conditionId }) => conditionId);
  for (const [conditionId, rows] of Map.groupBy(ends, (row) => row.conditionId)) {
    const heldAt = new Map(rows.map((row) => [row.begin, row]));
    const closeAt = new Map((closesOf.get(conditionId) ?? []).map((close) => [close.begin, close]));
    let held: Held | undefined;
    let close: Close | undefined;
    let known = 0n;
    for (const begin of [...new Set([...heldAt.keys(), ...closeAt.keys()])].sort(ascending)) {
      held = heldAt.get(begin) ?? held;
      close = closeAt.get(begin) ?? close;
      const now = held === undefined || close === undefined ? 0n : unrealisedOf(held, close);
      changes.set(begin, (changes.get(begin) ?? 0n) + now - known);
      known = now;
    }
  }
  return changes;
}

/** Value of a position at a close, less its cost; 0 if the market has no price yet. */
function unrealisedOf(held: Held, close: Close): bigint {
  return close.shares === 0n ? 0n : valueAt(close, held) - held.basis;
}

const ascending = (one: number, other: number) => one - other;

const PointV2 = z.object({
  time: time('end of the interval; now for the current one'),
  realised_pnl: amount('realised PnL since the first trade, net of fees, micro-USD'),
  unrealised_pnl: amount(
    'PnL of the positions held at this time, at the marks of this time, micro-USD',
  ),
  pnl: amount('realised_pnl + unrealised_pnl, micro-USD'),
});

export const traderPnlV2 = endpoint({
  name: 'traderPnl',
  path: '/v2/traders/:address/pnl',
  summary: 'PnL of a trader',
  description: `A trader's realised and unrealised PnL over time: points at the ends of hours or days (UTC) from \`from\` to \`to\`, oldest
first, at most ${POINTS_MAX}; more return 400. A point covers the blocks before its time and values each position at the
last match of its market before that time. A resolution realises its payout. Between two points, PnL changes exactly by
the realised PnL plus the change of unrealised PnL. Deposits and withdrawals are not included.

Only the last point changes, until its interval has passed and its blocks are final. For a trader without fills, all
points are 0.`,
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
    const base = Math.max(0, first - width);
    const bound = {
      ...{ trader: new Bytes(input.address), base, end: last + width },
      day: Math.max(0, base - (base % SECONDS['1d'])),
    };
    const [earned, ends] = await Promise.all([
      read(call, { ...realisedStatement(input.interval), parameters: bound }),
      read(call, { ...heldStatement(input.interval), parameters: bound }),
    ]);
    const closes = await readCloses(call, input.interval, ends, bound);
    const realisedAt = new Map(earned.map((row) => [row.begin, row.realised]));
    const changes = unrealisedChanges(ends, closes);
    let [realised, unrealised] = [0n, 0n];
    const points = [];
    for (let start = base; start <= last; start += width) {
      realised += realisedAt.get(start) ?? 0n;
      unrealised += changes.get(start) ?? 0n;
      if (start < first) continue;
      points.push({
        time: isoSecond(Math.min(start + width, now)),
        realised_pnl: safeInteger(realised),
        unrealised_pnl: safeInteger(unrealised),
        pnl: safeInteger(realised + unrealised),
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
