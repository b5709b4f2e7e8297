/** The tables by market and by trader that inserts into bookings fill. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readMarks } from '../../api/analytics/marks.ts';
import { createSelect } from '../../infra/clickhouse.ts';
import { statementsOf } from '../../sql/migrate.ts';
import { DATABASE, type Schema, startSchema } from '../support/schema-harness.ts';

const COLUMNS = `condition_id, trader, block_number, log_index, block_time, kind, outcome_index, side, shares, usdc,
  fee, realised_pnl, realised_cost, order_hash, is_taker, token_id`;
let clickhouse: Schema;

beforeAll(async () => {
  clickhouse = await startSchema();
});

afterAll(() => clickhouse?.stop());

async function run(query: string): Promise<void> {
  await clickhouse.client.command({ query });
}

/** Rows of every kind; each third is a settlement. */
async function insertBookings(from: number, count: number): Promise<void> {
  await run(`INSERT INTO bookings (kind, block_number, block_time, log_index, condition_id, trader, order_hash,
      is_taker, side, outcome_index, token_id, shares, usdc, fee)
    SELECT if(number % 3 = 0, 'settlement', 'fill'), number, toDateTime(1700000000 + 60 * number, 'UTC'),
      number % 7, toFixedString(toString(number % 10), 32), toFixedString(toString(number % 50), 20),
      unhex(repeat('ab', 32)), number % 2, if(number % 3 = 0, 'NONE', 'BUY'), number % 2,
      number % 2 + 77, number * 1000, number * 400, number
    FROM numbers(${from}, ${count})`);
}

async function rows(table: string): Promise<unknown> {
  const [row] = await clickhouse.rows(
    `SELECT count() AS rows, sum(cityHash64(${COLUMNS})) AS hash FROM ${table}`,
  );
  return row;
}

test('has every row once', async () => {
  await insertBookings(0, 30_000);
  await insertBookings(30_000, 3_000);
  const expected = await rows('bookings');
  expect(expected).toMatchObject({ rows: '33000' });
  expect(await rows('market_bookings')).toEqual(expected);
});

/** Fills as the projector writes them: prices that differ, takers and makers, two fills of a block. */
async function insertMatches(from: number, count: number): Promise<void> {
  await run(`INSERT INTO bookings (kind, block_number, block_time, log_index, condition_id, trader, is_taker, side,
      outcome_index, shares, usdc, position_outcome, position_shares, position_cost, position_fees)
    SELECT 'fill', intDiv(number, 2), toDateTime(1800000000 + 70 * intDiv(number, 2), 'UTC'), number % 2,
      toFixedString(concat('m', toString(number % 3)), 32), toFixedString(toString(number % 5), 20),
      number % 4 < 2, 'BUY', number % 2, if(number % 11 = 0, 0, 1000), (number * 37) % 1000,
      number % 2, (number * 37) % 101, number * 2, (number * 53) % 97
    FROM numbers(${from}, ${count})`);
}

const OF_MATCHES = `FROM bookings WHERE is_taker AND kind = 'fill' AND startsWith(condition_id, 'm')`;
const lastMatches = () =>
  clickhouse.rows(`SELECT condition_id, day, max(close).usdc AS usdc, max(close).shares AS shares
    FROM market_days WHERE startsWith(condition_id, 'm') GROUP BY 1, 2 ORDER BY 1, 2`);
const hours = () =>
  clickhouse.rows(`SELECT trader, condition_id, hour, max(position) AS held FROM trader_market_hours
    WHERE startsWith(condition_id, 'm') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`);
const recent = () =>
  clickhouse.rows(`SELECT * FROM recent_bookings FINAL WHERE startsWith(condition_id, 'm')
    ORDER BY block_number, log_index`);
const FIRST_USDC = 'if(outcome_index = 0, b.usdc, b.shares - b.usdc)';

