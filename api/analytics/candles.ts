/**
 * `GET /v2/markets/:id/candles`: prices of a market's first outcome in intervals that begin at multiples of their
 * length since 1970, UTC. Each match counts once, with the fill of its taker. Candles run from the first match until now,
 * or until the resolution of the market. An interval without a match repeats the previous close.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint } from '../http/endpoint.ts';
import { inOrder, instant, marketKey, oneOf } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { isoSecond, safeInteger } from './format.ts';
import { findKnownMarket, readResolutions } from './market-object.ts';
import { markPrice } from './marks.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, int, type RowOf, rowOf } from './rows.ts';
import { amount, count, sharePrice, time, yes } from './schemas.ts';

const SECONDS = { '1m': 60, '5m': 300, '15m': 900, '1h': 3_600, '6h': 21_600, '1d': 86_400 };
const INTERVALS = Object.keys(SECONDS) as (keyof typeof SECONDS)[];
const CANDLES_MAX = 1_500;
const CANDLES_DEFAULT = 300;

const Parameters = z
  .object({
    id: marketKey.describe('market id, condition id or slug'),
    interval: oneOf(INTERVALS).default('1h').describe('length of a candle'),
    from: instant
      .optional()
      .describe(`a time in the first candle (default: ${CANDLES_DEFAULT} candles until \`to\`)`),
    to: instant
      .optional()
      .describe(
        `a time in the last candle (default: now, or the resolution, or ${CANDLES_MAX} candles after \`from\`)`,
      ),
  })
  .superRefine(inOrder(['from', 'to']))
  .superRefine(({ interval, from, to }, context) => {
    if (from === undefined || to === undefined) return;
    const width = SECONDS[interval];
    if ((startOf(to, width) - startOf(from, width)) / width < CANDLES_MAX) return;
    const message = `more than ${CANDLES_MAX} candles until \`to\``;
    context.addIssue({ code: 'custom', path: ['from'], message });
  });
type Input = z.output<typeof Parameters>;

const START = 'intDiv(toUnixTimestamp(minute), {width:UInt32}) * {width:UInt32}';

const Row = rowOf({
  start: counted(START),
  openUsdc: int('(min(open) AS earliest).usdc'),
  openShares: int('earliest.shares'),
  closeUsdc: int('(max(close) AS latest).usdc'),
  closeShares: int('latest.shares'),
  low: counted('min(low)'),
  high: counted('max(high)'),
  volume: int('sum(volume)'),
  shares: int('sum(shares)'),
  trades: counted('sum(matches)'),
});

const SQL = `
SELECT ${Row.columns}
FROM market_minutes
WHERE condition_id = {condition_id:FixedString(32)}
  AND minute >= toDateTime({first:UInt32}, 'UTC') AND minute < toDateTime({end:UInt32}, 'UTC')
GROUP BY ${START}`;

const CloseRow = rowOf({ usdc: int('close.usdc'), shares: int('close.shares') });

/** Of the unmerged rows of one minute, the greatest is the newest. */
const BEFORE_SQL = `
SELECT ${CloseRow.columns}
FROM market_minutes
WHERE condition_id = {condition_id:FixedString(32)} AND minute < toDateTime({first:UInt32}, 'UTC')
ORDER BY minute DESC, close DESC
LIMIT 1
${FEW_ROWS}`;

const Candle = z.object({
  time: time('start of the interval'),
  open: sharePrice('price of the first match, rounded to nearest'),
  high: sharePrice('highest price, less than a micro-unit away'),
  low: sharePrice('lowest price, rounded down'),
  close: sharePrice('price of the last match, rounded to nearest'),
  volume: amount('value that the takers paid or received, micro-USD'),
  shares: amount('shares traded, each match once, micro-shares'),
  trades: count('number of matches'),
  is_empty: yes('true: no match, so all prices are the previous close'),
});

export const candlesV2 = endpoint({
  name: 'marketCandles',
  path: '/v2/markets/:id/candles',
  summary: 'Candles of a market',
  description: `The prices and volume of a market over time, for a chart, oldest first: at most ${CANDLES_MAX} candles, from the first
match until now, or until the resolution of the market. Prices are those of the first outcome; the price of the second is
1,000,000 minus that. Intervals begin at multiples of their length in UTC, so a day begins at midnight.

A candle without a match has the previous close and \`is_empty\`. The last candle changes until its interval has passed and
its blocks are final.`,
  parameters: Parameters,
  answer: z.object({ candles: z.array(Candle) }),
  list: 'candles',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const { conditionId } = await findKnownMarket(call, input.id);
    const width = SECONDS[input.interval];
    const resolutions = await readResolutions(call, [conditionId]);
    const { resolved_at } = resolutions.get(conditionId) ?? {};
    const { first, last } = rangeOf(input, width, call.now(), resolved_at);
    const condition_id = new Bytes(conditionId);
    const parameters = { condition_id, width, first, end: last + width };
    const [rows, [before]] = await Promise.all([
      read(call, { sql: SQL, parameters, row: Row }),
      read(call, { sql: BEFORE_SQL, parameters: { condition_id, first }, row: CloseRow }),
    ]);
    const closeBefore = before && safeInteger(markPrice(before, 0));
    return {
      candles: candlesOf(rows, {
        first,
        last,
        width,
        resolved_at: resolved_at ?? last,
        closeBefore,
      }),
    };
  },
});

/** Starts of the first and the last candle. By default, the last is that of the resolution, or of now. */
function rangeOf({ from, to }: Input, width: number, nowMs: number, resolvedAt?: number) {
  const now = Math.floor(nowMs / 1_000);
  if (from === undefined) {
    const last = startOf(Math.min(to ?? resolvedAt ?? now, now), width);
    return { first: Math.max(0, last - (CANDLES_DEFAULT - 1) * width), last };
  }
  const first = startOf(from, width);
  const end = to ?? first + (CANDLES_MAX - 1) * width;
  return { first, last: startOf(Math.min(end, now), width) };
}

function startOf(time: number, width: number): number {
  return time - (time % width);
}

function candlesOf(
  rows: readonly RowOf<typeof Row>[],
  range: {
    readonly first: number;
    readonly last: number;
    readonly width: number;
    /** The end of empty intervals. */
    readonly resolved_at: number;
    readonly closeBefore: number | undefined;
  },
): z.input<typeof Candle>[] {
  const rowOfStart = new Map(rows.map((row) => [row.start, row]));
  const candles: z.input<typeof Candle>[] = [];
  let close = range.closeBefore;
  for (let start = range.first; start <= range.last; start += range.width) {
    const row = rowOfStart.get(start);
    if (row !== undefined) {
      const candle = candleOf(row);
      candles.push(candle);
      close = candle.close;
    } else if (close !== undefined && start <= range.resolved_at) {
      const prices = { open: close, high: close, low: close, close };
      const traded = { volume: 0, shares: 0, trades: 0, is_empty: true };
      candles.push({ time: isoSecond(start), ...prices, ...traded });
    }
  }
  return candles;
}

function candleOf(row: RowOf<typeof Row>): z.input<typeof Candle> {
  const open = safeInteger(markPrice({ usdc: row.openUsdc, shares: row.openShares }, 0));
  const close = safeInteger(markPrice({ usdc: row.closeUsdc, shares: row.closeShares }, 0));
  return {
    time: isoSecond(row.start),
    open,
    // It is stored rounded down.
    high: Math.max(row.high, open, close),
    low: row.low,
    close,
    volume: safeInteger(row.volume),
    shares: safeInteger(row.shares),
    trades: row.trades,
    is_empty: false,
  };
}
