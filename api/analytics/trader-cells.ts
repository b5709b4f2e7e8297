/**
 * A trader's bookings of the last 30 days as cells: sums for each market and band. A booking is in the band of the
 * shortest window that contains it, so a window is the sum of its band and of those before it. One short statement reads
 * the cells; tags and totals are added up here.
 */
import { Bytes } from '../../infra/clickhouse.ts';
import { MARKET_SERIES, MARKET_TAG_LINES } from './market-tags.ts';
import { type Reading, ROWS_OF_A_WALLET, read } from './query.ts';
import { count as counted, hexText, number, rowOf, seconds, string } from './rows.ts';
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
export type Market = { tagSet: TagSet; series: string };
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

  /** The market, which has these labels from now on. */
  of(conditionId: string, { tagLines, series }: Labels): Market {
    let tagSet = this.#tagSets.get(tagLines);
    if (tagSet === undefined) {
      tagSet = tagLines === '' ? [] : tagLines.split('\n');
      this.#tagSets.set(tagLines, tagSet);
    }
    const market = this.#markets.get(conditionId);
    if (market === undefined) {
      const added = { tagSet, series };
      this.#markets.set(conditionId, added);
      return added;
    }
    if (market.tagSet !== tagSet || market.series !== series) this.#changes += 1;
    return Object.assign(market, { tagSet, series });
  }
}

const AMOUNTS = ['pnl', 'cost', 'makerVolume', 'takerVolume', 'unweighted'] as const;
/** An amount is a 64-bit integer in two halves: how many times 2^32, and the rest. */
const BITS = 32;
const UNIT = 2 ** BITS;
const SHIFT = BigInt(BITS);
/** A cell is a row of 32-bit integers: the halves of its amounts, and these. */
const BOOKINGS = 2 * AMOUNTS.length;
const BAND = BOOKINGS + 1;
/** The row of the next cell of the market, or of the next free row. */
const NEXT = BAND + 1;
const WIDTH = NEXT + 1;
const NONE = -1;
/** Of a market's place in the map. */
const PLACE_BYTES = 56;

/**
 * The cells of a trader. Nearly all markets have one, and busy traders have thousands of markets, so they are rows of one
 * array, which take less memory than objects.
 */
export class Cells {
  /** The row of each market's first cell. */
  readonly #first = new Map<Market, number>();
  #numbers: Int32Array;
  #rows = 0;
  #free = NONE;

  /** With room for so many cells. */
  constructor(room = 0) {
    this.#numbers = new Int32Array(room * WIDTH);
  }

  /** Estimated bytes of memory. */
  get bytes(): number {
    return this.#numbers.byteLength + this.#first.size * PLACE_BYTES;
  }

  get markets(): number {
    return this.#first.size;
  }

  /** Adds a booking to a cell. */
  add(market: Market, band: number, amounts: Amounts): void {
    this.#change(this.#find(market, band) ?? this.#begin(market, band), amounts, 1);
  }

  /** Begins a cell with its sums, both halves of each amount. */
  begin(market: Market, band: number, halves: readonly number[], bookings: number): void {
    const row = this.#begin(market, band);
    for (const [column, half] of halves.entries()) this.#set(row, column, half);
    this.#set(row, BOOKINGS, bookings);
  }

  /** Takes one booking away. Throws RangeError if the cell has none. */
  take(market: Market, band: number, amounts: Amounts): void {
    const row = this.#find(market, band);
    if (row === undefined) throw new RangeError(`no booking in band ${band}`);
    this.#change(row, amounts, -1);
    if (this.#at(row, BOOKINGS) === 0) this.#end(market, row);
  }

  /** For each window, shortest first, sums over the markets with equal tags; only over those that are counted. */
  windows(isCounted: (market: Market) => boolean = () => true): readonly (readonly TagSums[])[] {
    const windows = WINDOW_LENGTHS.map(() => new Map<TagSet, Totals>());
    const bands = new Float64Array(WINDOW_LENGTHS.length * BAND);
    for (const [market, first] of this.#first) {
      if (!isCounted(market)) continue;
      bands.fill(0);
      for (let row = first; row !== NONE; row = this.#at(row, NEXT)) {
        const to = this.#at(row, BAND) * BAND;
        for (let at = 0; at < BOOKINGS; at += 2) {
          bands[to + at] = this.#at(row, at);
          bands[to + at + 1] = this.#at(row, at + 1) >>> 0;
        }
        bands[to + BOOKINGS] = this.#at(row, BOOKINGS);
      }
      for (const [window, totals] of windows.entries()) {
        const sums = bands.subarray(window * BAND, (window + 1) * BAND);
        if (window > 0) {
          for (let at = 0; at < BAND; at++) {
            sums[at] = (sums[at] ?? 0) + (bands[(window - 1) * BAND + at] ?? 0);
          }
        }
        if (sums[BOOKINGS] === 0) continue;
        let total = totals.get(market.tagSet);
        if (total === undefined) {
          total = new Totals();
          totals.set(market.tagSet, total);
        }
        total.add(sums);
      }
    }
    return windows.map((totals) => [...totals].map(([tags, total]) => total.of(tags)));
  }

  #at(row: number, column: number): number {
    return this.#numbers[row * WIDTH + column] ?? 0;
  }

