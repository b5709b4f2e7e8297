/** Live sums equal what statements read, while bookings are stored, windows pass, and tables, tags and clocks change. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { createLiveTraders, type LiveTraders } from '../../api/analytics/live-traders.ts';
import type { Reading } from '../../api/analytics/query.ts';
import { WINDOW_LENGTHS } from '../../api/analytics/time-frames.ts';
import { createSelect, type Select, StoreUnreachableError } from '../../infra/clickhouse.ts';
import {
  addressOf,
  type Booking,
  conditionOf,
  insertBookings,
  insertListings,
  MARKETS,
  makeBookings,
} from '../support/api-bookings.ts';
import { DATABASE, type Schema, startSchema } from '../support/stack.ts';

const TRADERS = Array.from({ length: 12 }, (_, number) => addressOf(number));
const START = Date.UTC(2026, 4, 17, 14, 22, 33) / 1_000;
const BYTES_MAX = 8 * 1024 * 1024;
/** More than the pause until the tables are looked at again. */
const LATER_MS = 2_500;
const SMALL_BYTES_MAX = 12_000;

let clickhouse: Schema;
let reads = 0;
let isBroken = false;
/** Seconds since the epoch. */
let now = START;
let monotonicMs = 0;
let newest: Booking[] = [];
/** What the projectors have stored; undefined while they are silent. */
let stored: { readonly block: number; readonly time: number } | undefined;
let own: Reading;
let live: LiveTraders;
/** With room for some of the traders. */
let small: LiveTraders;
let plain: LiveTraders;

beforeAll(async () => {
  clickhouse = await startSchema();
  const select = createSelect({ url: clickhouse.url, database: DATABASE, name: 'test' });
  const counted: Select = (statement) => {
    reads += 1;
    const failed = new StoreUnreachableError('broken by the test');
    return isBroken ? Promise.reject(failed) : select(statement);
  };
  own = { select: counted, queryMsMax: 30_000, signal: null };
  const create = (bytesMax: number) =>
    createLiveTraders({
      reading: own,
      states: {
        of: () => [{ name: 'projector', reasons: {}, reached: stored?.time ?? 0, ...blockOf() }],
      },
      now: () => now * 1_000,
      monotonicNow: () => monotonicMs,
      bytesMax,
    });
  live = create(BYTES_MAX);
  small = create(SMALL_BYTES_MAX);
  plain = create(0);
  newest = makeBookings(1, START, 3_000, TRADERS.length);
  await insertBookings(clickhouse.client, newest, 1);
  await insertListings(clickhouse.client, START - 7_200);
  isStored();
});

afterAll(() => clickhouse?.stop());

/** Fills the memory. */
beforeEach(async () => {
  await expectEqual();
  await expectEqual();
});

const blockOf = () => (stored === undefined ? {} : { block: stored.block });

/** The projectors have stored everything. */
function isStored(): void {
  const { block, time } = newest.at(-1) ?? { block: 0, time: 0 };
  stored = { block, time: Math.max(time, now - 2) };
}

/** Stores bookings of the last second, after all others, the same for the same time. */
async function store(count = 5): Promise<void> {
  const after = newest.at(-1)?.block ?? 0;
  newest = makeBookings(now, now, count, TRADERS.length).map((row, index) => ({
    ...row,
    ...{ block: after + 1 + index, time: now - 1 },
  }));
  await insertBookings(clickhouse.client, newest, now);
}

/** Resolves a market in the newest block. */
async function resolve(market: number): Promise<void> {
  await clickhouse.client.insert({
    table: 'resolutions',
    format: 'JSONEachRow',
    columns: [
      ...(['condition_id_hex', 'payout_0', 'payout_1', 'resolved_at', 'block_number'] as const),
      'log_index',
    ],
    values: [
      {
        ...{ condition_id_hex: conditionOf(market), payout_0: 3, payout_1: 1 },
        ...{ resolved_at: now - 1, block_number: newest.at(-1)?.block, log_index: 999 },
      },
    ],
  });
}

/** What each trader's response is computed from. */
async function answers(of: LiveTraders) {
  return await Promise.all(
    TRADERS.map(async (trader) => {
      const { windows, lastTradeAt } = await of.recent(own, trader);
      const positions = await of.positions(own, trader, { isOpen: false });
      const conditionIds = positions.holdings.map(({ conditionId }) => conditionId).toSorted();
      const marks = await of.marks(own, conditionIds, { trader, isLive: positions.isLive });
      return {
        lastTradeAt,
        windows: windows.map((sums) => sortedBy(sums, ({ tags }) => `${tags}`)),
        holdings: sortedBy(positions.holdings, ({ conditionId }) => conditionId),
        heldMarks: sortedBy([...positions.marks], ([id]) => id),
        marks: sortedBy([...marks], ([id]) => id),
      };
    }),
  );
}

function sortedBy<One>(all: readonly One[], key: (one: One) => string): readonly One[] {
  return all.toSorted((a, b) => (key(a) < key(b) ? -1 : 1));
}

