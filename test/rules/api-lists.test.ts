/**
 * Rules for every list, over real HTTP and ClickHouse: both orders, cursors, the Link header and CSV;
 * and the endpoint that lists a whole market.
 */
import { beforeAll, describe, expect, test } from 'vitest';
import {
  addressOf,
  conditionOf,
  insertBookings,
  MARKETS,
  UNLISTED_MARKET,
} from '../support/api-bookings.ts';
import {
  expectedMarketObject,
  expectedOrders,
  lastTrade,
  NOW,
  profileObject,
  ratio,
  rows,
  TIE_TRADER,
  time,
  totalsOf,
} from '../support/api-expected.ts';
import { get, issueKey, nextOf, pagesOf } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';

const seeded = forFile(startSeeded);
let url: string;

beforeAll(async () => {
  url = seeded.api.url;
});

async function ok(path: string) {
  const answer = await get(url + path, seeded.key);
  expect(answer.status, `${path}: ${answer.text}`).toBe(200);
  return answer;
}

/** Every element of a list, page by page. */
async function walk(path: string, list: string) {
  const elements = [];
  for await (const { body } of pagesOf(url, path, seeded.key)) {
    elements.push(...body[list]);
    expect(elements.length, 'a walk ends').toBeLessThan(10_000);
  }
  return elements;
}

const TRADER = addressOf(4);
const LISTS = [
  ['traders', '/v1/analytics/leaderboard?', 7],
  ['traders', '/v1/analytics/leaderboard?sort_by=roi&tag=crypto&time_frame=7D', 3],
  ['traders', '/v1/analytics/leaderboard?sort_by=win_rate&min_market_count=2', 4],
  ['traders', '/v1/analytics/leaderboard?sort_by=market_count', 1],
  ['traders', '/v2/analytics/leaderboard?sort_by=market_count&max_roi=50', 6],
  ['history', `/v1/traders/${TRADER}/markets?`, 3],
  ['history', `/v1/traders/${TIE_TRADER}/markets?`, 1],
  ['history', `/v2/traders/${TRADER}/markets?is_active=true`, 2],
  ['orders', `/v1/traders/${TRADER}/markets/1003/orders?`, 5],
  ['orders', `/v2/traders/${TRADER}/markets/1003/orders?`, 4],
  ['stats', `/v1/traders/${TRADER}/hourly_stats?`, 6],
  ['stats', `/v2/traders/${TRADER}/hourly_stats?tag=sports&from=${NOW - 40 * 86_400}`, 3],
  ['traders', '/v1/market_data/1004?include_orders=false', 11],
  ['trades', '/v2/markets/1004/trades?', 9],
  ['markets', '/v2/markets?status=all', 3],
  ['markets', '/v2/markets?status=closed&sort_by=closing', 2],
  ['holders', '/v2/markets/1003/holders?', 2],
] as const;
/** Everything at once, if the default is less. */
function whole(path: string): string {
  if (path.includes('leaderboard')) return `${path}&limit=100`;
  return path.includes('/trades') ? `${path}&limit=1000` : path;
}

describe.each(LISTS)('%s of %s', (list, path, limit) => {
  test('is the same in pages by Link as at once', async () => {
    const all = (await ok(whole(path))).body[list];
    expect(all.length).toBeGreaterThan(limit);
    expect(await walk(`${path}&limit=${limit}`, list)).toEqual(all);
  });

  test('ends with its last page, also if that is full', async () => {
    const { length } = (await ok(whole(path))).body[list];
    // The list as one page, or as a few if it exceeds the maximum page.
    const sizes = [length, ...Array.from({ length: 100 }, (_, i) => 100 - i)];
    const isWhole = async (size: number) =>
      length % size === 0 && (await get(`${url}${path}&limit=${size}`, seeded.key)).status === 200;
    let size = 1;
    for (const one of sizes) {
      if (!(await isWhole(one))) continue;
      size = one;
      break;
    }
    let pages = 0;
    for await (const { body, headers } of pagesOf(url, `${path}&limit=${size}`, seeded.key)) {
      pages += 1;
      const next = nextOf(headers);
      expect(body.next_cursor ?? '', path).toBe(
        next === undefined || body.next_cursor === undefined
          ? ''
          : new URL(next, url).searchParams.get('cursor'),
      );
    }
    expect(pages).toBe(length / size);
  });

  test('is exactly reversed by the other order, at once and in pages', async () => {
    const all = (await ok(whole(path))).body[list];
    const isAscending = path.includes('orders') || path.includes('market_data');
    const order = isAscending && !path.includes('/markets?') ? 'desc' : 'asc';
    const reversed = (await ok(`${whole(path)}&order=${order}`)).body[list];
    expect(reversed).toEqual(all.toReversed());
    expect(await walk(`${path}&limit=${limit}&order=${order}`, list)).toEqual(reversed);
  });

  test('is the same as CSV, one row an element', async () => {
    const answer = await ok(whole(path));
    const response = await fetch(url + whole(path), {
      headers: { 'X-Service-Key': seeded.key, Accept: 'text/csv' },
    });
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    expect(response.headers.get('vary')).toMatch(/^Accept, Accept-Encoding(, X-Service-Key)?$/);
    expect(response.headers.get('x-total-count')).toBe(answer.headers.get('x-total-count'));
    const [header = [], ...records] = parseCsv(await response.text());
    expect(records).toEqual(
      answer.body[list].map((element: object) => header.map((name) => cellOf(element, name))),
    );
    const first = answer.body[list][0];
    expect(new Set(header.map((name) => name.split('.')[0]))).toEqual(
      new Set([...Object.keys(first), ...(list === 'history' ? ['orders'] : [])]),
    );
  });
});

