/**
 * The tables that inserts into bookings fill, after merges of their parts. Their content after inserts in any order:
 * api-analytics, api-markets, api-positions and api-v2.test.ts.
 */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { readMarks } from '../../api/analytics/marks.ts';
import { createSelect } from '../../infra/clickhouse.ts';
import { conditionOf, insertBookings, insertResolution } from '../support/api-bookings.ts';
import { matchesOf, RESOLVED_AT, random } from '../support/api-expected.ts';
import { checksums } from '../support/checksums.ts';
import { DATABASE, type Schema, startSchema } from '../support/stack.ts';

let clickhouse: Schema;

beforeAll(async () => {
  clickhouse = await startSchema();
  for (const some of [random.slice(2_000), random.slice(0, 2_000)]) {
    await insertBookings(clickhouse.client, some, some.length);
  }
});

afterAll(() => clickhouse?.stop());

async function run(query: string): Promise<void> {
  await clickhouse.client.command({ query });
}

const contents = () => checksums(clickhouse.rows);

test('have the same after a merge', async () => {
  const before = await contents();
  for (const table of [
    ...['trader_hours', 'trader_markets', 'market_traders', 'trader_market_hours'],
    ...['market_bookings', 'bookings_by_time', 'matches', 'market_minutes', 'market_days'],
    ...['market_marks', 'trader_activity', 'movements'],
  ]) {
    await run(`OPTIMIZE TABLE ${table} FINAL`);
  }
  expect(await contents()).toEqual(before);
});

test('a mark is the last match of its market, or the payout once that is resolved', async () => {
  const [played, resolved, quiet, unknown] = [3, 4, 80, 81] as const;
  for (const [market, payouts] of [
    [resolved, [3, 1]],
    [quiet, [0, 1]],
  ] as const) {
    await insertResolution(clickhouse.client, { market, payouts, at: RESOLVED_AT });
  }
  const select = createSelect({ url: clickhouse.url, database: DATABASE, name: 'test' });
  const idOf = (market: number) => `0x${conditionOf(market)}`;
  const marks = await readMarks(
    { select, queryMsMax: 5_000, signal: null },
    [played, resolved, quiet, unknown].map(idOf),
  );
  const last = matchesOf(played, random).at(-1);
  if (last === undefined) throw new Error('no match');
  const { outcome, shares, time } = last;
  const usdc = outcome === 0 ? last.usdc : shares - last.usdc;
  expect(marks).toEqual(
    new Map([
      [idOf(played), { source: 'last_match', time, usdc, shares }],
      [idOf(resolved), { source: 'resolution', time: RESOLVED_AT, usdc: 3n, shares: 4n }],
      [idOf(quiet), { source: 'resolution', time: RESOLVED_AT, usdc: 0n, shares: 1n }],
    ]),
  );
});
