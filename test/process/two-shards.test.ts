/** Every endpoint of analytics on two shards against the same on a single node. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { ANALYTICS_ENDPOINTS } from '../../api/analytics/endpoints.ts';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { Store } from '../../projector/store.ts';
import { addressOf, conditionOf } from '../support/api-bookings.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { query } from '../support/service.ts';
import { DATABASE } from '../support/stack.ts';
import { startTwoShards } from '../support/two-shards.ts';

const TRADER = addressOf(3);
const OTHER = addressOf(6);
const PATHS = [
  ...['1H', '7D', '30D'].map((frame) => `/v2/analytics/leaderboard?time_frame=${frame}`),
  '/v1/analytics/leaderboard?time_frame=30D&tag=crypto&sort_by=roi&min_market_count=2',
  ...['market=1005', 'series=series-x', 'sort_by=volume'].map(
    (query) => `/v2/analytics/leaderboard?${query}`,
  ),
  ...['v1', 'v2'].flatMap((version) => [
    ...[`/${version}/traders/${TRADER}`, `/${version}/traders/${TRADER}/hourly_stats`],
    ...[`/${version}/traders/${TRADER}/markets`, `/${version}/markets/1005`],
    `/${version}/traders/${TRADER}/markets/1005/orders`,
  ]),
  `/v1/traders/${TRADER}/markets?include_orders=true`,
  `/v2/traders/${TRADER}?tag=crypto`,
  `/v2/markets/0x${conditionOf(2)}`,
  '/v1/market_data/1005?limit=5',
  `/v2/analytics/pnl_lines?traders=${TRADER},${OTHER}`,
  ...['status=all', 'status=all&sort_by=value&limit=3', 'status=resolved', 'sort_by=age'].map(
    (query) => `/v2/traders/${TRADER}/positions?${query}`,
  ),
  ...['interval=1h', 'interval=1d'].map((query) => `/v2/traders/${TRADER}/pnl?${query}`),
  ...[`/v2/traders/${TRADER}/trades`, `/v2/traders/${TRADER}/trades?market=1005&side=BUY`],
  ...[`/v2/traders/${TRADER}/movements`, `/v2/traders/${TRADER}/movements?limit=2&order=asc`],
  ...[`/v2/traders/${TRADER}/audit`, `/v2/traders/${TRADER}/audit?limit=2`],
  ...['status=all', 'status=all&sort_by=change_24h', 'tag=crypto', 'status=all&q=question'].map(
    (query) => `/v2/markets?${query}`,
  ),
  ...['candles?interval=1h', 'candles?interval=1m', 'trades?limit=7', 'holders'].map(
    (list) => `/v2/markets/1005/${list}`,
  ),
  '/v2/biggest_trades?hours=24',
  ...['limit=200', `traders=${TRADER},${OTHER}`, 'min_usdc=100&order=asc'].map(
    (query) => `/v2/position_events?${query}`,
  ),
  ...['question', TRADER.slice(0, 12), '1005', 'trader'].map((words) => `/v2/search?q=${words}`),
];

let one: Awaited<ReturnType<typeof startSeeded>>;
let two: Awaited<ReturnType<typeof startSeeded>>;

beforeAll(async () => {
  one = await startSeeded();
  two = await startSeeded(startTwoShards);
  for (const { clickhouse } of [one, two]) {
    for (const view of ['search_markets_mv', 'search_traders_mv']) {
      for (const action of ['REFRESH', 'WAIT']) {
        await clickhouse.client.command({ query: `SYSTEM ${action} VIEW ${view}` });
      }
    }
  }
});

afterAll(async () => {
  await one?.stop();
  await two?.stop();
});

/** When something was computed differs. */
async function asked({ api, key }: typeof one, path: string, init: RequestInit = {}) {
  const { body, status, text } = await get(api.url + path, key, init);
  expect(status, `${path}: ${text}`).toBe(200);
  return { ...body, as_of: undefined };
}

test('each shard has separate rows, together all', async () => {
  const count =
    'SELECT toString(count()) AS rows, toString(uniqExact(trader)) AS traders FROM bookings';
  type Counts = { rows: string; traders: string };
  const shards = await query<Counts>(two.clickhouse.url, `${count} GROUP BY _shard_num`, DATABASE);
  const [all] = await query<Counts>(one.clickhouse.url, count, DATABASE);
  expect(shards).toHaveLength(2);
  for (const member of ['rows', 'traders'] as const) {
    const [first = 0, second = 0] = shards.map((shard) => Number(shard[member]));
    expect(first + second).toBe(Number(all?.[member]));
  }
});

test.each(PATHS)('%s', async (path) => {
  expect(await asked(two, path)).toEqual(await asked(one, path));
});

test('/v2/traders/batch', async () => {
  const init = {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ addresses: Array.from({ length: 30 }, (_, i) => addressOf(i)) }),
  };
  const batch = await asked(two, '/v2/traders/batch', init);
  expect(batch.traders).toHaveLength(30);
  expect(batch).toEqual(await asked(one, '/v2/traders/batch', init));
});

test('the open positions of a market, which the projector reads', async () => {
  const rows = await query<{ id: string }>(
    one.clickhouse.url,
    `SELECT DISTINCT concat('0x', lower(hex(condition_id))) AS id FROM bookings ORDER BY id`,
    DATABASE,
  );
  const [alone, together] = await Promise.all(
    [one, two].map(async ({ clickhouse: { url } }) => {
      const client = connectClickHouse({ url, database: DATABASE, name: 'test' });
      const markets = await new Store(client, [0], { database: DATABASE }).markets(
        rows.map(({ id }) => id),
      );
      await client.close();
      return markets;
    }),
  );
  expect([...(alone?.values() ?? [])].filter(({ held }) => held.size > 1)).not.toEqual([]);
  expect(together).toEqual(alone);
});

test('no endpoint is left out', () => {
  const paths = [...PATHS, '/v2/traders/batch'].map((path) => path.split('?')[0] ?? '');
  const left = ANALYTICS_ENDPOINTS.filter(({ path }) => {
    const form = new RegExp(`^${path.replaceAll(/:\w+/g, '[^/]+')}$`);
    return !paths.some((asked) => form.test(asked));
  });
  expect(left.map(({ path }) => path)).toEqual([]);
});