async function expectEqual(): Promise<void> {
  monotonicMs += LATER_MS;
  expect(await answers(live)).toEqual(await answers(plain));
}

async function readsOf(work: () => Promise<unknown>): Promise<number> {
  const before = reads;
  await work();
  return reads - before;
}

const run = (query: string) => clickhouse.client.command({ query });

describe('live sums', () => {
  test('equal statements while bookings are stored and windows end later and later', async () => {
    for (const [step, seconds] of [1, 0, 59, 30, 7, 45, 2, 58, 1, 33].entries()) {
      now += seconds;
      await store();
      // The first two are traded and resolved already.
      if (step % 3 === 2) await resolve(step);
      isStored();
      monotonicMs += LATER_MS;
      const most = 4 + WINDOW_LENGTHS.length;
      expect(await readsOf(() => answers(live))).toBeLessThanOrEqual(most);
      const expected = await answers(plain);
      expect(await answers(live)).toEqual(expected);
      expect(await answers(small)).toEqual(expected);
    }
  });

  test('leave when there is no room, and statements answer where they left too soon', async () => {
    await answers(small);
    const { bytes, entries, answered } = small.figures();
    expect(bytes).toBeLessThanOrEqual(SMALL_BYTES_MAX);
    expect(entries).toBeLessThan(live.figures().entries);
    expect(answered.memory).toBeGreaterThan(0);
    expect(answered.statements).toBeGreaterThan(0);
  });

  test('need no statement', async () => {
    monotonicMs += LATER_MS;
    await answers(live);
    expect(await readsOf(() => answers(live))).toBe(0);
    expect(await readsOf(() => answers(plain))).toBeGreaterThan(3 * TRADERS.length);
  });

  test('are read again after a read that failed', async () => {
    now += 90;
    monotonicMs += LATER_MS;
    // Begins a new memory.
    await live.recent(own, TRADERS[0] ?? '');
    isBroken = true;
    await expect(answers(live)).rejects.toThrow();
    isBroken = false;
    await expectEqual();
  });

  test('count no block before all projectors have stored it', async () => {
    const before = await answers(live);
    await store();
    monotonicMs += LATER_MS;
    expect(await answers(live)).toEqual(before);
    isStored();
    await expectEqual();
    expect(await answers(live)).not.toEqual(before);
  });

  test('follow a changed tag', async () => {
    await run(
      `INSERT INTO markets SELECT * REPLACE (['crypto', 'nba'] AS tags, now64(3) AS observed_at, now() AS stored_at)
        FROM markets FINAL WHERE market_id = ${MARKETS[0]?.id}`,
    );
    await run('SYSTEM RELOAD DICTIONARY market_dictionary');
    const before = await answers(live);
    await expectEqual();
    expect(await answers(live)).not.toEqual(before);
  });

  test('are sums of one series, too', async () => {
    for (const trader of TRADERS) {
      const [mine, theirs] = await Promise.all(
        [live, plain].map((of) => of.recent(own, trader, 'series-x')),
      );
      expect(mine?.windows.at(-1)).toHaveLength(theirs?.windows.at(-1)?.length ?? 0);
      expect(mine?.windows.flat().map(({ pnl }) => pnl)).toEqual(
        expect.arrayContaining(theirs?.windows.flat().map(({ pnl }) => pnl) ?? []),
      );
    }
  });

  test.each<readonly [string, () => unknown]>([
    ['another table is in its place', exchangeTable],
    ['bookings were deleted', deleteBookings],
    ['the projectors are silent', () => (stored = undefined)],
    ['the projectors are far behind', () => (stored = { ...NOWHERE, time: now - 3_000 })],
    ['the clock goes back', () => (now -= 1)],
    ['the clock jumps', () => (now += 4_000)],
    ['nobody asks for a while', () => (now += 90)],
  ])('are forgotten when %s', async (_, happens) => {
    await happens();
    if (stored !== undefined && stored.time >= now - 600) isStored();
    await expectEqual();
    isStored();
    await expectEqual();
    await expectEqual();
    monotonicMs += LATER_MS;
    await answers(live);
    expect(await readsOf(() => answers(live))).toBe(0);
  });
});

const NOWHERE = { block: 1 };

/** As a rebuild does; the new tables have one booking less. */
async function exchangeTable(): Promise<void> {
  for (const table of ['bookings', 'bookings_by_time']) {
    await run(`CREATE TABLE new_${table} AS ${table}`);
    await run(
      `INSERT INTO new_${table} SELECT * FROM ${table} WHERE block_number != ${newest[0]?.block}`,
    );
    await run(`EXCHANGE TABLES ${table} AND new_${table}`);
    await run(`DROP TABLE new_${table}`);
  }
}

async function deleteBookings(): Promise<void> {
  for (const table of ['bookings', 'bookings_by_time']) {
    await run(
      `ALTER TABLE ${table} DELETE WHERE block_number = ${newest[1]?.block} SETTINGS mutations_sync = 1`,
    );
  }
}
