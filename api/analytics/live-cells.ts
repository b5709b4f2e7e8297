/**
 * The cells of the traders who were asked for, in memory: what is stored enters them, and the bookings that leave a window
 * move on to the next band. This file does no I/O; live-memory.ts and live-traders.ts do. All traders are as of the same second
 * and of the same block.
 */
import { LRUCache } from 'lru-cache';
import { WINDOW_LENGTHS } from './time-frames.ts';
import {
  type Amounts,
  addAmounts,
  beginsOf,
  type Cell,
  type Labels,
  NOTHING,
  type Pair,
  sumWindows,
  type TagSums,
} from './trader-cells.ts';

/** What leaves a window is read so far ahead, and again when half of it is left. */
const AHEAD_SECONDS = 60;
/** Bytes of memory, estimated on the safe side. */
const TRADER_BYTES = 1_000;
const PAIR_BYTES = 800;

/** A fill or settlement. Amounts are in micro-USDC, the time is in seconds since the epoch. */
export type Logged = Readonly<Amounts> & {
  readonly trader: string;
  readonly conditionId: string;
  readonly time: number;
  readonly isFill: boolean;
};

/** Seconds since the epoch: from `from` until before `to`. */
export type Period = { readonly from: number; readonly to: number };

/** A trader whose cells are in memory, or are being read. */
export type Live = {
  /** By condition id. */
  readonly pairs: Map<string, Pair>;
  /** Time of the newest fill of all, seconds since the epoch; 0 without one. */
  lastTradeAt: number;
  /** What happens while the cells are being read. It counts afterwards. */
  waiting: (() => void)[] | undefined;
  /** Settles when they were read. */
  loaded: Promise<void> | undefined;
  /** What `windows` returned, until something changes. */
  windows: readonly (readonly TagSums[])[] | undefined;
};

/** Bookings that leave a window next, in the order of time; all of those before `readTo`. */
type Leaving = { rows: readonly Logged[]; next: number; readTo: number };

export class LiveCells {
  #now: number;
  /** By window, shortest first. */
  readonly #leaving: readonly Leaving[];
  readonly #traders: LRUCache<string, Live>;
  /** By condition id; shared by all traders, so that a changed tag applies to all. */
  readonly #labels = new Map<string, Labels>();

