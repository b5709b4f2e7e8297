/**
 * The leaderboard's window to the second, its tags and its counts. The engine's clock cannot be set:
 * rows lie at every second around both edges, and the second of a reading is known when the clock
 * shows the same before and after it.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  type Booking,
  conditionOf,
  insertBookings,
  insertListings,
  MARKETS,
} from '../support/api-bookings.ts';
import { type Schema, startSchema } from '../support/schema-harness.ts';

const WINDOW_SECONDS = 3_600;
/** Rows lie this far on both sides of an edge; the test takes less. */
const MARGIN_SECONDS = 120;
const SPORTS = 0;
const ESPORTS = 1;
const CRYPTO = 2;
/** Every tag with a leaderboard. */
const TAGS = [
  ...['sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech'],
  ...['economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer'],
  ...['tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

type Row = {
  readonly tag: string;
  readonly trader: string;
  readonly pnl: number;
  readonly volume: number;
  readonly markets: number;
  readonly wins: number;
  readonly last: number;
};

let clickhouse: Schema;
let started: number;
let sequence = 0;

beforeAll(async () => {
  clickhouse = await startSchema();
  started = await clock();
  await insertListings(clickhouse.client, started);
});

afterAll(() => clickhouse?.stop());

async function clock(): Promise<number> {
  const [row] = await clickhouse.rows<{ second: number }>("SELECT toUInt32(now('UTC')) AS second");
  if (row === undefined) throw new Error('no clock');
  return row.second;
}

/** The board, and the second at which it was cut. */
async function board(seconds: number): Promise<{ second: number; rows: readonly Row[] }> {
  for (;;) {
    const second = await clock();
    const rows = await clickhouse.rows<Row>(
      `SELECT tag, concat('0x', lower(hex(trader))) AS trader, toFloat64(realised_pnl) AS pnl,
          toFloat64(volume) AS volume, markets_count AS markets, wins_count AS wins,
          toUInt32(last_trade_at) AS last
        FROM leaderboard_window(seconds = ${seconds})`,
    );
    if ((await clock()) === second) return { second, rows };
  }
}

function booking(trader: number, time: number, market: number, pnl: bigint): Booking {
  return {
    ...({ kind: 'fill', isTaker: true, side: 'BUY', outcome: 0, shares: 2n, usdc: 1n } as const),
    ...{ fee: 0n, cost: 1n, time, market, pnl, log: 1 },
    ...{ block: 1_000 + sequence, trader: wallet(trader) },
  };
}

/** Unlike those of api-bookings no two of these are the same. */
function wallet(trader: number): string {
  return `0x${trader.toString(16).padStart(40, '0')}`;
}

async function insert(rows: Booking[]): Promise<void> {
  const unique = rows.map((row, at) => ({ ...row, log: at + 1 }));
  await insertBookings(clickhouse.client, unique, sequence);
  sequence += rows.length;
}

describe('leaderboard_window', () => {
  test('takes rows of exactly its length and of now, and none a second outside', async () => {
    const edges = [started - WINDOW_SECONDS, started];
    const times = edges.flatMap((edge) =>
      Array.from({ length: 2 * MARGIN_SECONDS + 1 }, (_, i) => edge - MARGIN_SECONDS + i),
    );
    await insert(times.map((time, index) => booking(index, time, CRYPTO, 1n)));
    const { second, rows } = await board(WINDOW_SECONDS);
    const shown = new Set(rows.filter((row) => row.tag === 'all').map((row) => row.trader));
    const from = second - WINDOW_SECONDS;
    for (const [index, time] of times.entries()) {
      const isIn = time >= from && time <= second;
      expect(shown.has(wallet(index)), `${time - from} s after the start`).toBe(isIn);
    }
    // Both edges were inside what was written, so each was met from both sides.
    expect(times).toContain(from - 1);
    expect(times).toContain(from);
    expect(times).toContain(second);
    expect(times).toContain(second + 1);
  });

  test.each([
    ['4 hours', 14_400],
    ['a day', 86_400],
  ])('has the sums of the bookings of %s', async (_, length) => {
    // A minute apart, on both sides of each edge and of every hour.
    const rows = Array.from({ length: 2_000 }, (_, i) => {
      const row = booking(
        9_500 + (i % 7),
        started + 120 - i * 61,
        i % 4,
        BigInt((i * 7_919) % 201),
      );
      const paid = { ...row, cost: BigInt(i), usdc: BigInt(i % 97), pnl: row.pnl - 100n };
      return i % 5 === 0 ? { ...paid, kind: 'settlement' as const, side: 'NONE' as const } : paid;
    });
    await insert(rows);
    const { second, rows: shown } = await board(length);
    const expected = await clickhouse.rows(`
      SELECT concat('0x', lower(hex(trader))) AS trader, toFloat64(sum(net)) AS pnl, toFloat64(sum(traded)) AS volume,
        toUInt32(count()) AS markets, toUInt32(countIf(net > 0)) AS wins
      FROM
      (
        SELECT trader, condition_id, sum(realised_pnl) AS net, sumIf(usdc, kind = 'fill') AS traded
        FROM bookings
        WHERE toUInt32(block_time) BETWEEN ${second - length} AND ${second}
        GROUP BY trader, condition_id
      )
      GROUP BY trader ORDER BY trader`);
    const all = shown
      .filter(({ tag }) => tag === 'all')
      .map(({ last: _last, tag: _tag, ...row }) => row)
      .sort((a, b) => (a.trader < b.trader ? -1 : 1));
    expect(all).toEqual(expected);
    expect(all.length).toBeGreaterThan(6);
  });

  test('counts markets once, wins by their sum, and volume of fills only', async () => {
    const trader = 9_000;
    const time = started - 60;
    await insert([
      booking(trader, time, CRYPTO, 5n),
      booking(trader, time, CRYPTO, -5n),
      booking(trader, time, SPORTS, -1n),
      { ...booking(trader, time, SPORTS, 3n), kind: 'settlement', isTaker: false, side: 'NONE' },
      { ...booking(trader, time, 4, 0n), kind: 'settlement', isTaker: false, side: 'NONE' },
    ]);
    const { rows } = await board(WINDOW_SECONDS);
    const mine = rows.filter((row) => row.trader === wallet(trader));
    const all = mine.find((row) => row.tag === 'all');
    expect(all).toMatchObject({ pnl: 2, volume: 3, markets: 3, wins: 1 });
    const sports = mine.find((row) => row.tag === 'sports');
    expect(sports).toMatchObject({ pnl: 2, volume: 1, markets: 1, wins: 1 });
  });

  test('gives the newest fill of all time and markets, not of the window or the tag', async () => {
    const [old, recent] = [9_003, 9_004];
    await insert([
      booking(old, started - 5 * 3_600, CRYPTO, 0n),
      {
        ...booking(old, started - 60, SPORTS, 3n),
        kind: 'settlement',
        isTaker: false,
        side: 'NONE',
      },
      booking(recent, started - 90, SPORTS, 0n),
      booking(recent, started - 30, CRYPTO, 0n),
    ]);
    const { rows } = await board(WINDOW_SECONDS);
    const last = (trader: number) =>
      new Map(
        rows.filter((row) => row.trader === wallet(trader)).map((row) => [row.tag, row.last]),
      );
    expect(last(old).get('sports')).toBe(started - 5 * 3_600);
    expect(last(old).get('all')).toBe(started - 5 * 3_600);
    expect(last(recent).get('sports')).toBe(started - 30);
  });

  test('leaves what is tagged esports out of sports, and only there', async () => {
    const trader = 9_001;
    await insert([booking(trader, started - 60, ESPORTS, 7n)]);
    const { rows } = await board(WINDOW_SECONDS);
    const tags = rows.filter((row) => row.trader === wallet(trader)).map((row) => row.tag);
    expect(tags.sort()).toEqual(['all', 'counter-strike-2', 'esports']);
  });

  test('shows a market on the leaderboards of exactly its tags', async () => {
    const [market, trader] = [100, 9_100];
    await clickhouse.client.insert({
      table: 'markets',
      columns: ['condition_id_hex', 'market_id', 'tags', 'observed_at'],
      values: TAGS.map((tag, index) => [
        ...[conditionOf(market + index), 2_000 + index, ['nobody-asks', tag, tag]],
        '2030-01-01 00:00:00',
      ]),
      format: 'JSONCompactEachRow',
    });
    await clickhouse.client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
    await insert(TAGS.map((_, index) => booking(trader + index, started, market + index, 1n)));
    const { rows } = await board(WINDOW_SECONDS);
    const shown = TAGS.map((_, index) =>
      rows.filter((row) => row.trader === wallet(trader + index)).map((row) => row.tag),
    );
    expect(shown.map((tags) => tags.toSorted())).toEqual(
      TAGS.map((tag) => ['all', tag].toSorted()),
    );
  });

  test('follows a market whose tags changed, in all its history, after a reload', async () => {
    const trader = 9_002;
    await insert([booking(trader, started - 60, CRYPTO, 7n)]);
    const tagsNow = async () =>
      (await board(WINDOW_SECONDS)).rows
        .filter((row) => row.trader === wallet(trader))
        .map((row) => row.tag)
        .sort();
    expect(await tagsNow()).toEqual(['5M', 'all', 'crypto']);
    await clickhouse.client.insert({
      table: 'markets',
      columns: ['condition_id_hex', 'market_id', 'tags', 'observed_at'],
      values: [
        [MARKETS[CRYPTO]?.conditionId, 1_002, ['politics', 'nobody-asks'], '2030-01-01 00:00:00'],
      ],
      format: 'JSONCompactEachRow',
    });
    await clickhouse.client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
    expect(await tagsNow()).toEqual(['all', 'politics']);
  });

  test('refreshes the table that is named after its window', async () => {
    for (const [frame, seconds] of [
      ['1h', 3_600],
      ['4h', 14_400],
      ['1d', 86_400],
      ['3d', 259_200],
      ['7d', 604_800],
      ['30d', 2_592_000],
    ] as const) {
      // A half hour inside and outside: far from the edge, so that the clock does not matter.
      const inside = 10_000 + seconds;
      await insert([
        booking(inside, started - seconds + 1_800, SPORTS, 1n),
        booking(inside + 1, started - seconds - 1_800, SPORTS, 1n),
      ]);
      await clickhouse.client.command({ query: `SYSTEM REFRESH VIEW leaderboard_${frame}_mv` });
      await clickhouse.client.command({ query: `SYSTEM WAIT VIEW leaderboard_${frame}_mv` });
      const rows = await clickhouse.rows<{ trader: string }>(
        `SELECT DISTINCT concat('0x', lower(hex(trader))) AS trader
          FROM leaderboard_${frame} WHERE tag = 'all'`,
      );
      const shown = new Set(rows.map((row) => row.trader));
      expect(shown.has(wallet(inside)), frame).toBe(true);
      expect(shown.has(wallet(inside + 1)), frame).toBe(false);
    }
  });
});
