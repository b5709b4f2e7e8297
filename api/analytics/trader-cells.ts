/**
 * A trader's bookings of the last 30 days as cells: sums for each market and band. A booking is in the band of the
 * shortest window that contains it, so a window is the sum of its band and of those before it. One short statement reads
 * the cells; tags and totals are added up here, which takes half the processor time of a statement that does it.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { MARKET_SERIES, MARKET_TAGS } from './market-tags.ts';
import { type Reading, ROWS_OF_A_WALLET, read } from './query.ts';
import { count as counted, hexText, int, rowOf, seconds, string, strings } from './rows.ts';
import { WINDOW_LENGTHS } from './time-frames.ts';

/** Of a booking, or sums of several, in micro-USDC. */
export type Amounts = {
  pnl: bigint;
  cost: bigint;
  makerVolume: bigint;
  takerVolume: bigint;
  /** Σ usdc · (1 − price) of taker fills. */
  unweighted: bigint;
};

/** Sums of one band, and the number of its fills and settlements. */
export type Cell = Amounts & { bookings: number };

/** Tags and series of a market, as of now. */
export type Labels = { tags: readonly string[]; series: string };

/** A market of a trader, with a cell for each band in which it has bookings. */
export type Pair = { readonly labels: Labels; readonly cells: (Cell | undefined)[] };

/** Sums over the markets of a trader with equal tags. */
export type TagSums = Readonly<Amounts> & {
  readonly tags: readonly string[];
  readonly markets: number;
  readonly wins: number;
};

/** Begin of each window that ends at `now`, seconds since the epoch, shortest window first. */
export const beginsOf = (now: number) => WINDOW_LENGTHS.map((length) => Math.max(0, now - length));

/**
 * The usdc · (1 − price) of a taker's fill, micro-USDC. With price = usdc / shares, it is usdc · (shares − usdc) / shares,
 * rounded down.
 */
export const UNWEIGHTED = 'intDivOrZero(toInt128(usdc) * (shares - usdc), shares)';

const Row = rowOf({
  conditionId: hexText('condition_id'),
  band: counted('arrayCount(begin -> block_time < begin, {begins:Array(UInt32)}) AS band'),
  tags: strings(MARKET_TAGS),
  series: string(MARKET_SERIES),
  pnl: int('sum(realised_pnl)'),
  cost: int('sum(realised_cost)'),
  makerVolume: int("sumIf(usdc, kind = 'fill' AND NOT is_taker)"),
  takerVolume: int('sumIf(usdc, is_taker)'),
  unweighted: int(`sumIf(${UNWEIGHTED}, is_taker)`),
  bookings: counted('count()'),
  newest: seconds("maxIf(block_time, kind = 'fill')"),
});

const SQL = `
SELECT ${Row.columns}
FROM bookings
WHERE trader = {trader:FixedString(20)} AND block_time >= toDateTime({since:UInt32}, 'UTC')
  AND block_time <= toDateTime({now:UInt32}, 'UTC') AND block_number <= {block:UInt64}
GROUP BY condition_id, band
${ROWS_OF_A_WALLET}`;

/** Of all that is stored. */
export const NEWEST_BLOCK = Number.MAX_SAFE_INTEGER;

/**
 * The trader's markets by condition id, and the time of the newest fill in the longest window, 0 without one. Windows end
 * at `now`, seconds since the epoch. Throws Problem 503 if ClickHouse is unavailable.
 */
export async function readPairs(
  reading: Reading,
  { trader, now, block }: { readonly trader: string; readonly now: number; readonly block: number },
) {
  const begins = beginsOf(now);
  const parameters = {
    ...{ trader: new Bytes(trader), now, block },
    ...{ since: begins.at(-1), begins: `[${begins}]` },
  };
  const rows = await read(reading, { sql: SQL, parameters, row: Row });
  const pairs = new Map<string, Pair>();
  let newestFill = 0;
  for (const { conditionId, band, tags, series, newest, ...cell } of rows) {
    let pair = pairs.get(conditionId);
    if (pair === undefined) {
      pair = { labels: { tags, series }, cells: [] };
      pairs.set(conditionId, pair);
    }
    pair.cells[band] = cell;
    newestFill = Math.max(newestFill, newest);
  }
  return { pairs, newestFill };
}

/** For each window, shortest first, sums over the markets with equal tags. */
export function sumWindows(pairs: Iterable<Pair>): readonly (readonly TagSums[])[] {
  const windows = WINDOW_LENGTHS.map(() => new Map<string, Amounts & TagTotal>());
  for (const { labels, cells } of pairs) {
    const key = labels.tags.join('\n');
    let sum: Amounts | undefined;
    for (const [window, totals] of windows.entries()) {
      const cell = cells[window];
      if (cell !== undefined) {
        sum ??= { ...NOTHING };
        addAmounts(sum, cell);
      }
      if (sum === undefined) continue;
      let total = totals.get(key);
      if (total === undefined) {
        total = { ...NOTHING, tags: labels.tags, markets: 0, wins: 0 };
        totals.set(key, total);
      }
      addAmounts(total, sum);
      total.markets += 1;
      if (sum.pnl > 0n) total.wins += 1;
    }
  }
  return windows.map((totals) => [...totals.values()]);
}

type TagTotal = { readonly tags: readonly string[]; markets: number; wins: number };

export const NOTHING: Readonly<Amounts> = {
  ...{ pnl: 0n, cost: 0n, makerVolume: 0n, takerVolume: 0n, unweighted: 0n },
};

/** Adds `more` to `amounts`, or takes it away with the sign -1. */
export function addAmounts(amounts: Amounts, more: Readonly<Amounts>, sign: 1n | -1n = 1n): void {
  amounts.pnl += sign * more.pnl;
  amounts.cost += sign * more.cost;
  amounts.makerVolume += sign * more.makerVolume;
  amounts.takerVolume += sign * more.takerVolume;
  amounts.unweighted += sign * more.unweighted;
}