describe.each(['unmerged', 'merged'])('after inserts in any order, %s', (state) => {
  beforeAll(async () => {
    if (state === 'unmerged') {
      await insertMatches(500, 500);
      await insertMatches(0, 500);
      return;
    }
    const tables = ['market_minutes', 'market_days', 'market_marks', 'trader_markets', 'matches'];
    for (const table of [...tables, 'trader_market_hours', 'recent_bookings']) {
      await run(`OPTIMIZE TABLE ${table} FINAL`);
    }
  });

  test('matches has the fill of each taker', async () => {
    const sum = `SELECT count() AS n, sum(cityHash64(condition_id, block_number, log_index, trader, usdc)) AS hash`;
    const found = await clickhouse.rows(
      `${sum} FROM matches WHERE startsWith(condition_id, 'm') SETTINGS final = 1`,
    );
    expect(found).toEqual(await clickhouse.rows(`${sum} ${OF_MATCHES}`));
    expect(found).toMatchObject([{ n: '500' }]);
  });

  test('market_minutes has a candle of outcome 0 for each minute', async () => {
    const candles = await clickhouse.rows(`SELECT condition_id, minute, max(close).usdc AS close,
        min(open).usdc AS open, min(low) AS low, max(high) AS high, sum(volume) AS volume,
        sum(matches) AS matches, sum(m.shares) AS shares, sum(m.usdc) AS usdc
      FROM market_minutes AS m WHERE startsWith(condition_id, 'm') GROUP BY 1, 2 ORDER BY 1, 2`);
    const expected =
      await clickhouse.rows(`SELECT condition_id, toStartOfMinute(block_time) AS minute,
        argMax(${FIRST_USDC}, (block_number, log_index)) AS close,
        argMin(${FIRST_USDC}, (block_number, log_index)) AS open,
        toUInt32(min(${FIRST_USDC}) * 1000) AS low, toUInt32(max(${FIRST_USDC}) * 1000) AS high,
        sum(b.usdc) AS volume, count() AS matches, sum(b.shares) AS shares, sum(${FIRST_USDC}) AS usdc
      ${OF_MATCHES.replace('bookings', 'bookings AS b')} AND b.shares > 0 GROUP BY 1, 2 ORDER BY 1, 2`);
    expect(candles).toEqual(expected);
    expect(candles.length).toBeGreaterThan(100);
  });

  test('market_days has the last match of each day', async () => {
    const days = await lastMatches();
    expect(days).toEqual(
      await clickhouse.rows(`SELECT condition_id, toStartOfDay(block_time) AS day,
          argMax(${FIRST_USDC}, (block_number, log_index)) AS usdc,
          argMax(b.shares, (block_number, log_index)) AS shares
        ${OF_MATCHES.replace('bookings', 'bookings AS b')} AND b.shares > 0 GROUP BY 1, 2 ORDER BY 1, 2`),
    );
    expect(days).toHaveLength(3);
  });

  test('trader_market_hours has the position at the end of each hour', async () => {
    const held = await hours();
    expect(held).toEqual(
      await clickhouse.rows(`SELECT trader, condition_id, toStartOfHour(block_time) AS hour,
          argMax(((block_number * 1048576 + log_index) * 2, position_outcome, position_shares, position_cost,
            position_fees), (block_number, log_index))
            ::Tuple(version UInt64, outcome UInt8, shares Int64, cost_basis Int64, open_fees Int64) AS held
        FROM bookings WHERE startsWith(condition_id, 'm') GROUP BY 1, 2, 3 ORDER BY 1, 2, 3`),
    );
    expect(held.length).toBeGreaterThan(100);
  });

  test('recent_bookings has every fill and settlement', async () => {
    const found = await recent();
    expect(found).toEqual(
      await clickhouse.rows(`SELECT trader, condition_id, block_time, block_number, log_index, kind,
          realised_pnl, realised_cost, if(kind = 'fill', usdc, 0) AS volume
        FROM bookings WHERE startsWith(condition_id, 'm') ORDER BY block_number, log_index`),
    );
    expect(found).toHaveLength(1_000);
  });

  test.each([
    ['market_days', '0030_market_days.sql', lastMatches],
    ['trader_market_hours', '0039_trader_market_hours.sql', hours],
    ['recent_bookings', '0042_recent_bookings.sql', recent],
  ])(
    '%s has what was stored before it existed, also if its migration is repeated',
    async (table, file, contents) => {
      const before = await contents();
      await run(`TRUNCATE TABLE ${table}`);
      const text = readFileSync(join(import.meta.dirname, '../../sql/migrations', file), 'utf8');
      const statements = statementsOf(text, { database: '' });
      for (const statement of [...statements, ...statements]) await run(statement);
      expect(await contents()).toEqual(before);
    },
  );

  test('market_marks has the last match with shares', async () => {
    const marks =
      await clickhouse.rows(`SELECT condition_id, max(last).usdc AS usdc, max(last).time AS time,
        sum(volume) AS volume, sum(matches) AS matches
      FROM market_marks WHERE startsWith(condition_id, 'm') GROUP BY 1 ORDER BY 1`);
    expect(marks).toEqual(
      await clickhouse.rows(`SELECT condition_id,
          argMaxIf(${FIRST_USDC}, (block_number, log_index), b.shares > 0) AS usdc,
          maxIf(block_time, b.shares > 0) AS time, sum(b.usdc) AS volume, count() AS matches
        ${OF_MATCHES.replace('bookings', 'bookings AS b')} GROUP BY 1 ORDER BY 1`),
    );
    expect(marks).toHaveLength(3);
  });

  test('trader_markets has the newest position and the first fill', async () => {
    const where = `WHERE startsWith(condition_id, 'm')`;
    const held =
      await clickhouse.rows(`SELECT trader, condition_id, max(position).outcome AS outcome,
        max(position).shares AS shares, max(position).cost_basis AS cost,
        max(position).open_fees AS fees, min(m.first_trade_at) AS first_trade_at
      FROM trader_markets AS m ${where} GROUP BY 1, 2 ORDER BY 1, 2`);
    const newest = (column: string) => `argMax(${column}, (block_number, log_index))`;
    expect(held).toEqual(
      await clickhouse.rows(`SELECT trader, condition_id, ${newest('position_outcome')} AS outcome,
          ${newest('position_shares')} AS shares, ${newest('position_cost')} AS cost,
          ${newest('position_fees')} AS fees, min(block_time) AS first_trade_at
        FROM bookings ${where} GROUP BY 1, 2 ORDER BY 1, 2`),
    );
    expect(held).toHaveLength(15);
  });
});