  #set(row: number, column: number, value: number): void {
    this.#numbers[row * WIDTH + column] = value;
  }

  #change(row: number, amounts: Amounts, sign: 1 | -1): void {
    for (const [index, name] of AMOUNTS.entries()) {
      const amount = amounts[name];
      const added = sign * Number(BigInt.asUintN(BITS, amount));
      const rest = (this.#at(row, 2 * index + 1) >>> 0) + added;
      const units = Math.floor(rest / UNIT);
      this.#set(row, 2 * index, this.#at(row, 2 * index) + sign * Number(amount >> SHIFT) + units);
      this.#set(row, 2 * index + 1, rest - units * UNIT);
    }
    this.#set(row, BOOKINGS, this.#at(row, BOOKINGS) + sign);
  }

  #find(market: Market, band: number): number | undefined {
    let row = this.#first.get(market) ?? NONE;
    while (row !== NONE && this.#at(row, BAND) !== band) row = this.#at(row, NEXT);
    return row === NONE ? undefined : row;
  }

  /** Puts an empty cell before the other cells of the market. */
  #begin(market: Market, band: number): number {
    let row = this.#free;
    if (row !== NONE) this.#free = this.#at(row, NEXT);
    else {
      row = this.#rows;
      this.#rows += 1;
      if (this.#rows * WIDTH > this.#numbers.length) {
        const larger = new Int32Array(Math.ceil(this.#rows * 1.25 + 1) * WIDTH);
        larger.set(this.#numbers);
        this.#numbers = larger;
      }
    }
    this.#numbers.fill(0, row * WIDTH, (row + 1) * WIDTH);
    this.#set(row, BAND, band);
    this.#set(row, NEXT, this.#first.get(market) ?? NONE);
    this.#first.set(market, row);
    return row;
  }

  /** Removes a cell. */
  #end(market: Market, row: number): void {
    const next = this.#at(row, NEXT);
    let before = this.#first.get(market) ?? NONE;
    if (before !== row) {
      while (this.#at(before, NEXT) !== row) before = this.#at(before, NEXT);
      this.#set(before, NEXT, next);
    } else if (next === NONE) this.#first.delete(market);
    else this.#first.set(market, next);
    this.#set(row, NEXT, this.#free);
    this.#free = row;
  }
}

/** Sums of cells of different markets. */
class Totals {
  readonly #sums = new Float64Array(BOOKINGS);
  #markets = 0;
  #wins = 0;

  /** Adds the sums of a market. */
  add(sums: Float64Array): void {
    this.#markets += 1;
    const [units = 0, rest = 0] = sums;
    if (units * UNIT + rest > 0) this.#wins += 1;
    for (let at = 0; at < BOOKINGS; at++) this.#sums[at] = (this.#sums[at] ?? 0) + (sums[at] ?? 0);
  }

  of(tags: readonly string[]): TagSums {
    const [pnl = 0n, cost = 0n, makerVolume = 0n, takerVolume = 0n, unweighted = 0n] = AMOUNTS.map(
      (_, index) => {
        const [units = 0, rest = 0] = this.#sums.subarray(2 * index);
        return (BigInt(units) << SHIFT) + BigInt(rest);
      },
    );
    const amounts = { pnl, cost, makerVolume, takerVolume, unweighted };
    return { ...amounts, tags, markets: this.#markets, wins: this.#wins };
  }
}

/**
 * The usdc · (1 − price) of a taker's fill, micro-USDC. With price = usdc / shares, it is usdc · (shares − usdc) / shares,
 * rounded down.
 */
export const UNWEIGHTED = 'intDivOrZero(toInt128(usdc) * (shares - usdc), shares)';

/** The halves of a sum, as numbers: from decimal text, each would become a bigint first. */
const units = (sum: string) => number(`toFloat64(bitShiftRight(${sum}, ${BITS}))`);
const rest = (sum: string) => number(`toFloat64(bitAnd(${sum}, ${UNIT - 1}))`);
const PNL = 'sum(realised_pnl)';
const COST = 'sum(realised_cost)';
const MAKER = "sumIf(usdc, kind = 'fill' AND NOT is_taker)";
const TAKER = 'sumIf(usdc, is_taker)';
/** Of 128 bits. One that does not fit 64, which no price up to 1 USDC gives, fails instead of being another number. */
const UNWEIGHTED_SUM = `accurateCast(sumIf(${UNWEIGHTED}, is_taker), 'Int64')`;

const Row = rowOf({
  conditionId: hexText('condition_id'),
  band: counted('arrayCount(begin -> block_time < begin, {begins:Array(UInt32)}) AS band'),
  tagLines: string(MARKET_TAG_LINES),
  series: string(MARKET_SERIES),
  pnlUnits: units(PNL),
  pnlRest: rest(PNL),
  costUnits: units(COST),
  costRest: rest(COST),
  makerUnits: units(MAKER),
  makerRest: rest(MAKER),
  takerUnits: units(TAKER),
  takerRest: rest(TAKER),
  unweightedUnits: units(UNWEIGHTED_SUM),
  unweightedRest: rest(UNWEIGHTED_SUM),
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
  const cells = new Cells(rows.length);
  let newestFill = 0;
  for (const row of rows) {
    const { bookings, pnlUnits, pnlRest, costUnits, costRest, makerUnits, makerRest } = row;
    const { takerUnits, takerRest, unweightedUnits, unweightedRest } = row;
    const sums = [
      ...[pnlUnits, pnlRest, costUnits, costRest, makerUnits, makerRest],
      ...[takerUnits, takerRest, unweightedUnits, unweightedRest],
    ];
    cells.begin(markets.of(row.conditionId, row), row.band, sums, bookings);
    newestFill = Math.max(newestFill, row.newest);
  }
  return { cells, newestFill };
}
