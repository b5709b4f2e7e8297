/**
 * The analytics endpoints over real HTTP and the real embedded ClickHouse, against plain sums over
 * the same made-up bookings.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import {
  addressOf,
  type Booking,
  conditionOf,
  insertBookings,
  MARKETS,
  seriesOf,
  UNLISTED_MARKET,
} from '../support/api-bookings.ts';
import {
  ALL_FRAMES,
  board,
  EDGE_NOW,
  EDGE_TRADER,
  type Entry,
  entryObject,
  expectedHours,
  expectedMarket,
  expectedOrders,
  expectedStats,
  expectedTags,
  hourOf,
  lastTrade,
  NOW,
  ODD_TRADER,
  profileObject,
  random,
  ratio,
  rows,
  TRADERS,
  time,
  totalsOf,
  WHALE,
} from '../support/api-expected.ts';
import { get, pagesOf } from '../support/api-harness.ts';
import { refreshBoards, startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { until } from '../support/service.ts';

const seeded = forFile(startSeeded);
let clickhouse: (typeof seeded)['clickhouse'];
let api: (typeof seeded)['api'];
let edgeApi: (typeof seeded)['edgeApi'];
let key: string;

beforeAll(async () => {
  ({ clickhouse, api, edgeApi, key } = seeded);
});

describe('GET /v1/analytics/leaderboard', () => {
  test.each(Object.keys(ALL_FRAMES))('ranks every trader of %s in each order', async (frame) => {
    for (const sort of ['pnl', 'roi', 'win_rate', 'market_count'] as const) {
      for (const tag of ['all', 'sports', 'esports', 'crypto', '5M']) {
        const expected = board(frame, tag, sort);
        const answer = await leaderboard({ time_frame: frame, sort_by: sort, tag, limit: '100' });
        expect(answer, `${frame} ${sort} ${tag}`).toEqual({
          traders: expected.map(entryObject),
          total_count: expected.length,
        });
      }
    }
  });

  test('answers 30D by pnl of all tags without parameters', async () => {
    expect(await leaderboard({})).toEqual(
      await leaderboard({
        time_frame: '30D',
        sort_by: 'pnl',
        tag: 'all',
        limit: '50',
        offset: '0',
      }),
    );
  });

  test.each<[string, string, (entry: Entry) => boolean]>([
    ['min_win_rate', '50', (entry) => ratio(BigInt(entry.wins), BigInt(entry.markets)) >= 50],
    ['max_win_rate', '37.5', (entry) => ratio(BigInt(entry.wins), BigInt(entry.markets)) <= 37.5],
    ['min_roi', '-2.25', (entry) => ratio(entry.pnl, entry.cost) >= -2.25],
    ['max_roi', '4', (entry) => ratio(entry.pnl, entry.cost) <= 4],
    ['min_market_count', '5', (entry) => entry.markets >= 5],
    ['max_market_count', '4', (entry) => entry.markets <= 4],
    ['min_pnl', '100', (entry) => entry.pnl >= 100_000_000n],
    ['min_pnl', '-50', (entry) => entry.pnl >= -50_000_000n],
    ['last_active_hours', '1', (entry) => lastTrade(entry.trader) >= NOW - 3_600],
  ])('filters by %s = %s', async (name, value, keeps) => {
    const all = board('1D', 'all', 'pnl');
    const expected = all.filter(keeps);
    const answer = await leaderboard({ time_frame: '1D', limit: '100', [name]: value });
    expect(answer.total_count).toBe(expected.length);
    expect(answer.traders).toEqual(expected.map(entryObject));
  });

  test('keeps only traders who were active in the last hours, by their newest fill in any market', async () => {
    const answer = await leaderboard({ tag: 'sports', last_active_hours: '2', limit: '100' });
    const expected = board('30D', 'sports', 'pnl').filter(
      (entry) => lastTrade(entry.trader) >= NOW - 7_200,
    );
    expect(answer.traders).toEqual(expected.map(entryObject));
  });

  test('joins all filters with and', async () => {
    const answer = await leaderboard({ min_roi: '-10', max_roi: '10', min_market_count: '3' });
    const expected = board('30D', 'all', 'pnl').filter(
      ({ pnl, cost, markets }) => Math.abs(ratio(pnl, cost)) <= 10 && markets >= 3,
    );
    expect(answer.total_count).toBe(expected.length);
  });

  describe.each<[string, Record<string, string>, string, (row: Booking) => boolean]>([
    ['a market by id', { market: '1003' }, 'all', (row) => row.market === 3],
    ['a market by slug', { market: 'market-1004' }, 'all', (row) => row.market === 4],
    ['an unlisted market', { market: UNLISTED }, 'all', (row) => row.market === UNLISTED_MARKET],
    [
      'a market without the tag',
      { market: '1003', tag: 'sports' },
      'sports',
      (row) => row.market === 3,
    ],
    ['a series', { series: 'Series-X' }, 'all', ({ market }) => isOf('series-x', market)],
    [
      'a tag of a series',
      { series: 'series-x', tag: '5M' },
      '5M',
      ({ market }) => isOf('series-x', market),
    ],
    ['a market of another series', { series: 'series-x', market: '1003' }, 'all', () => false],
  ])('of %s', (_, query, tag, keeps) => {
    test.each(Object.keys(ALL_FRAMES))('ranks every trader of %s in each order', async (frame) => {
      for (const sort of ['pnl', 'roi', 'win_rate', 'market_count'] as const) {
        const expected = board(frame, tag, sort, { keeps });
        const answer = await leaderboard({
          ...query,
          time_frame: frame,
          sort_by: sort,
          limit: '100',
        });
        expect(answer, `${frame} ${sort}`).toEqual({
          traders: expected.map(entryObject),
          total_count: expected.length,
        });
      }
    });
  });

  test.each(Object.keys(ALL_FRAMES))('of a market is exact to the second: %s', async (frame) => {
    const keeps = (row: Booking) => row.market === 5;
    const expected = board(frame, 'all', 'pnl', { keeps, now: EDGE_NOW });
    expect(expected.map(({ trader }) => trader)).toContain(EDGE_TRADER);
    const path = `/v2/analytics/leaderboard?market=1005&time_frame=${frame}`;
    const { body, headers } = await get(edgeApi.url + path, key);
    expect(body.traders).toMatchObject(
      expected.map(({ pnl, maker, taker }) => ({
        total_pnl: Number(pnl),
        total_volume: Number(maker + taker),
      })),
    );
    expect(body.as_of).toBe(time(EDGE_NOW));
    expect(Number(headers.get('age'))).toBeGreaterThanOrEqual(100 * 86_400);
  });

  test('of a series is filtered and paginated as any other', async () => {
    const query = { series: 'series-y', min_market_count: '2', last_active_hours: '1', limit: '3' };
    const keeps = ({ market }: Booking) => isOf('series-y', market);
    const expected = board('30D', 'all', 'pnl', { keeps })
      .filter(({ markets, trader }) => markets >= 2 && lastTrade(trader) >= NOW - 3_600)
      .map(entryObject);
    const walked: typeof expected = [];
    const path = `/v1/analytics/leaderboard?${new URLSearchParams(query)}`;
    for await (const { body } of pagesOf(api.url, path, key)) walked.push(...body.traders);
    expect(walked.map(({ profile }) => profile)).toEqual(expected.map(({ profile }) => profile));
    expect(walked.map(({ rank }) => rank)).toEqual(expected.map((_, index) => index + 1));
  });
});

describe('GET /v1/traders/:address', () => {
  test('sums every window and tag of a trader', async () => {
    for (const trader of [0, 1, 2, 3, 4].map(addressOf)) {
      const { status, body } = await get(`${api.url}/v1/traders/${trader}`, key);
      expect(status).toBe(200);
      expect(body).toEqual({
        profile: { ...profileObject(trader, ' '), last_trade_at: time(lastTrade(trader), ' ') },
        top_tags: expectedTags(trader),
        stats: expectedStats(trader, NOW),
      });
    }
  });

  test('has the members of a tag in the order of the interface', async () => {
    const { body } = await get(`${api.url}/v1/traders/${addressOf(0)}`, key);
    expect(Object.keys(body.top_tags[0])).toEqual([
      ...['slug', 'pnl', 'volume', 'roi', 'win_rate', 'markets_count'],
      ...['maker_volume', 'taker_volume', 'wins_count'],
    ]);
  });

  test('cuts windows to the second, both ends included', async () => {
    const { body } = await get(`${edgeApi.url}/v1/traders/${EDGE_TRADER}`, key);
    expect(body.stats).toEqual(expectedStats(EDGE_TRADER, EDGE_NOW));
    // Of each window the row at its start is in and the row a second earlier is not.
    expect(body.stats.t_1h.pnl).toBe(String(10n ** 1n + 10n ** 12n));
    expect(body.stats.t_30d.pnl).toBe('1101111111111');
  });

  test('adds up sums beyond the precision of a double', async () => {
    const { body } = await get(`${edgeApi.url}/v1/traders/${WHALE}`, key);
    expect(body.stats.t_1h.volume).toBe('18014398509481982');
    expect(body.top_tags[0].volume).toBe('18014398509481982');
  });

  test('accepts an address in any letter case and returns it in lower case', async () => {
    const upper = `0x${addressOf(3).slice(2).toUpperCase()}`;
    const { body } = await get(`${api.url}/v1/traders/${upper}`, key);
    expect(body.profile.address).toBe(addressOf(3));
  });

  test('is 404 for an address that was never seen', async () => {
    const { status, body } = await get(`${api.url}/v1/traders/0x${'0'.repeat(40)}`, key);
    expect([status, body.error]).toEqual([404, 'not_found']);
  });
});

describe('GET /v1/traders/:address/markets/:id/orders', () => {
  test('lists the fills of a trader in a market, oldest first', async () => {
    for (const trader of [0, 7, 13].map(addressOf)) {
      for (const [market, { id }] of MARKETS.entries()) {
        const { body } = await get(`${api.url}/v1/traders/${trader}/markets/${id}/orders`, key);
        expect(body).toEqual({ orders: expectedOrders(trader, market) });
      }
    }
  });

  test('orders fills of one block by their log and rounds the price down', async () => {
    const { body } = await get(`${api.url}/v1/traders/${ODD_TRADER}/markets/1006/orders`, key);
    expect(body.orders).toEqual(expectedOrders(ODD_TRADER, 6));
    expect(body.orders.map((order: { price: string }) => order.price)).toEqual([
      '666666',
      '666666',
    ]);
  });

  test('is an empty list for an address without fills there', async () => {
    const answer = await get(`${api.url}/v1/traders/0x${'0'.repeat(40)}/markets/1000/orders`, key);
    expect([answer.status, answer.body]).toEqual([200, { orders: [] }]);
  });
});

describe('GET /v1/traders/:address/hourly_stats', () => {
  test.each(['all', 'sports', 'esports', 'nba', 'no-such-tag'])('sums hours of %s', async (tag) => {
    for (const trader of [0, 5, 11].map(addressOf)) {
      const query = tag === 'all' ? '' : `?tag=${tag}`;
      const { body } = await get(`${api.url}/v1/traders/${trader}/hourly_stats${query}`, key);
      expect(body).toEqual({ stats: expectedHours(trader, tag, NOW - 2_592_000, NOW) });
    }
  });

  test('narrows by from, to and limit', async () => {
    const trader = addressOf(1);
    const from = NOW - 40 * 86_400;
    const to = NOW - 2 * 86_400;
    const url = `${api.url}/v1/traders/${trader}/hourly_stats`;
    const hours = expectedHours(trader, 'all', from, to);
    const iso = new Date(from * 1000).toISOString();
    expect((await get(`${url}?from=${iso}&to=${to}`, key)).body.stats).toEqual(hours);
    const limited = await get(`${url}?from=${from}&to=${to}&limit=4`, key);
    expect(limited.body.stats).toEqual(hours.slice(0, 4));
  });

  test('is an empty list for an address that was never seen', async () => {
    const answer = await get(`${api.url}/v1/traders/0x${'0'.repeat(40)}/hourly_stats`, key);
    expect([answer.status, answer.body]).toEqual([200, { stats: [] }]);
  });
});

describe('GET /v1/markets/:id', () => {
  test('sums traders, volume and earners of every market', async () => {
    for (const [market, { id }] of MARKETS.entries()) {
      const { status, body } = await get(`${api.url}/v1/markets/${id}`, key);
      expect(status).toBe(200);
      expect(body).toEqual(expectedMarket(market));
    }
  });
});

describe('a re-tagged market', () => {
  test('counts under its new tags in all history at once', async () => {
    const trader = addressOf(2);
    await clickhouse.client.insert({
      table: 'markets',
      format: 'JSONEachRow',
      columns: ['condition_id_hex', 'market_id', 'question', 'tags', 'outcomes', 'observed_at'],
      values: [
        {
          ...{ condition_id_hex: conditionOf(4), market_id: '1004', question: 'Reworded?' },
          ...{ tags: ['weather'], outcomes: ['Yes', 'No 4'], observed_at: '2030-01-01 00:00:00' },
        },
      ],
    });
    await clickhouse.client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
    const url = `${api.url}/v1/traders/${trader}`;
    const weather = await get(`${url}/hourly_stats?tag=weather`, key);
    const own = rows.filter((row) => row.trader === trader && row.market === 4);
    const sum = own.filter((row) => hourOf(row.time) >= NOW - 2_592_000);
    expect(
      weather.body.stats.reduce((a: bigint, b: { pnl: string }) => a + BigInt(b.pnl), 0n),
    ).toBe(totalsOf(sum).pnl);
    expect((await get(`${url}/hourly_stats?tag=politics`, key)).body.stats).toEqual([]);
    // Listings are cached for five seconds.
    const tags = await until(async () => {
      const { market } = (await get(`${api.url}/v1/markets/1004`, key)).body;
      return market.question === 'Reworded?' ? market.tags : undefined;
    });
    expect(tags).toEqual(['weather']);
  });

  test('is on the leaderboards of its new tags alone', async () => {
    await refreshBoards(clickhouse.client);
    api.expire();
    const expected = board('7D', 'all', 'pnl', { keeps: ({ market }) => market === 4 });
    expect(await leaderboard({ tag: 'weather', time_frame: '7D', limit: '100' })).toEqual({
      traders: expected.map(entryObject),
      total_count: expected.length,
    });
    expect(await leaderboard({ tag: 'politics' })).toEqual({ traders: [], total_count: 0 });
  });
});

test('a market is on the leaderboards of exactly its tags', async () => {
  const { client } = clickhouse;
  const [pattern] = random.filter(({ kind }) => kind === 'fill');
  if (pattern === undefined) throw new Error('no fill among the bookings');
  await client.insert({
    table: 'markets',
    columns: ['condition_id_hex', 'market_id', 'tags', 'observed_at'],
    values: TAGS.map((tag, at) => [
      ...[conditionOf(100 + at), 2_000 + at, ['nobody-asks', tag, tag], '2030-01-01 00:00:00'],
    ]),
    format: 'JSONCompactEachRow',
  });
  await client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
  const traders = TAGS.map((_, at) => addressOf(1_000 + at));
  const rows = traders.map((trader, at) => {
    return { ...pattern, trader, market: 100 + at, time: NOW, block: 90_000_000, log: at };
  });
  await insertBookings(client, rows, 7_000_000);
  const found = await client.query({
    query: `SELECT concat('0x', lower(hex(trader))) AS address, tag FROM leaderboard_window(seconds = 3600)
      WHERE trader IN (SELECT trader FROM bookings WHERE block_number = 90000000) ORDER BY trader, tag`,
    format: 'JSONEachRow',
  });
  const boards = Map.groupBy(
    await found.json<Record<'tag' | 'address', string>>(),
    (one) => one.address,
  );
  expect(traders.map((trader) => boards.get(trader)?.map(({ tag }) => tag))).toEqual(
    TAGS.map((tag) => ['all', tag].toSorted()),
  );
});

/** Every tag with a leaderboard. */
const TAGS = [
  ...['sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech'],
  ...['economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer'],
  ...['tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'],
];

const UNLISTED = `0x${conditionOf(UNLISTED_MARKET)}`;

function isOf(series: string, market: number): boolean {
  const listed = MARKETS[market];
  return listed !== undefined && seriesOf(listed) === series;
}

async function leaderboard(query: Record<string, string>) {
  const url = `${api.url}/v1/analytics/leaderboard?${new URLSearchParams(query)}`;
  const { status, body } = await get(url, key);
  expect(status, JSON.stringify(body)).toBe(200);
  return body;
}

test('the made-up bookings reach every case', () => {
  expect(rows.some((row) => row.market === UNLISTED_MARKET)).toBe(true);
  expect(new Set(random.map((row) => row.trader)).size).toBe(TRADERS);
  for (const frame of Object.keys(ALL_FRAMES)) expect(board(frame, '5M', 'pnl')).not.toEqual([]);
});