describe('GET /v1/market_data/:id_or_slug', () => {
  /** Every trader of the market, by address. */
  function expectedTraders(market: number) {
    const own = rows.filter((row) => row.market === market);
    return [...Map.groupBy(own, (row) => row.trader)]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([trader, list]) => {
        const totals = totalsOf(list);
        const fills = list.filter((row) => row.kind === 'fill');
        return {
          profile: { ...profileObject(trader), last_trade_at: time(lastTrade(trader)) },
          pnl: String(totals.pnl),
          volume: String(totals.maker + totals.taker),
          maker_volume: String(totals.maker),
          taker_volume: String(totals.taker),
          fee: String(list.reduce((sum, row) => sum + row.fee, 0n)),
          roi: ratio(totals.pnl, totals.cost),
          last_trade_at: time(Math.max(0, ...fills.map((row) => row.time))),
          orders: expectedOrders(trader, market),
        };
      });
  }

  test('returns every trader with figures and fills, by number, slug or condition id', async () => {
    for (const market of [0, 2, 4, 6]) {
      const traders = expectedTraders(market);
      const listing = MARKETS[market];
      for (const name of [listing?.id, `market-${listing?.id}`, `0x${conditionOf(market)}`]) {
        expect((await ok(`/v1/market_data/${name}`)).body).toEqual({
          ...{ market: expectedMarketObject(market), total_count: traders.length },
          ...{ next_cursor: '', traders },
        });
      }
    }
  });

  test('returns a market without a listing by its condition id', async () => {
    const { body } = await ok(`/v1/market_data/0x${conditionOf(UNLISTED_MARKET)}`);
    expect(body.market).toEqual(expectedMarketObject(UNLISTED_MARKET));
    expect(body.traders).toEqual(expectedTraders(UNLISTED_MARKET));
  });

  test('omits the fills with include_orders=false', async () => {
    const { body } = await ok('/v1/market_data/1001?include_orders=false');
    const expected = expectedTraders(1).map((trader) => ({ ...trader, orders: [] }));
    expect(body.traders).toEqual(expected);
  });

  test('ends a page with next_cursor, which is also in the Link header', async () => {
    const { body, headers } = await ok('/v1/market_data/1001?limit=2');
    const second = expectedTraders(1)[1]?.profile.address;
    expect([body.traders.length, body.next_cursor]).toEqual([2, second]);
    expect(nextOf(headers)).toBe(`/v1/market_data/1001?limit=2&cursor=${second}`);
    expect(headers.get('x-total-count')).toBe(String(expectedTraders(1).length));
  });

  test('returns a fill once, even while its row is stored twice', async () => {
    const orders = `/v1/traders/${TRADER}/markets/1003/orders?`;
    const paths = ['/v1/market_data/1002', orders, `${orders}order=desc`];
    const before = await Promise.all(paths.map(async (path) => (await ok(path)).body));
    const { client } = seeded.clickhouse;
    await client.command({ query: 'SYSTEM STOP MERGES market_bookings' });
    await client.command({
      query:
        'INSERT INTO market_bookings SELECT * FROM market_bookings SETTINGS insert_deduplicate = 0',
    });
    const count = await client.query({
      query:
        'SELECT count() > uniqExact(condition_id, trader, block_number, log_index) FROM market_bookings',
      format: 'TabSeparated',
    });
    expect(await count.text()).toBe('1\n');
    seeded.api.expire();
    const after = await Promise.all(paths.map(async (path) => (await ok(path)).body));
    expect(after).toEqual(before);
    // A page may end between the two.
    for (const limit of [1, 2, 3]) {
      expect(await walk(`${orders}limit=${limit}`, 'orders')).toEqual(before[1].orders);
    }
    await client.command({ query: 'SYSTEM START MERGES market_bookings' });
  });
});

