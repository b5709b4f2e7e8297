import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Live, LiveCells, type Logged } from '../../api/analytics/live-cells.ts';
import { LivePool } from '../../api/analytics/live-pool.ts';
import { WINDOW_LENGTHS } from '../../api/analytics/time-frames.ts';
import { Cells, Markets, type TagSums } from '../../api/analytics/trader-cells.ts';

const START = 1_790_000_000;
const TRADERS = ['0xa', '0xb', '0xc'];
const MARKETS = ['0x1', '0x2', '0x3', '0x4'];
/** Two markets have equal tags. */
const labelsOf = (market: string) => ({
  tagLines: market === '0x1' || market === '0x2' ? 'sports\nnba' : 'crypto',
  series: market === '0x1' ? 'nba' : '',
});

/** Some happen while the test runs, the others leave a window meanwhile. */
const booking = fc
  .record({
    trader: fc.constantFrom(...TRADERS),
    conditionId: fc.constantFrom(...MARKETS),
    at: fc.integer({ min: -90, max: 300 }),
    length: fc.constantFrom(0, ...WINDOW_LENGTHS),
    isFill: fc.boolean(),
    isTaker: fc.boolean(),
    pnl: fc.oneof(
      fc.bigInt({ min: -5n, max: 5n }),
      fc.bigInt({ min: -(2n ** 56n), max: 2n ** 56n }),
    ),
    usdc: fc.oneof(fc.bigInt({ min: 0n, max: 9n }), fc.bigInt({ min: 0n, max: 2n ** 56n })),
  })
  .map(({ at, length, isTaker, usdc, ...rest }): Logged => {
    const isTaken = rest.isFill && isTaker;
    return {
      ...rest,
      time: START + at - length,
      cost: usdc,
      makerVolume: rest.isFill && !isTaker ? usdc : 0n,
      takerVolume: isTaken ? usdc : 0n,
      unweighted: isTaken ? usdc + 1n : 0n,
    };
  });
const log = fc
  .array(booking, { minLength: 1, maxLength: 60 })
  .map((rows) => rows.toSorted((a, b) => a.time - b.time));

/** So many markets that the sums of the trader's windows are kept. No booking leaves a window here. */
const MANY = Array.from({ length: 100 }, (_, i) => `0xf${i}`);
const BUSY = MANY.map((conditionId): Logged => {
  const amounts = { pnl: 2n, cost: 3n, makerVolume: 4n, takerVolume: 0n, unweighted: 0n };
  return { ...amounts, trader: '0xa', conditionId, time: START - 2_000, isFill: true };
});

const AMOUNTS = { pnl: 1n, cost: 0n, makerVolume: 0n, takerVolume: 0n, unweighted: 0n };

const step = fc.record({
  seconds: fc.integer({ min: 0, max: 45 }),
  /** How many seconds the projectors are behind. */
  behind: fc.integer({ min: 0, max: 20 }),
  asked: fc.constantFrom(undefined, ...TRADERS),
  /** Steps until the cells are read. */
  takes: fc.integer({ min: 0, max: 3 }),
});

/** The trader's cells as a statement reads them: of all bookings up to `stored`, in windows that end at `now`. */
function cellsOf(rows: readonly Logged[], trader: string, now: number, markets: Markets) {
  const cells = new Cells(markets);
  const own = rows.filter((one) => one.trader === trader);
  for (const row of own) {
    const band = WINDOW_LENGTHS.findIndex((length) => row.time >= now - length);
    if (band !== -1) cells.add(markets.of(row.conditionId, labelsOf(row.conditionId)), band, row);
  }
  const fills = own.filter(({ isFill }) => isFill);
  return { cells, lastTradeAt: Math.max(0, ...fills.map(({ time }) => time)) };
}

/** What the windows must be, window by window and market by market. */
function windowsOf(rows: readonly Logged[], trader: string, now: number) {
  return WINDOW_LENGTHS.map((length) => {
    const own = rows.filter((one) => one.trader === trader && one.time >= now - length);
    const byTags = Map.groupBy(own, ({ conditionId }) => labelsOf(conditionId).tagLines);
    return [...byTags].map(([tags, all]): TagSums => {
      const sum = (name: 'pnl' | 'cost' | 'makerVolume' | 'takerVolume' | 'unweighted') =>
        all.reduce((total, row) => total + row[name], 0n);
      const markets = Map.groupBy(all, ({ conditionId }) => conditionId);
      const pnls = [...markets.values()].map((of) =>
        of.reduce((total, { pnl }) => total + pnl, 0n),
      );
      return {
        ...{ tags: tags.split('\n'), pnl: sum('pnl'), cost: sum('cost') },
        ...{ makerVolume: sum('makerVolume'), takerVolume: sum('takerVolume') },
        ...{ unweighted: sum('unweighted'), markets: markets.size },
        wins: pnls.filter((pnl) => pnl > 0n).length,
      };
    });
  });
}

/** By tags, because the order of the markets does not matter. */
const sorted = (windows: readonly (readonly TagSums[])[]) =>
  windows.map((sums) => sums.toSorted((a, b) => (a.tags.join() < b.tags.join() ? -1 : 1)));

