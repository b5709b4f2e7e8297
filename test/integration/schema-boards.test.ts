// A board is replaced by its refresh, with the columns that it had when the refresh began: a migration that adds
// columns must leave none of those under way.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { migrate } from '../../sql/migrate.ts';
import { DATABASE, type Schema, startSchema } from './schema-harness.ts';

/** So many that a refresh takes a moment. */
const BOOKINGS = 400_000;
const ADDED = ['roi', 'win_rate'];

let clickhouse: Schema;

beforeAll(async () => {
  clickhouse = await startSchema();
  await run(`INSERT INTO bookings (block_number, block_time, condition_id, trader, usdc, realised_pnl)
    SELECT number, now() - number % 3000, toFixedString(toString(number % 100), 32),
      toFixedString(toString(number % 50000), 20), 1000000, number
    FROM numbers(${BOOKINGS})`);
});

afterAll(() => clickhouse?.stop());

async function run(query: string): Promise<void> {
  await clickhouse.client.command({ query });
}

async function addedColumns(): Promise<readonly string[]> {
  const rows = await clickhouse.rows(`SELECT name FROM system.columns
    WHERE database = '${DATABASE}' AND table = 'leaderboard_1h' AND default_kind = 'MATERIALIZED'
    ORDER BY name`);
  return rows.map((row) => String((row as { name: string }).name));
}

/** As before the ratios were stored: without the columns, and not yet migrated. */
async function goBack(): Promise<void> {
  await run('DROP VIEW leaderboard_1h_mv');
  for (const name of ADDED) await run(`ALTER TABLE leaderboard_1h DROP COLUMN ${name}`);
  await run(`CREATE MATERIALIZED VIEW leaderboard_1h_mv REFRESH EVERY 1 HOUR TO leaderboard_1h
    AS SELECT * FROM leaderboard_window(seconds = 3600)`);
  await run(`ALTER TABLE migrations DELETE WHERE name >= '0044' AND name LIKE '%leaderboard_1h%'
    SETTINGS mutations_sync = 1`);
}

test.each([0, 20, 60, 150])('added %i ms after a refresh began they stay', async (ms) => {
  await goBack();
  expect(await addedColumns()).toEqual([]);
  await run('SYSTEM REFRESH VIEW leaderboard_1h_mv');
  await delay(ms);
  await migrate({ url: clickhouse.url, database: DATABASE });
  expect(await addedColumns()).toEqual(ADDED);
  await run('SYSTEM REFRESH VIEW leaderboard_1h_mv');
  await run('SYSTEM WAIT VIEW leaderboard_1h_mv');
  expect(await addedColumns()).toEqual(ADDED);
  const [row] = await clickhouse.rows(
    'SELECT countIf(roi != 0) AS roi, countIf(win_rate > 0) > 0 AS rated FROM leaderboard_1h',
  );
  expect(row).toEqual({ roi: '0', rated: 1 });
});