describe('GET /v1/markets/:id', () => {
  test('finds a market by slug and condition id too', async () => {
    const { body } = await ok('/v1/markets/1003');
    for (const name of ['market-1003', `0x${conditionOf(3)}`]) {
      expect((await ok(`/v1/markets/${name}`)).body).toEqual(body);
    }
    const unlisted = await ok(`/v1/markets/0x${conditionOf(UNLISTED_MARKET)}`);
    expect(unlisted.body.market).toEqual(expectedMarketObject(UNLISTED_MARKET));
  });
});

describe('a page for a demo key', () => {
  test.each(['v1', 'v2'])(
    'of %s is its last, because the next page would be rejected',
    async (version) => {
      const path = `${url}/${version}/analytics/leaderboard`;
      const demoKey = await issueKey(seeded.nats.bucket, 'demo');
      // By default, it has the maximum number of entries.
      const [demo, again] = [await get(path, demoKey), await get(path, demoKey)];
      const pro = await get(`${path}?limit=20`, seeded.key);
      expect(pro.body.total_count).toBeGreaterThan(20);
      const next = nextOf(pro.headers) ?? '';
      expect(next).toContain('cursor=');
      for (const { body, headers } of [demo, again]) {
        expect(body.traders).toEqual(pro.body.traders);
        expect(headers.get('link')).toBeNull();
        expect(body.next_cursor ?? '').toBe('');
      }
      const refused = await get(new URL(next, url).href, demoKey);
      expect([refused.status, refused.body.issues[0].path]).toEqual([403, 'cursor']);
      expect((await get(new URL(next, url).href, seeded.key)).status).toBe(200);
    },
  );
});

test('a response that is not a list is always JSON', async () => {
  const headers = { Accept: 'text/csv' };
  const { headers: answered } = await get(`${url}/v1/traders/${TRADER}`, seeded.key, { headers });
  expect(answered.get('content-type')).toBe('application/json; charset=utf-8');
});

test('CSV has its header even if the list is empty', async () => {
  const nobody = await fetch(`${url}/v1/traders/0x${'0'.repeat(40)}/hourly_stats`, {
    headers: { 'X-Service-Key': seeded.key, Accept: 'text/csv' },
  });
  expect(await nobody.text()).toBe(
    'hour,pnl,market_count,win_count,taker_volume,maker_volume,volume\r\n',
  );
});

// Last, because it adds bookings.
test('thousands of fills are returned in one streamed response, and in pages', async () => {
  const trader = addressOf(950);
  const [pattern] = rows.filter((row) => row.kind === 'fill');
  if (pattern === undefined) throw new Error('no fill among the bookings');
  const fills = Array.from({ length: 2_345 }, (_, log) => ({ ...pattern, trader, market: 5, log }));
  await insertBookings(seeded.clickhouse.client, fills, 2_000_000);
  const path = `/v1/traders/${trader}/markets/1005/orders`;
  const { body, headers } = await ok(path);
  expect(body.orders).toHaveLength(2_345);
  expect(new Set(body.orders.map((order: { order_hash: string }) => order.order_hash)).size).toBe(
    2_345,
  );
  expect(headers.get('transfer-encoding')).toBe('chunked');
  expect(headers.get('content-encoding')).toMatch(/^(br|gzip)$/);
  expect(await walk(`${path}?limit=1000`, 'orders')).toEqual(body.orders);
  expect((await ok(`${path}?order=desc`)).body.orders).toEqual(body.orders.toReversed());
  const plain = await ok(`/v1/market_data/1005?cursor=${addressOf(949)}`);
  expect(plain.body.traders.at(-1).orders).toEqual(body.orders);
});

/** RFC 4180. */
function parseCsv(text: string): string[][] {
  expect(text.endsWith('\r\n')).toBe(true);
  const records: string[][] = [];
  let record: string[] = [];
  for (const [, quoted, plain = '', end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g,
  )) {
    record.push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === ',') continue;
    records.push(record);
    record = [];
  }
  return records;
}

function cellOf(element: object, name: string): string {
  const value = name
    .split('.')
    .reduce<unknown>((one, part) => (one as Record<string, unknown> | undefined)?.[part], element);
  if (value === undefined) return '';
  if (!Array.isArray(value)) return String(value);
  return typeof value[0] === 'object' ? JSON.stringify(value) : value.join(';');
}