test('a mark is the last match of its market, or the payout once that is resolved', async () => {
  const idOf = (market: string) => `0x${Buffer.from(market).toString('hex').padEnd(64, '0')}`;
  const [played, resolved, quiet, unknown] = ['m0', 'm1', 'quiet', 'unknown'].map(idOf) as [
    string,
    string,
    string,
    string,
  ];
  for (const [id, payouts] of [
    [resolved, '3, 1'],
    [quiet, '0, 1'],
  ] as const) {
    await run(`INSERT INTO resolutions (condition_id_hex, payout_0, payout_1, resolved_at, block_number)
      VALUES ('${id.slice(2)}', ${payouts}, toDateTime(1900000000, 'UTC'), 9000)`);
  }
  const select = createSelect({ url: clickhouse.url, database: DATABASE, name: 'test' });
  const marks = await readMarks({ select, queryMsMax: 5_000, signal: null }, [
    ...[played, resolved, quiet, unknown],
  ]);
  const [last] = await clickhouse.rows<{ usdc: string; time: number }>(
    `SELECT ${FIRST_USDC} AS usdc, toUnixTimestamp(block_time) AS time ${OF_MATCHES.replace('bookings', 'bookings AS b')}
      AND startsWith(condition_id, 'm0') AND b.shares > 0 ORDER BY block_number DESC, log_index DESC LIMIT 1`,
  );
  const time = 1_900_000_000;
  expect([...marks].sort()).toEqual(
    [
      [played, { source: 'last_match', ...last, usdc: BigInt(last?.usdc ?? 0), shares: 1000n }],
      [resolved, { source: 'resolution', time, usdc: 3n, shares: 4n }],
      [quiet, { source: 'resolution', time, usdc: 0n, shares: 1n }],
    ].sort(),
  );
});
