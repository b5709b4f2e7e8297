/**
 * What a trader did recently: sums of windows that end now, exact to the second, from the trader's bookings.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import type { Call } from './call.ts';
import { MARKET_TAGS } from './market-tags.ts';
import { FEW_ROWS, read } from './query.ts';
import { count, int, rowOf, seconds, strings } from './rows.ts';
import type { TaggedSums } from './sums.ts';
import { UNWEIGHTED } from './weighted-volume.ts';

type WindowsRequest = {
  readonly trader: string;
  /** Seconds since the epoch; the windows end here. */
  readonly now: number;
  /** Lengths of the windows in seconds, each longer than the one before. */
  readonly lengths: readonly number[];
  /** Further conditions on the bookings, each after AND, with what they are bound to. */
  readonly filter?: string;
  readonly bound?: Readonly<Record<string, string>>;
};

export type Windows = {
  /** Of each length: sums of the markets with equal tags. */
  readonly windows: readonly (readonly WindowSums[])[];
  /** Newest fill, seconds since the epoch; 0 if there is none. */
  readonly newest: number;
};
type WindowSums = TaggedSums & { readonly unweighted: bigint };

/** Throws Problem 503 if ClickHouse cannot answer. */
export async function readWindows(call: Call, request: WindowsRequest): Promise<Windows> {
  const { bound, filter = '', lengths, now, trader } = request;
  const begins = lengths.map((length) => Math.max(0, now - length));
  const since = Math.min(...begins);
  const parameters = { ...bound, trader: new Bytes(trader), now, since, begins: `[${begins}]` };
  const rows = await read(call, { sql: SQL(filter), parameters, row: Row });
  return {
    windows: begins.map((begin) => rows.filter((row) => row.begin === begin)),
    newest: Math.max(0, ...rows.map((row) => row.newest)),
  };
}

const Row = rowOf({
  begin: count('begin'),
  tags: strings(`${MARKET_TAGS} AS tags`),
  pnl: int('sum(market_pnl)'),
  cost: int('sum(market_cost)'),
  makerVolume: int('sum(market_volume - market_taker_volume)'),
  takerVolume: int('sum(market_taker_volume)'),
  unweighted: int('sum(market_unweighted)'),
  markets: count('count()'),
  wins: count('countIf(market_pnl > 0)'),
  newest: seconds('max(market_newest)'),
});

/** A booking counts in each window that has begun by then. */
const SQL = (filter: string) => `
SELECT ${Row.columns}
FROM
(
  SELECT
    begin,
    condition_id,
    sum(realised_pnl) AS market_pnl,
    sum(realised_cost) AS market_cost,
    sumIf(usdc, kind = 'fill') AS market_volume,
    sumIf(usdc, is_taker) AS market_taker_volume,
    ${UNWEIGHTED} AS market_unweighted,
    maxIf(block_time, kind = 'fill') AS market_newest
  FROM bookings
  ARRAY JOIN {begins:Array(UInt32)} AS begin
  WHERE trader = {trader:FixedString(20)}
    AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({now:UInt32}, 'UTC')
    AND block_time >= begin ${filter}
  GROUP BY begin, condition_id
)
GROUP BY begin, tags
${FEW_ROWS}`;
