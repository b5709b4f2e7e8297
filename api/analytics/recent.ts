/**
 * What a trader did in the last time (specification 2.6, 2.7, 2.9): sums of windows that end now, exact to the
 * second, from the trader's own bookings.
 */
import type { Bytes } from '../../infra/clickhouse-reader.ts';
import { count, int, rowOf, seconds, texts } from './columns.ts';
import { MARKET_TAGS } from './market-tags.ts';
import { type Call, FEW_ROWS, read } from './query.ts';
import type { TaggedSums } from './sums.ts';
import { UNWEIGHTED } from './weighted-volume.ts';

type Asked = {
  readonly trader: Bytes;
  /** Seconds since the epoch; the windows end here. */
  readonly now: number;
  /** Lengths of the windows, seconds. */
  readonly lengths: readonly number[];
  /** Further conditions on the bookings, each after AND, with what they are bound to. */
  readonly filter?: string;
  readonly bound?: Readonly<Record<string, string>>;
  /** Whether the sums are to have what weighted volume is made of; it is 0 otherwise. */
  readonly isWeighted?: boolean;
};

type Recent = {
  /** Of each length: markets of equal tags added up. */
  readonly windows: readonly (readonly (TaggedSums & { readonly unweighted: bigint })[])[];
  /** Newest fill, seconds since the epoch; 0 where there is none. */
  readonly newest: number;
};

/** Throws Problem 503 where ClickHouse cannot answer. */
export async function readRecent(call: Call, asked: Asked): Promise<Recent> {
  const { bound, lengths, now, trader } = asked;
  const begins = lengths.map((length) => Math.max(0, now - length));
  const since = Math.min(...begins);
  const parameters = { ...bound, trader, now, since, begins: `[${begins}]` };
  const rows = await read(call, { sql: SQL(asked), parameters, row: Row });
  return {
    windows: begins.map((begin) => rows.filter((row) => row.begin === begin)),
    newest: Math.max(0, ...rows.map((row) => row.newest)),
  };
}

/**
 * A booking counts in each window that has begun by then; where there is one window it is in that. Few rows
 * come back: one of each list of tags.
 */
const SQL = ({ filter = '', isWeighted = false, lengths }: Asked) => `
SELECT
  begin,
  ${MARKET_TAGS} AS tags,
  sum(market_pnl) AS pnl,
  sum(market_cost) AS cost,
  sum(market_volume - market_taker_volume) AS makerVolume,
  sum(market_taker_volume) AS takerVolume,
  ${isWeighted ? 'sum(market_unweighted)' : 'toInt128(0)'} AS unweighted,
  count() AS markets,
  countIf(market_pnl > 0) AS wins,
  max(market_newest) AS newest
FROM
(
  SELECT
    ${lengths.length === 1 ? '{since:UInt32} AS begin' : 'begin'},
    condition_id,
    sum(realised_pnl) AS market_pnl,
    sum(realised_cost) AS market_cost,
    sumIf(usdc, kind = 'fill') AS market_volume,
    sumIf(usdc, is_taker) AS market_taker_volume,
    ${isWeighted ? UNWEIGHTED : '0'} AS market_unweighted,
    maxIf(block_time, kind = 'fill') AS market_newest
  FROM bookings
  ${lengths.length === 1 ? '' : 'ARRAY JOIN {begins:Array(UInt32)} AS begin'}
  WHERE trader = {trader:FixedString(20)}
    AND block_time >= toDateTime({since:UInt32}, 'UTC') AND block_time <= toDateTime({now:UInt32}, 'UTC')
    ${lengths.length === 1 ? '' : 'AND block_time >= begin'}
    ${filter}
  GROUP BY begin, condition_id
)
GROUP BY begin, tags
${FEW_ROWS}`;

const Row = rowOf({
  begin: seconds,
  tags: texts,
  pnl: int,
  cost: int,
  makerVolume: int,
  takerVolume: int,
  unweighted: int,
  markets: count,
  wins: count,
  newest: seconds,
});
