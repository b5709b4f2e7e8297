/**
 * A trader's bookings of the last 30 days as cells: sums for each market and band. A booking is in the band of the
 * shortest window that contains it, so a window is the sum of its band and of those before it. One short statement reads
 * the cells; tags and totals are added up here.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { IS_COUNTED } from './bookings.ts';
import { MARKET_SERIES, MARKET_TAG_LINES } from './market-tags.ts';
import { PackedRows } from './packed-rows.ts';
import { type Reading, ROWS_OF_A_WALLET, read } from './query.ts';
import { count as counted, hexText, int, rowOf, seconds, string } from './rows.ts';
import { WINDOW_LENGTHS } from './time-frames.ts';

/** Of a booking, or sums of several, in micro-USDC. */
export type Amounts = {
  readonly pnl: bigint;
  readonly cost: bigint;
  readonly makerVolume: bigint;
  readonly takerVolume: bigint;
  /** Σ usdc · (1 − price) of taker fills. */
  readonly unweighted: bigint;
};

/** Tags, each on a line, and series of a market, as of now. */
export type Labels = { readonly tagLines: string; readonly series: string };

/** A market with its labels, which change for all traders at once. */
export type Market = { readonly number: number; tagSet: TagSet; series: string };
type TagSet = readonly string[];

/** Sums over the markets of a trader with equal tags. */
export type TagSums = Amounts & {
  readonly tags: readonly string[];
  readonly markets: number;
  readonly wins: number;
};

/** Begin of each window that ends at `now`, seconds since the epoch, shortest window first. */
export const beginsOf = (now: number) => WINDOW_LENGTHS.map((length) => Math.max(0, now - length));

/** Markets by condition id. Those with equal tags share one list. */
export class Markets {
  readonly #markets = new Map<string, Market>();
  /** By their numbers. */
  readonly #all: Market[] = [];
  readonly #tagSets = new Map<string, TagSet>();
  #changes = 0;

  get size(): number {
    return this.#markets.size;
  }

  /** Increases whenever a known market gets other labels. */
  get changes(): number {
    return this.#changes;
  }

  find(conditionId: string): Market | undefined {
    return this.#markets.get(conditionId);
  }

  /** Throws RangeError if no market has this number. */
  at(number: number): Market {
    const market = this.#all[number];
    if (market === undefined) throw new RangeError(`no market ${number}`);
    return market;
  }

  /** The market, which has these labels from now on. */
  of(conditionId: string, { tagLines, series }: Labels): Market {
    let tagSet = this.#tagSets.get(tagLines);
    if (tagSet === undefined) {
      tagSet = tagLines === '' ? [] : tagLines.split('\n');
      this.#tagSets.set(tagLines, tagSet);
    }
    const market = this.#markets.get(conditionId);
    if (market === undefined) {
      const added = { number: this.#all.length, tagSet, series };
      this.#markets.set(conditionId, added);
      this.#all.push(added);
      return added;
    }
    if (market.tagSet !== tagSet || market.series !== series) this.#changes += 1;
    return Object.assign(market, { tagSet, series });
  }
}

const AMOUNTS = ['pnl', 'cost', 'makerVolume', 'takerVolume', 'unweighted'] as const;
/** A cell is a row with its amounts and the number of its bookings. */
const BOOKINGS = AMOUNTS.length;
const BANDS = WINDOW_LENGTHS.length;

/** The cells of a trader. Nearly all markets have one. */
export class Cells {
  readonly #markets: Markets;
  /** By market and band. */
  readonly #rows: PackedRows;

  /** With room for so many cells. */
  constructor(markets: Markets, room = 0) {
    this.#markets = markets;
    this.#rows = new PackedRows(BOOKINGS + 1, room);
  }

  get size(): number {
    return this.#rows.size;
  }

  /** Bytes of memory. */
  get bytes(): number {
    return this.#rows.bytes;
  }

  /** Adds a booking to a cell, or the sums of several. */
  add(market: Market, band: number, amounts: Amounts, bookings = 1): void {
    const row = this.#rows.open(keyOf(market, band));
    this.#change(row, amounts, bookings, 1n);
  }

