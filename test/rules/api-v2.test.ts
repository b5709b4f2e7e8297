/**
 * The history of markets and every v2 endpoint over real HTTP and the real embedded ClickHouse,
 * against plain sums over the same made-up bookings.
 */
import { getAddress } from 'viem';
import { beforeAll, describe, expect, test } from 'vitest';
import {
  addressOf,
  conditionOf,
  insertBookings,
  MARKETS,
  UNLISTED_MARKET,
  UNLISTED_TOKENS,
} from '../support/api-bookings.ts';
import {
  board,
  entryObject,
  expectedHistory,
  expectedHistoryV2,
  expectedHours,
  expectedHoursV2,
  expectedMarketV2,
  expectedOrders,
  expectedTrader,
  lastTrade,
  NOW,
  numbers,
  orderV2,
  profileV2,
  ratio,
  rows,
  TIE_TRADER,
  time,
  WHALE,
} from '../support/api-expected.ts';
import { get } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';

const NOBODY = `0x${'0'.repeat(40)}`;

const seeded = forFile(startSeeded);
let url: string;
let key: string;

beforeAll(async () => {
  url = seeded.api.url;
  key = seeded.key;
});

/** The body of a 200. */
async function ok(path: string) {
  const { status, body, text } = await get(url + path, key);
  expect(status, `${path}: ${text}`).toBe(200);
  return body;
}

const withoutOrders = (entries: ReturnType<typeof expectedHistory>) =>
  entries.map(({ orders, number, ...entry }) => entry);

describe('GET /v1/traders/:address/markets', () => {
  test('lists the markets of a trader by their newest trade', async () => {
    for (const trader of [0, 1, 2, 9, 17].map(addressOf)) {
      const expected = withoutOrders(expectedHistory(trader));
      expect(await ok(`/v1/traders/${trader}/markets`)).toEqual({
        history: expected,
        total_count: expected.length,
      });
    }
  });

  test('shows a market without a listing with id 0 and empty texts', async () => {
    const { history } = await ok(`/v1/traders/${TIE_TRADER}/markets`);
    const unlisted = history.find((entry: { market: { id: string } }) => entry.market.id === '0');
    expect(unlisted.market).toMatchObject({ question: '', outcome_1: '', tags: [] });
    expect(unlisted.volume).toBe('1');
  });

  test('orders trades of the same second by condition id', async () => {
    const { history } = await ok(`/v1/traders/${TIE_TRADER}/markets`);
    const ids = history.map((entry: { market: { id: string } }) => entry.market.id);
    expect(ids).toEqual(['1001', '1003', '1005', '0']);
  });

  test.each([true, false])(
    'keeps unresolved or resolved markets by is_active=%s',
    async (active) => {
      const trader = addressOf(3);
      const expected = withoutOrders(expectedHistory(trader, active));
      expect(expected.length).toBeGreaterThan(0);
      expect(await ok(`/v1/traders/${trader}/markets?is_active=${active}`)).toEqual({
        history: expected,
        total_count: expected.length,
      });
    },
  );

  test('carries orders by time with include_orders, for the tiers that may', async () => {
    const trader = addressOf(5);
    const path = `/v1/traders/${trader}/markets?include_orders=true`;
    const expected = expectedHistory(trader).map(({ number, ...entry }) => entry);
    expect((await ok(path)).history).toEqual(expected);
    const plain = await get(`${url}/v1/traders/${trader}/markets`, seeded.demoKey);
    expect([plain.status, 'orders' in plain.body.history[0]]).toEqual([200, false]);
  });

  test('is an empty list for an address that was never seen', async () => {
    expect(await ok(`/v1/traders/${NOBODY}/markets`)).toEqual({ history: [], total_count: 0 });
  });
});

