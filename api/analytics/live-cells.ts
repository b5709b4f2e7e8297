/**
 * The cells of the traders who were asked for, in memory: what is stored enters them, and the bookings that leave a window
 * move on to the next band. This file does no I/O; live-memory.ts and live-traders.ts do. All traders are as of the same second
 * and of the same block.
 */
import type { Pool } from './live-pool.ts';
import { WINDOW_LENGTHS } from './time-frames.ts';
import {
  type Amounts,
  beginsOf,
  Cells,
  type Labels,
  Markets,
  type TagSums,
} from './trader-cells.ts';

/** What leaves a window is read so far ahead, and again when half of it is left. */
const AHEAD_SECONDS = 60;
/** Bytes of memory without the cells, estimated. */
const TRADER_BYTES = 1_000;
/** Of the sums of a window over the markets with equal tags. */
const SUMS_BYTES = 250;
/** Fewer cells are added up for each request, because their sums would take more memory than they do. */
const KEPT_CELLS_MIN = 100;

/** A fill or settlement. Amounts are in micro-USDC, the time is in seconds since the epoch. */
export type Logged = Amounts & {
  readonly trader: string;
  readonly conditionId: string;
  readonly time: number;
  readonly isFill: boolean;
};

/** Seconds since the epoch: from `from` until before `to`. */
export type Period = { readonly from: number; readonly to: number };

/** A trader whose cells are in memory, or are being read. */
export type Live = {
  readonly trader: string;
  cells: Cells;
  /** Time of the newest fill of all, seconds since the epoch; 0 without one. */
  lastTradeAt: number;
  /** What happens while the cells are being read. It counts afterwards. */
  waiting: (() => void)[] | undefined;
  /** Settles when they were read. */
  loaded: Promise<void> | undefined;
  /** What `windows` returned, if it is kept, until a cell or a tag changes. */
  windows: { readonly sums: readonly (readonly TagSums[])[]; readonly changes: number } | undefined;
  readonly bytes: () => number;
};

/** Bookings that leave a window next, in the order of time; all of those before `readTo`. */
type Leaving = { rows: readonly Logged[]; next: number; readTo: number };

export class LiveCells {
  #now: number;
  /** By window, shortest first. */
  readonly #leaving: readonly Leaving[];
  readonly #traders: Pool<Live>;
  /** Of all traders. */
  readonly markets = new Markets();

  /** Windows end at `now`, seconds since the epoch. */
  constructor({ now, traders }: { readonly now: number; readonly traders: Pool<Live> }) {
    this.#now = now;
    this.#leaving = beginsOf(now).map((readTo) => ({ rows: [], next: 0, readTo }));
    this.#traders = traders;
  }

  /** The second at which all windows end. */
  get now(): number {
    return this.#now;
  }

  /** The trader, if there is room and it was asked for before. */
  find(trader: string): Live | undefined {
    return this.#traders.find(trader);
  }

  /** Whether the trader is still followed. */
  has(live: Live): boolean {
    return this.#traders.has(live);
  }

  /** Begins to follow a trader, whose cells the caller reads as of now. */
  begin(trader: string): Live {
    const live: Live = {
      ...{ trader, cells: new Cells(this.markets), lastTradeAt: 0 },
      ...{ waiting: [], loaded: undefined, windows: undefined },
      bytes() {
        const sums = live.windows?.sums.reduce((count, window) => count + window.length, 0) ?? 0;
        return TRADER_BYTES + live.cells.bytes + sums * SUMS_BYTES;
      },
    };
    this.#traders.add(live);
    return live;
  }

  /** For each window, shortest first, sums over the trader's markets with equal tags. */
  windows(live: Live): readonly (readonly TagSums[])[] {
    const { changes } = this.markets;
    if (live.windows?.changes === changes) return live.windows.sums;
    const sums = live.cells.windows();
    live.windows = live.cells.size < KEPT_CELLS_MIN ? undefined : { sums, changes };
    this.#traders.measure(live);
    return sums;
  }

  /** Sets the cells as of the time of `begin`; their markets are those of this object. */
  fill(live: Live, known: Pick<Live, 'cells' | 'lastTradeAt'>) {
    live.cells = known.cells;
    live.lastTradeAt = known.lastTradeAt;
    const { waiting = [] } = live;
    live.waiting = undefined;
    for (const change of waiting) change();
    this.#traders.measure(live);
  }

  /** Stops following a trader whose cells could not be read. */
  drop(live: Live): void {
    this.#traders.drop(live);
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
        this.#change(row.trader, (live) => this.#leave(live, row, window));
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
        if (row.isFill) live.lastTradeAt = Math.max(live.lastTradeAt, row.time);
        live.cells.add(this.markets.of(row.conditionId, row), 0, row);
      });
    }
  }

  /** Sets the labels of a market that a trader is in. */
  relabel(conditionId: string, labels: Labels): void {
    if (this.markets.find(conditionId) !== undefined) this.markets.of(conditionId, labels);
  }

  #change(trader: string, change: (live: Live) => void): void {
    const live = this.#traders.peek(trader);
    if (live === undefined) return;
    live.windows = undefined;
    if (live.waiting === undefined) change(live);
    else live.waiting.push(() => change(live));
  }

  /** Moves a booking from the band of the window that it leaves to the next one. */
  #leave(live: Live, row: Logged, window: number): void {
    const market = this.markets.find(row.conditionId);
    if (market === undefined) throw new RangeError(`${row.conditionId} is unknown`);
    live.cells.take(market, window, row);
    if (window + 1 < WINDOW_LENGTHS.length) live.cells.add(market, window + 1, row);
  }
}
