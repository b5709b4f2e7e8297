/**
 * The sums of a trader's windows by one statement, where no memory keeps cells. It returns some hundred rows; the cells of
 * the busiest traders are thousands, which take twice the time.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { IS_COUNTED } from './bookings.ts';
import { HAS_SERIES, MARKET_TAGS } from './market-tags.ts';
import { type Reading, ROWS_OF_A_WALLET, read } from './query.ts';
import { count, int, rowOf, seconds, strings } from './rows.ts';
import { WINDOW_LENGTHS } from './time-frames.ts';
import { beginsOf, type TagSums, UNWEIGHTED } from './trader-cells.ts';

const Row = rowOf({
  window: count('window'),
  tags: strings(`${MARKET_TAGS} AS tags`),
  pnl: int('sum(market_pnl)'),
  cost: int('sum(market_cost)'),
  makerVolume: int('sum(market_maker)'),
  takerVolume: int('sum(market_taker)'),
  unweighted: int('sum(market_unweighted)'),
  markets: count('count()'),
  wins: count('countIf(market_pnl > 0)'),
  newest: seconds('max(market_newest)'),
});

/** Bookings are summed once per market, for their shortest window. The few sums then count in the longer windows, too. */
const SQL = (filter: string) => `
SELECT ${Row.columns}
FROM
(
  SELECT
    window,
    condition_id,
    sum(pnl) AS market_pnl,
    sum(cost) AS market_cost,
    sum(maker) AS market_maker,
    sum(taker) AS market_taker,
    sum(unweighted) AS market_unweighted,
    max(newest) AS market_newest
  FROM
  (
    SELECT
      arrayCount(begin -> block_time < begin, {begins:Array(UInt32)}) AS shortest,
      condition_id,
      sum(realised_pnl) AS pnl,
      sum(realised_cost) AS cost,
      sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker,
      sumIf(usdc, is_taker) AS taker,
      sumIf(${UNWEIGHTED}, is_taker) AS unweighted,
      maxIf(block_time, kind = 'fill') AS newest
    FROM bookings
    WHERE trader = {trader:FixedString(20)} AND block_time >= toDateTime({since:UInt32}, 'UTC')
      AND block_time <= toDateTime({now:UInt32}, 'UTC') AND ${IS_COUNTED} ${filter}
    GROUP BY shortest, condition_id
  )
  ARRAY JOIN range(shortest, length({begins:Array(UInt32)})) AS window
  GROUP BY window, condition_id
)
GROUP BY window, tags
${ROWS_OF_A_WALLET}`;

/**
 * For each window that ends at `now` (seconds since the epoch), shortest first, sums over the markets with equal tags, of one
 * series if it is given; and the time of the newest of these fills, 0 without one. Throws Problem 503 if ClickHouse is
 * unavailable.
 */
export async function readSums(
  reading: Reading,
  wanted: { readonly trader: string; readonly now: number; readonly series?: string | undefined },
) {
  const { trader, now, series } = wanted;
  const begins = beginsOf(now);
  const parameters = {
    ...{ trader: new Bytes(trader), now, series },
    ...{ since: begins.at(-1), begins: `[${begins}]` },
  };
  const sql = SQL(series === undefined ? '' : `AND ${HAS_SERIES}`);
  const rows = await read(reading, { sql, parameters, row: Row });
  const windows = WINDOW_LENGTHS.map((): TagSums[] => []);
  for (const { window, newest, ...sums } of rows) windows[window]?.push(sums);
  return { windows, newestFill: Math.max(0, ...rows.map(({ newest }) => newest)) };
}