describe('GET /v2/traders/:address', () => {
  test('returns balance, tier, weighted volume and five tags of synced and other traders', async () => {
    for (const trader of [0, 1, 2, 3, 4, 6, 8, 9, 12, 15, 18, 21, 27]) {
      expect(await ok(`/v2/traders/${addressOf(trader)}`), `${trader}`).toEqual(
        expectedTrader(trader),
      );
    }
  });

  test('returns balance and tier of many traders in a batch', async () => {
    const traders = [0, 1, 2, 3, 4, 6, 8, 9, 12, 15, 18, 21, 27];
    const { body } = await get(`${url}/v2/traders/batch`, key, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ addresses: traders.map(addressOf) }),
    });
    for (const [i, trader] of traders.entries()) {
      const { top_tags, weighted_volume, ...shared } = expectedTrader(trader);
      expect(body.traders[i], `${trader}`).toMatchObject(shared);
    }
  });

  test.each([
    ['sports', undefined],
    ['crypto', undefined],
    ['all', 'series-y'],
    ['crypto', 'series-x'],
    ['no-such-tag', undefined],
  ])('restricts tags and weighted volume to tag %s and series %s', async (tag, series) => {
    const query = new URLSearchParams({ tag, ...(series !== undefined && { series }) });
    for (const trader of [3, 4]) {
      expect(await ok(`/v2/traders/${addressOf(trader)}?${query}`)).toEqual(
        expectedTrader(trader, tag, series),
      );
    }
  });

  test('is 404 for an address that was never seen', async () => {
    const { status, body } = await get(`${url}/v2/traders/${NOBODY}`, key);
    expect([status, body.error]).toEqual([404, 'not_found']);
  });

  test('shows a sum beyond the exact numbers as the largest exact one', async () => {
    const { status, text } = await get(`${seeded.edgeApi.url}/v2/traders/${WHALE}`, key);
    expect(status).toBe(200);
    expect(text).toContain(`:${Number.MAX_SAFE_INTEGER},`);
  });
});

describe('GET /v2/traders/:address/hourly_stats', () => {
  test.each([
    ['all', undefined],
    ['sports', undefined],
    ['all', 'series-x'],
    ['crypto', 'series-y'],
    ['all', 'no-such-series'],
  ])('sums hours of tag %s and series %s', async (tag, series) => {
    const query = new URLSearchParams({ tag, ...(series !== undefined && { series }) });
    for (const trader of [0, 5].map(addressOf)) {
      const answer = await ok(`/v2/traders/${trader}/hourly_stats?${query}`);
      expect(answer).toEqual({ stats: expectedHoursV2(trader, tag, series) });
    }
  });

  test('narrows by from, to and limit like v1', async () => {
    const trader = addressOf(1);
    const [from, to] = [NOW - 9 * 86_400, NOW - 86_400];
    const path = `/v2/traders/${trader}/hourly_stats?from=${from}&to=${to}&limit=3`;
    const hours = expectedHours(trader, 'all', from, to).slice(0, 3);
    expect((await ok(path)).stats.map((hour: { hour: string }) => hour.hour)).toEqual(
      hours.map((hour) => hour.hour),
    );
  });
});

describe('GET /v2/traders/:address/markets/:id/orders', () => {
  test('lists fills as numbers, without price, hash and token', async () => {
    for (const [market, { id }] of MARKETS.entries()) {
      const trader = addressOf(7);
      expect(await ok(`/v2/traders/${trader}/markets/${id}/orders`)).toEqual({
        orders: expectedOrders(trader, market).map(orderV2),
      });
    }
  });
});

describe('GET /v2/traders/:address/markets', () => {
  test('is the history of v1 in numbers, with results', async () => {
    for (const trader of [addressOf(2), TIE_TRADER]) {
      const expected = expectedHistoryV2(trader);
      expect(await ok(`/v2/traders/${trader}/markets?include_orders=true`)).toEqual({
        history: expected,
        next_cursor: '',
        total_count: expected.length,
      });
    }
  });
});