  /** Windows end at `now`, seconds since the epoch. */
  constructor({ now, bytesMax }: { readonly now: number; readonly bytesMax: number }) {
    this.#now = now;
    this.#leaving = beginsOf(now).map((readTo) => ({ rows: [], next: 0, readTo }));
    this.#traders = new LRUCache({
      maxSize: bytesMax,
      sizeCalculation: ({ pairs }) => TRADER_BYTES + pairs.size * PAIR_BYTES,
    });
  }

  /** The second at which all windows end. */
  get now(): number {
    return this.#now;
  }

  /** Estimated bytes of memory, traders, and markets with known labels. */
  get size() {
    return {
      bytes: this.#traders.calculatedSize,
      traders: this.#traders.size,
      markets: this.#labels.size,
    };
  }

  /** The trader, if there is room and it was asked for before. */
  find(trader: string): Live | undefined {
    const live = this.#traders.get(trader);
    // It may have grown.
    if (live !== undefined) this.#traders.set(trader, live);
    return live;
  }

  /** Begins to follow a trader, whose cells the caller reads as of now. */
  begin(trader: string): Live {
    const live: Live = {
      ...{ pairs: new Map(), lastTradeAt: 0 },
      ...{ waiting: [], loaded: undefined, windows: undefined },
    };
    this.#traders.set(trader, live);
    return live;
  }

  /** For each window, shortest first, sums over the trader's markets with equal tags. */
  windows(live: Live): readonly (readonly TagSums[])[] {
    live.windows ??= sumWindows(live.pairs.values());
    return live.windows;
  }

  /** Sets the cells as of the time of `begin`. */
  fill(
    live: Live,
    known: { readonly pairs: Iterable<[string, Pair]>; readonly lastTradeAt: number },
  ) {
    for (const [conditionId, { cells, labels }] of known.pairs) {
      live.pairs.set(conditionId, { labels: this.#labelsOf(conditionId, labels), cells });
    }
    live.lastTradeAt = known.lastTradeAt;
    const { waiting = [] } = live;
    live.waiting = undefined;
    for (const change of waiting) change();
  }

  /** Stops following a trader whose cells could not be read. */
  drop(trader: string, live: Live): void {
    if (this.#traders.peek(trader) === live) this.#traders.delete(trader);
  }

  /** For each window, the period whose bookings have to be read so that it can advance to `now` and a while longer. */
  unread(now: number): readonly (Period | undefined)[] {
    const begins = beginsOf(now);
    return this.#leaving.map(({ readTo: from }, window) => {
      const to = (begins[window] ?? 0) + AHEAD_SECONDS;
      return from < to - AHEAD_SECONDS / 2 ? { from, to } : undefined;
    });
  }

  /** Adds all bookings of the period that `unread` returned for this window, in the order of time. */
  queue(window: number, period: Period, rows: readonly Logged[]): void {
    const leaving = this.#leaving[window];
    if (leaving?.readTo !== period.from) throw new Error('bookings of another period expected');
    leaving.rows = [...leaving.rows.slice(leaving.next), ...rows];
    leaving.next = 0;
    leaving.readTo = period.to;
  }

  /** Lets all windows end at `now`. Returns whether it could: not back in time, and only as far as bookings were read. */
  advance(now: number): boolean {
    if (now === this.#now) return true;
    const begins = beginsOf(now);
    const isRead = this.#leaving.every(({ readTo }, window) => (begins[window] ?? 0) <= readTo);
    if (now < this.#now || !isRead) return false;
    for (const [window, leaving] of this.#leaving.entries()) {
      const begin = begins[window] ?? 0;
      for (;;) {
        const row = leaving.rows[leaving.next];
        if (row === undefined || row.time >= begin) break;
        leaving.next += 1;
        this.#change(row.trader, (live) => leave(live, row, window));
      }
    }
    this.#now = now;
    return true;
  }

  /** Adds bookings that were stored. All of them are in the shortest window. */
  enter(rows: readonly (Logged & Labels)[]): void {
    const [begin = 0] = beginsOf(this.#now);
    for (const row of rows) {
      if (row.time < begin || row.time > this.#now) throw new RangeError('not in the last hour');
      this.#change(row.trader, (live) => {
        enter(live, row, this.#labelsOf(row.conditionId, row));
      });
    }
  }

  /** Sets the labels of a market. */
  relabel(conditionId: string, labels: Labels): void {
    if (this.#labels.has(conditionId)) this.#labelsOf(conditionId, labels);
  }

  #labelsOf(conditionId: string, { tags, series }: Labels): Labels {
    const known = this.#labels.get(conditionId);
    if (known === undefined) {
      const labels = { tags, series };
      this.#labels.set(conditionId, labels);
      return labels;
    }
    if (known.series === series && `${known.tags}` === `${tags}`) return known;
    for (const live of this.#traders.values()) live.windows = undefined;
    return Object.assign(known, { tags, series });
  }

  #change(trader: string, change: (live: Live) => void): void {
    const live = this.#traders.peek(trader);
    if (live === undefined) return;
    live.windows = undefined;
    if (live.waiting === undefined) change(live);
    else live.waiting.push(() => change(live));
  }
}

function enter(live: Live, row: Logged, labels: Labels): void {
  if (row.isFill) live.lastTradeAt = Math.max(live.lastTradeAt, row.time);
  let pair = live.pairs.get(row.conditionId);
  if (pair === undefined) {
    pair = { labels, cells: [] };
    live.pairs.set(row.conditionId, pair);
  }
  add(pair.cells, 0, row);
}

/** Moves a booking from the band of the window that it leaves to the next one. */
function leave(live: Live, row: Logged, window: number): void {
  const cells = live.pairs.get(row.conditionId)?.cells;
  const cell = cells?.[window];
  if (cells === undefined || cell === undefined) {
    throw new Error(`${row.trader} has no booking that could leave window ${window}`);
  }
  addAmounts(cell, row, -1n);
  cell.bookings -= 1;
  if (cell.bookings === 0) cells[window] = undefined;
  if (window + 1 < WINDOW_LENGTHS.length) add(cells, window + 1, row);
  if (cells.every((one) => one === undefined)) live.pairs.delete(row.conditionId);
}

/** Adds a booking to the cell of a band. */
function add(cells: (Cell | undefined)[], band: number, row: Logged): void {
  const cell = cells[band] ?? { ...NOTHING, bookings: 0 };
  addAmounts(cell, row);
  cell.bookings += 1;
  cells[band] = cell;
}
