/**
 * The schema in the engine: the snapshot in sql/schema.sql, comments, headers of the migrations,
 * and the few granules that the analysts' views read for one trader.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { migrate, runStatement, startRefreshes } from '../../sql/migrate.ts';
import { describeSchema } from '../../sql/schema.ts';
import { temporaryDirectory, until } from '../support/service.ts';
import {
  connect,
  DATABASE,
  type Schema,
  startEngine,
  startSchema,
  stopEngine,
} from '../support/stack.ts';

const SQL = join(import.meta.dirname, '../../sql');
let clickhouse: Schema;

beforeAll(async () => {
  clickhouse = await startSchema();
});

afterAll(() => clickhouse?.stop());

describe('sql/schema.sql', () => {
  test('matches the engine (update it with: npm run schema)', async () => {
    // The template of the tests has other refreshes.
    const directory = temporaryDirectory();
    const engine = await startEngine(join(directory.path, 'clickhouse'));
    await migrate({ url: engine.serviceUrl, database: DATABASE });
    const client = connect({ url: engine.serviceUrl });
    const held = await describeSchema(client, DATABASE);
    await client.close();
    await stopEngine(engine.child);
    directory.remove();
    const snapshot = readFileSync(join(SQL, 'schema.sql'), 'utf8');
    expect(held).toBe(snapshot);
  });

  test('omits a table that a refresh is replacing', async () => {
    const query = 'CREATE TABLE _tmp_replace_6c0c_pivx (one UInt8) ENGINE = MergeTree ORDER BY one';
    await clickhouse.client.command({ query });
    expect(await describeSchema(clickhouse.client, DATABASE)).not.toContain('_tmp_replace_');
    await clickhouse.client.command({ query: 'DROP TABLE _tmp_replace_6c0c_pivx' });
  });

  test('comments every column of every table and view', async () => {
    // A materialized view has its target's columns, and a dictionary's cannot have comments.
    const bare = await clickhouse.rows(
      `SELECT c.database, c.table, c.name FROM system.columns AS c
       INNER JOIN system.tables AS t ON t.database = c.database AND t.name = c.table
       WHERE c.database IN ('${DATABASE}', 'analyst') AND c.comment = ''
         AND t.engine NOT IN ('MaterializedView', 'Dictionary')`,
    );
    expect(bare).toEqual([]);
  });

  test('comments every table, view and dictionary', async () => {
    const bare = await clickhouse.rows(
      `SELECT database, name FROM system.tables
       WHERE database IN ('${DATABASE}', 'analyst') AND comment = ''`,
    );
    expect(bare).toEqual([]);
  });
});

describe('sql/migrations', () => {
  const folder = join(SQL, 'migrations');
  const names = readdirSync(folder);

  test('change a table during a refresh, which then starts again', async () => {
    const { client } = clickhouse;
    const run = (query: string) => client.command({ query });
    for (const name of ['renewed', 'renewed_from']) {
      await run(`CREATE TABLE ${name} (n UInt64) ENGINE = MergeTree ORDER BY n`);
    }
    await run(`CREATE MATERIALIZED VIEW renewed_mv REFRESH EVERY 1 YEAR TO renewed AS
      SELECT n FROM renewed_from WHERE sleepEachRow(0.1) = 0 SETTINGS max_block_size = 1`);
    const ends = async () => {
      await run('SYSTEM REFRESH VIEW renewed_mv');
      await run('SYSTEM WAIT VIEW renewed_mv');
    };
    await ends();
    // Enough rows that the refresh runs until it is stopped.
    await run('INSERT INTO renewed_from SELECT number FROM numbers(100000)');
    await run('SYSTEM REFRESH VIEW renewed_mv');
    const running = `SELECT status FROM system.view_refreshes WHERE view = 'renewed_mv'`;
    await until(
      async () =>
        (await clickhouse.rows<{ status: string }>(running))[0]?.status === 'Running' || undefined,
    );
    await runStatement(client, "ALTER TABLE renewed COMMENT COLUMN n 'kept'");
    await run('TRUNCATE TABLE renewed_from');
    await startRefreshes(client);
    await ends();
    const comment = `SELECT comment FROM system.columns WHERE database = '${DATABASE}' AND table = 'renewed'`;
    expect(await clickhouse.rows(comment)).toEqual([{ comment: 'kept' }]);
    for (const name of ['renewed_mv', 'renewed', 'renewed_from']) await run(`DROP TABLE ${name}`);
  });

  test('never change the query of a view on inserts, which would count a repeated batch twice', () => {
    const refreshed = /^(leaderboard_\d+[hd]|market_stats|search_markets|search_traders)_mv$/;
    for (const name of names) {
      const changed = readFileSync(join(folder, name), 'utf8').matchAll(
        /ALTER TABLE (\w+)\s+MODIFY QUERY/g,
      );
      for (const [, view = ''] of changed) expect(view, name).toMatch(refreshed);
    }
  });

  test.each(names)('%s documents its query, order, rows and retention', (name) => {
    const header = readFileSync(join(folder, name), 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('--'))
      .join(' ');
    for (const word of ['Serves:', 'ORDER BY', 'Rows:', 'Retention:']) {
      expect(header).toContain(word);
    }
  });

  test('are numbered without gaps', () => {
    const numbers = [...names].sort().map((name) => Number(name.slice(0, 4)));
    expect(numbers).toEqual(numbers.map((_, index) => index + 1));
  });
});

describe('a database of another version', () => {
  test.each([
    ['0001_create_bookings.sql', 'created by another version (migration 0001_create_bookings.sql)'],
    ['0001_bookings.sql', '0001_bookings.sql was edited after it was applied'],
  ])('is refused before anything is changed: %s', async (name, message) => {
    const { client, url } = clickhouse;
    const insert = (sha256: string) =>
      client.insert({ table: 'migrations', values: [{ name, sha256 }], format: 'JSONEachRow' });
    const [row] = await clickhouse.rows<{ sha256: string }>(
      `SELECT sha256 FROM migrations FINAL WHERE name = '${name}'`,
    );
    await insert('0'.repeat(64));
    await expect(migrate({ url, database: DATABASE })).rejects.toThrow(message);
    if (row === undefined) {
      await client.command({ query: `DELETE FROM migrations WHERE name = '${name}'` });
    } else await insert(row.sha256);
    expect(await migrate({ url, database: DATABASE })).toEqual([]);
  });
});

describe('the views of the analysts', () => {
  const TRADERS = 40_000;
  const one = `0x${'0'.repeat(36)}1234`;
  const market = `0x${'0'.repeat(60)}1234`;

  beforeAll(async () => {
    await clickhouse.client.command({
      query: `INSERT INTO bookings (kind, block_number, block_time, trader_hex, condition_id_hex,
          side, is_taker, shares, usdc, position_shares)
        SELECT 'fill', number, now('UTC'), leftPad(lower(hex(toUInt32(number))), 40, '0'),
          leftPad(lower(hex(toUInt32(number))), 64, '0'), 'BUY', true, 3, 1, 3
        FROM numbers(${TRADERS})`,
    });
  });

  test.each([
    ['fills', `trader = '${one}'`, 'trader_text'],
    ['settlements', `trader = '${one}'`, 'trader_text'],
    ['trader_hours', `trader = '${one}'`, 'trader_text'],
    ['traders', `trader IN ('${one}', '0x')`, 'trader_text'],
    ['trader_days', `trader = '${one}'`, 'trader_text'],
    ['positions', `trader = '${one}'`, 'trader_text'],
    ['holders', `condition_id = '${market}'`, 'condition_text'],
    ['trades', `condition_id = '${market}'`, 'condition_text'],
    ['prices_1m', `condition_id = '${market}'`, 'condition_text'],
  ])('%s where %s reads few granules', async (view, where, index) => {
    const rows = await clickhouse.rows<{ explain: string }>(
      `EXPLAIN indexes = 1 SELECT * FROM analyst.${view} WHERE ${where}`,
    );
    const plan = rows.map((row) => row.explain);
    const begin = plan.findIndex((line) => line.includes(`Name: ${index}`));
    const granules = plan.slice(begin).find((line) => line.includes('Granules:'));
    const [, read, all] = /Granules: (\d+)\/(\d+)/.exec(granules ?? '') ?? [];
    expect(Number(all)).toBeGreaterThanOrEqual(5);
    expect(Number(read)).toBeLessThanOrEqual(1);
  });

  test('show money exactly: 1 micro-USDC for 3 micro-shares', async () => {
    expect(
      await clickhouse.rows(
        `SELECT toString(usdc) AS usdc, toString(shares) AS shares, toString(price) AS price
         FROM analyst.fills WHERE trader = '${one}'`,
      ),
    ).toEqual([{ usdc: '0.000001', shares: '0.000003', price: '0.333333' }]);
  });

  test('show the greatest amount exactly', async () => {
    await clickhouse.client.command({
      query: `INSERT INTO bookings (kind, block_time, trader_hex, shares, usdc, realised_pnl)
        SELECT 'fill', now('UTC'), repeat('f', 40), 9007199254740991, 9007199254740991,
          -9007199254740991`,
    });
    const [row] = await clickhouse.rows(
      `SELECT toString(usdc) AS usdc, toString(realised_pnl) AS pnl
       FROM analyst.fills WHERE trader = '0x${'f'.repeat(40)}'`,
    );
    expect(row).toEqual({ usdc: '9007199254.740991', pnl: '-9007199254.740991' });
  });
});