  /** Takes one booking away. Throws RangeError if the cell has none. */
  take(market: Market, band: number, amounts: Amounts): void {
    const row = this.#rows.find(keyOf(market, band));
    if (row === undefined) throw new RangeError(`no booking in band ${band}`);
    this.#change(row, amounts, 1, -1n);
    if (this.#rows.get(row, BOOKINGS) === 0n) this.#rows.remove(row);
  }

  /** For each window, shortest first, sums over the markets with equal tags; only over those that are counted. */
  windows(isCounted: (market: Market) => boolean = () => true): readonly (readonly TagSums[])[] {
    const rows = this.#rows;
    const windows = WINDOW_LENGTHS.map(() => new Map<TagSet, Totals>());
    const sums = new BigInt64Array(AMOUNTS.length);
    let row = 0;
    while (row < rows.size) {
      const market = this.#markets.at(Math.floor(rows.key(row) / BANDS));
      const isIn = isCounted(market);
      sums.fill(0n);
      for (let band = rows.key(row) % BANDS; band < BANDS; band++) {
        if (row < rows.size && rows.key(row) === keyOf(market, band)) {
          for (let at = 0; at < BOOKINGS; at++) sums[at] = (sums[at] ?? 0n) + rows.get(row, at);
          row += 1;
        }
        if (isIn) totalOf(windows[band], market.tagSet).add(sums);
      }
    }
    return windows.map((totals) => [...totals].map(([tags, total]) => total.of(tags)));
  }

  #change(row: number, amounts: Amounts, bookings: number, sign: 1n | -1n): void {
    const rows = this.#rows;
    for (const [at, name] of AMOUNTS.entries()) {
      rows.set(row, at, rows.get(row, at) + sign * amounts[name]);
    }
    rows.set(row, BOOKINGS, rows.get(row, BOOKINGS) + sign * BigInt(bookings));
  }
}

/** Cells in the order of these keys are sorted by market and then from the shortest window to the longest. */
const keyOf = ({ number }: Market, band: number) => number * BANDS + band;

/** Sums of cells of different markets. */
class Totals {
  readonly #sums = new BigInt64Array(AMOUNTS.length);
  #markets = 0;
  #wins = 0;

  /** Adds the sums of a market. */
  add(sums: BigInt64Array): void {
    this.#markets += 1;
    const [pnl = 0n] = sums;
    if (pnl > 0n) this.#wins += 1;
    for (let at = 0; at < BOOKINGS; at++)
      this.#sums[at] = (this.#sums[at] ?? 0n) + (sums[at] ?? 0n);
  }

  of(tags: readonly string[]): TagSums {
    const [pnl = 0n, cost = 0n, makerVolume = 0n, takerVolume = 0n, unweighted = 0n] = this.#sums;
    const amounts = { pnl, cost, makerVolume, takerVolume, unweighted };
    return { ...amounts, tags, markets: this.#markets, wins: this.#wins };
  }
}

function totalOf(window: Map<TagSet, Totals> | undefined, tagSet: TagSet): Totals {
  const known = window?.get(tagSet);
  if (known !== undefined) return known;
  const total = new Totals();
  window?.set(tagSet, total);
  return total;
}

/**
 * The usdc · (1 − price) of a taker's fill, micro-USDC. With price = usdc / shares, it is usdc · (shares − usdc) / shares,
 * rounded down.
 */
export const UNWEIGHTED = 'intDivOrZero(toInt128(usdc) * (shares - usdc), shares)';

const Row = rowOf({
  conditionId: hexText('condition_id'),
  band: counted('arrayCount(begin -> block_time < begin, {begins:Array(UInt32)}) AS band'),
  tagLines: string(MARKET_TAG_LINES),
  series: string(MARKET_SERIES),
  pnl: int('sum(realised_pnl)'),
  cost: int('sum(realised_cost)'),
  makerVolume: int("sumIf(usdc, kind = 'fill' AND NOT is_taker)"),
  takerVolume: int('sumIf(usdc, is_taker)'),
  /** One that does not fit 64 bits, which no price up to 1 USDC gives, fails instead of being another number. */
  unweighted: int(`accurateCast(sumIf(${UNWEIGHTED}, is_taker), 'Int64')`),
  bookings: counted('count()'),
  newest: seconds("maxIf(block_time, kind = 'fill')"),
});

const SQL = `
SELECT ${Row.columns}
FROM bookings
WHERE trader = {trader:FixedString(20)} AND block_time >= toDateTime({since:UInt32}, 'UTC')
  AND block_time <= toDateTime({now:UInt32}, 'UTC') AND block_number <= {block:UInt64} AND ${IS_COUNTED}
GROUP BY condition_id, band
${ROWS_OF_A_WALLET}`;

/**
 * The trader's cells, and the time of the newest fill in the longest window, 0 without one. Windows end at `now`, seconds
 * since the epoch. Throws Problem 503 if ClickHouse is unavailable.
 */
export async function readCells(
  reading: Reading,
  wanted: { readonly trader: string; readonly now: number; readonly block: number },
  markets: Markets,
) {
  const { trader, now, block } = wanted;
  const begins = beginsOf(now);
  const parameters = {
    ...{ trader: new Bytes(trader), now, block },
    ...{ since: begins.at(-1), begins: `[${begins}]` },
  };
  const rows = await read(reading, { sql: SQL, parameters, row: Row });
  const own = rows.map((row) => ({ row, market: markets.of(row.conditionId, row) }));
  // In the order of the cells, so that none has to be moved.
  own.sort((a, b) => a.market.number - b.market.number || a.row.band - b.row.band);
  const cells = new Cells(markets, rows.length);
  let newestFill = 0;
  for (const { row, market } of own) {
    cells.add(market, row.band, row, row.bookings);
    newestFill = Math.max(newestFill, row.newest);
  }
  return { cells, newestFill };
}
