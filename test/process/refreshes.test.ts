/** The refresh interval of views, which depends on the duration of their refreshes in the real engine. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { fillLeaderboards } from '../../local/leaderboards.ts';
import {
  besideOf,
  createBeside,
  dropBeside,
  exchangeTables,
  refreshAll,
  refreshBeside,
} from '../../ops/rebuild-tables.ts';
import { pauseAfter, secondsOf, setPauses } from '../../projector/refreshes.ts';
import { type Schema, startSchema } from '../support/stack.ts';

const DATABASE = 'fillstream';
let clickhouse: Schema;

beforeAll(async () => {
  clickhouse = await startSchema();
});

afterAll(() => clickhouse?.stop());

const command = (query: string) => clickhouse.client.command({ query });

async function refresh(view: string): Promise<void> {
  for (const action of ['WAIT', 'REFRESH', 'WAIT']) await command(`SYSTEM ${action} VIEW ${view}`);
}

async function schedules(): Promise<Readonly<Record<string, string>>> {
  const rows = await clickhouse.rows<{ name: string; schedule: string }>(
    `SELECT name, extract(create_table_query, 'REFRESH ((?:AFTER|EVERY)(?: \\\\d+ [A-Z]+)+)') AS schedule
      FROM system.tables WHERE database = currentDatabase() AND schedule != ''`,
  );
  return Object.fromEntries(rows.map(({ name, schedule }) => [name, schedule]));
}

describe('the pause', () => {
  test.each([
    ['leaderboard_30d_mv', 0, 5],
    ['leaderboard_30d_mv', 1_250, 5],
    ['leaderboard_30d_mv', 1_251, 10],
    ['leaderboard_30d_mv', 5_200, 30],
    ['leaderboard_30d_mv', 20_000, 80],
    ['leaderboard_30d_mv', 900_000, 300],
    ['leaderboard_1d_mv', 900_000, 60],
    ['leaderboard_1h_mv', 900_000, 10],
  ])('of %s after %d ms is %d s', (view, ms, seconds) => {
    expect(pauseAfter(view, ms)).toBe(seconds);
  });
});

test.each([5, 10, 40, 60, 80, 160, 300])(
  'a pause of %i s is recognised as the engine writes it',
  async (seconds) => {
    await command(`CREATE MATERIALIZED VIEW paused_mv REFRESH AFTER ${seconds} SECOND (n UInt8) ENGINE = Memory
    AS SELECT 1 AS n`);
    const [view] = await clickhouse.rows<{ schedule: string }>(
      `SELECT extract(create_table_query, 'REFRESH (AFTER(?: \\\\d+ [A-Z]+)+)') AS schedule
      FROM system.tables WHERE name = 'paused_mv'`,
    );
    expect(secondsOf(view?.schedule ?? '')).toBe(seconds);
    await command('DROP VIEW paused_mv');
  },
);

test('every view has a schedule of its own, which a measured one replaces', async () => {
  const own = await schedules();
  expect(Object.keys(own)).toContain('leaderboard_30d_mv');
  for (const view of Object.keys(own)) await refresh(view);
  await setPauses(clickhouse.client, { database: DATABASE });
  for (const [view, schedule] of Object.entries(await schedules())) {
    // Which one depends on the speed of this machine.
    const measured = [5, 10, 15, 20, 30, 40, 60, 80, 160, 300];
    // These scan whole tables, so they are refreshed rarely.
    const seldom = { market_counts_mv: 'EVERY 5 MINUTE', search_traders_mv: 'EVERY 1 MINUTE' };
    const expected = seldom[view as keyof typeof seldom];
    if (expected === undefined) expect(measured, view).toContain(secondsOf(schedule));
    else expect(schedule, view).toBe(expected);
  }
});

test('more expensive views refresh less often, and all keep refreshing', async () => {
  await command('CREATE TABLE slow (refreshed_at DateTime64(3)) ENGINE = MergeTree ORDER BY ()');
  await command(`CREATE MATERIALIZED VIEW slow_mv REFRESH EVERY 1 YEAR TO slow AS
    SELECT now64(3) AS refreshed_at FROM numbers(1) WHERE sleep(1.5) = 0`);
  await refresh('slow_mv');
  await setPauses(clickhouse.client, { database: DATABASE });
  expect(secondsOf((await schedules()).slow_mv ?? '')).toBeGreaterThanOrEqual(10);
  const newest = async () => {
    const [row] = await clickhouse.rows<{ at: string }>('SELECT max(refreshed_at) AS at FROM slow');
    return row?.at ?? '';
  };
  const before = await newest();
  await refresh('slow_mv');
  expect((await newest()) > before).toBe(true);
  await command('DROP VIEW slow_mv');
});

test('a rebuild exchanges the leaderboards with the tables that they are computed from', async () => {
  const { client, url } = clickhouse;
  const tables = await createBeside(client, { url, live: DATABASE });
  expect(tables).toContain('market_marks');
  for (const table of ['markets', 'search_words', 'migrations'])
    expect(tables).not.toContain(table);
  await command(`INSERT INTO ${besideOf(DATABASE)}.bookings
      (kind, block_number, block_time, trader_hex, condition_id_hex, side, is_taker, shares, usdc, position_shares)
    SELECT 'fill', 1, now('UTC') - 60, repeat('a', 40), repeat('b', 64), 'BUY', true, 2, 1, 2`);
  await refreshBeside(client, DATABASE);
  const traders = async () =>
    (await clickhouse.rows<{ tag: string }>('SELECT tag FROM leaderboard_30d')).map(
      ({ tag }) => tag,
    );
  await refresh('leaderboard_30d_mv');
  expect(await traders()).toEqual([]);
  await exchangeTables(client, DATABASE, tables);
  expect(await traders()).toEqual(['all']);
  await refreshAll(client, DATABASE);
  expect(await traders()).toEqual(['all']);
  await dropBeside(client, DATABASE);
});

test('a start retries failed refreshes until all boards are filled', async () => {
  const { url } = clickhouse;
  const rename = (from: string, to: string) => command(`RENAME TABLE ${from} TO ${to}`);
  await rename('market_counts', 'hidden');
  const failures: string[] = [];
  const onFailure = (view: string, error: unknown) => {
    failures.push(`${view}: ${(error as Error).message}`);
    if (failures.length === 2) void rename('hidden', 'market_counts');
  };
  await fillLeaderboards({ url, database: DATABASE, isStopping: () => false, onFailure });
  expect(failures.length).toBeGreaterThanOrEqual(2);
  for (const failure of failures) expect(failure).toMatch(/^market_counts_mv: .*market_counts/);
  const views = await clickhouse.rows<{ view: string; exception: string }>(
    "SELECT view, exception FROM system.view_refreshes WHERE last_success_time > 0 AND view LIKE 'market_%'",
  );
  expect(views.map(({ view }) => view)).toEqual(
    expect.arrayContaining(['market_counts_mv', 'market_stats_mv']),
  );
  for (const { exception } of views) expect(exception).toBe('');
});