describe('live cells', () => {
  test('equal a fresh read at the same block and second, at any time', () => {
    const property = fc.property(log, fc.array(step, { maxLength: 12 }), (random, steps) => {
      const rows = [...random, ...BUSY].toSorted((a, b) => a.time - b.time);
      const cells = new LiveCells({ now: START, traders: new LivePool(1_000_000).kind('cells') });
      let stored = rows.filter(({ time }) => time <= START);
      const loads: { live: Live; found: ReturnType<typeof cellsOf>; left: number }[] = [];
      const known = new Map<string, Live>();
      let now = START;
      for (const { seconds, behind, asked, takes } of steps) {
        now += seconds;
        for (const [window, period] of cells.unread(now).entries()) {
          if (period === undefined) continue;
          const { from, to } = period;
          const leaving = rows.filter(({ time }) => time >= from && time < to);
          cells.queue(window, period, leaving);
        }
        expect(cells.advance(now)).toBe(true);
        const next = rows.filter(({ time }) => time <= now - behind);
        if (next.length > stored.length) {
          const entering = next.slice(stored.length);
          cells.enter(entering.map((row) => ({ ...row, ...labelsOf(row.conditionId) })));
          stored = next;
        }
        if (asked !== undefined && cells.find(asked) === undefined) {
          const live = cells.begin(asked);
          known.set(asked, live);
          const found = cellsOf(stored, asked, now, cells.markets);
          loads.push({ live, found, left: takes });
        }
        for (const load of loads) {
          if (load.left === 0) cells.fill(load.live, load.found);
          load.left -= 1;
        }
        for (const [trader, live] of known) {
          if (live.waiting !== undefined) continue;
          const counted = cellsOf(stored, trader, now, new Markets());
          expect(live.lastTradeAt).toBe(counted.lastTradeAt);
          expect(live.cells.size).toBe(counted.cells.size);
          const expected = sorted(windowsOf(stored, trader, now));
          expect(sorted(cells.windows(live))).toEqual(expected);
          expect(sorted(counted.cells.windows())).toEqual(expected);
        }
      }
    });
    fc.assert(property);
  });

  test('do not go back in time, nor beyond what was read', () => {
    const cells = new LiveCells({ now: START, traders: new LivePool(1_000).kind('cells') });
    expect(cells.advance(START - 1)).toBe(false);
    expect(cells.advance(START + 1)).toBe(false);
    for (const [window, period] of cells.unread(START + 1).entries()) {
      if (period !== undefined) cells.queue(window, period, []);
    }
    expect(cells.advance(START + 61)).toBe(true);
    expect(cells.advance(START + 62)).toBe(false);
  });

  test('of the trader who was not asked for longest leave when there is no room', () => {
    const pool = new LivePool(2_500);
    const cells = new LiveCells({ now: START, traders: pool.kind('cells') });
    const none = () => ({ cells: new Cells(cells.markets), lastTradeAt: 0 });
    const [, left] = ['0xa', '0xb'].map((trader) => {
      const live = cells.begin(trader);
      cells.fill(live, none());
      return live;
    });
    expect(cells.find('0xa')).toBeDefined();
    cells.fill(cells.begin('0xc'), none());
    expect(['0xa', '0xb', '0xc'].map((trader) => cells.find(trader) !== undefined)).toEqual([
      ...[true, false, true],
    ]);
    // Whoever waited for it must not use it: it is no longer followed.
    expect(left !== undefined && cells.has(left)).toBe(false);
    expect(pool.size.bytes).toBeLessThanOrEqual(2_500);
    expect(pool.size.entries).toBe(2);
  });

  test('count with their bytes as soon as they are read, and so do their sums', () => {
    const pool = new LivePool(1_000_000);
    const cells = new LiveCells({ now: START, traders: pool.kind('cells') });
    const live = cells.begin('0xa');
    const own = new Cells(cells.markets);
    for (const market of MANY) own.add(cells.markets.of(market, labelsOf(market)), 0, AMOUNTS);
    const empty = pool.size.bytes;
    cells.fill(live, { cells: own, lastTradeAt: 0 });
    const filled = pool.size.bytes;
    expect(filled).toBe(empty + own.bytes);
    cells.windows(live);
    expect(pool.size.bytes).toBeGreaterThan(filled);
  });

  test('of a market have its new labels for every trader', () => {
    const cells = new LiveCells({ now: START, traders: new LivePool(1_000_000).kind('cells') });
    const market = cells.markets.of('0x1', { tagLines: 'crypto', series: '' });
    const lives = TRADERS.map((trader) => {
      const live = cells.begin(trader);
      const own = new Cells(cells.markets);
      own.add(market, 0, AMOUNTS);
      for (const id of trader === '0xa' ? MANY : []) {
        own.add(cells.markets.of(id, { tagLines: 'weather', series: '' }), 0, AMOUNTS);
      }
      cells.fill(live, { cells: own, lastTradeAt: 0 });
      return live;
    });
    const tagsOf = (live: Live) => cells.windows(live)[0]?.flatMap(({ tags }) => tags);
    expect(lives.map(tagsOf)).toEqual([['crypto', 'weather'], ['crypto'], ['crypto']]);
    cells.relabel('0x1', { tagLines: 'sports', series: 'nba' });
    expect(lives.map(tagsOf)).toEqual([['sports', 'weather'], ['sports'], ['sports']]);
    expect(market.series).toBe('nba');
  });
});