describe('GET /v2/markets/:id', () => {
  test('finds each market by number, condition id and slug', async () => {
    for (const [market, { id, conditionId }] of MARKETS.entries()) {
      // The whale's volume there exceeds the exact range of a number.
      if (market === 4) continue;
      const expected = expectedMarketV2(market);
      for (const name of [
        id,
        `0x${conditionId}`,
        `0x${conditionId.toUpperCase()}`,
        `market-${id}`,
      ]) {
        // Prices and open interest: api-markets.test.ts.
        expect(await ok(`/v2/markets/${name}`), name).toMatchObject(expected);
      }
    }
  });

  test('finds a market without a listing by its condition id', async () => {
    const body = await ok(`/v2/markets/0x${conditionOf(UNLISTED_MARKET)}`);
    expect(body.market).toMatchObject({
      ...{ id: 0, question: '', token_ids: UNLISTED_TOKENS, result: -2 },
      condition_id: `0x${conditionOf(UNLISTED_MARKET)}`,
    });
    expect(body.total_traders).toBeGreaterThan(5);
  });
});

describe('GET /v2/analytics/leaderboard', () => {
  test('is the leaderboard of v1 in numbers and checksummed addresses', async () => {
    const expected = board('7D', 'crypto', 'roi');
    const query = 'time_frame=7D&tag=crypto&sort_by=roi&limit=100';
    const refreshed = await seeded.clickhouse.client.query({
      query: `SELECT formatDateTime(max(refreshed_at), '%FT%TZ', 'UTC') FROM leaderboard_7d`,
      format: 'TabSeparated',
    });
    expect(await ok(`/v2/analytics/leaderboard?${query}`)).toEqual({
      as_of: (await refreshed.text()).trim(),
      traders: expected.map((entry, index) => ({
        ...numbers(entryObject(entry, index), 'total_pnl', 'total_volume'),
        profile: profileV2(entry.trader),
        last_trade_at: time(lastTrade(entry.trader)),
        closed_win_rate: ratio(BigInt(entry.closedWins), BigInt(entry.closed)),
        closed_count: entry.closed,
        closed_wins_count: entry.closedWins,
      })),
      next_cursor: '',
      total_count: expected.length,
    });
  });
});

test('a managed stream keeps the condition ids of markets that exist', async () => {
  const post = (markets: readonly string[]) =>
    get(`${url}/streams`, key, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ name: 'mine', markets }),
    });
  const { id } = MARKETS[1] as (typeof MARKETS)[number];
  const made = await post([String(id), `market-${id}`, `0x${conditionOf(2)}`]);
  expect([made.status, made.body.markets]).toEqual([
    201,
    [`0x${conditionOf(1)}`, `0x${conditionOf(2)}`],
  ]);
  const refused = await post(['no-such-market']);
  expect([refused.status, refused.body.error]).toEqual([404, 'not_found']);
});

test('addresses of v2 carry the checksum of ERC-55', async () => {
  const { profile } = await ok(`/v2/traders/${addressOf(1).toUpperCase().replace('X', 'x')}`);
  expect(profile.address).toBe(getAddress(addressOf(1)));
  expect(profile.address).not.toBe(addressOf(1));
});

// Last, because it adds bookings.
describe('a walk through GET /v2/traders/:address/markets', () => {
  test('repeats and omits nothing by cursor while the trader keeps trading', async () => {
    const walked = [];
    let cursor = '';
    do {
      const query = cursor === '' ? '' : `&cursor=${cursor}`;
      const page = await ok(`/v2/traders/${TIE_TRADER}/markets?limit=1${query}`);
      walked.push(...page.history.map((entry: { market: { id: number } }) => entry.market.id));
      // Market 1005 moves from behind the cursor to the front, 1001 stays there.
      if (walked.length === 1) await tradeAgain([1, 5]);
      cursor = page.next_cursor;
    } while (cursor !== '');
    expect(walked).toEqual([1001, 1003, 0]);
    const { history } = await ok(`/v2/traders/${TIE_TRADER}/markets`);
    expect(history.map((entry: { market: { id: number } }) => entry.market.id)).toEqual([
      ...[1001, 1005, 1003, 0],
    ]);
  });
});

/** A second later, the tie trader trades in these markets again. */
async function tradeAgain(markets: readonly number[]) {
  const again = rows
    .filter((row) => row.trader === TIE_TRADER && markets.includes(row.market))
    .map((row) => ({ ...row, time: row.time + 1, block: row.block + 1 }));
  await insertBookings(seeded.clickhouse.client, again, 1_000_000);
}
