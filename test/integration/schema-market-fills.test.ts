import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Schema, startSchema } from './schema-harness.ts';

const COLUMNS = `condition_id, trader, block_number, log_index, block_time, outcome_index, side, shares, usdc,
  fee, order_hash, is_taker, token_id`;
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

async function fills(table: string): Promise<unknown> {
  const [row] = await clickhouse.rows(
    `SELECT count() AS fills, sum(cityHash64(${COLUMNS})) AS hash FROM ${table}`,
  );
  return row;
}

test('has every fill once, and no settlement', async () => {
  await insertBookings(0, 30_000);
  await insertBookings(30_000, 3_000);
  const expected = await fills(`bookings WHERE kind = 'fill'`);
  expect(expected).toMatchObject({ fills: '22000' });
  expect(await fills('market_fills')).toEqual(expected);
});
