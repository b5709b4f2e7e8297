/**
 * Paging while trades arrive: within one refresh of a board, its pages neither repeat nor omit a
 * trader, regardless of new trades; a trader's markets are paginated by cursor, as far as an order by
 * the newest trade allows; filters combine.
 */
import { describe, expect, test } from 'vitest';
import { addressOf, insertBookings, UNLISTED_MARKET } from '../support/api-bookings.ts';
import { NOW, rows, TRADERS } from '../support/api-expected.ts';
import { get, pagesOf } from '../support/api-harness.ts';
import { refreshBoards, startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';

const seeded = forFile(startSeeded);
let inserted = 0;

async function ok(path: string) {
  const { body, status, text } = await get(seeded.api.url + path, seeded.key);
  expect(status, text).toBe(200);
  return body;
}

/** Every trader trades once more, and two new ones trade, too. */
async function tradeMore() {
  const [pattern] = rows.filter((row) => row.kind === 'fill' && row.time > NOW - 3_000);
  if (pattern === undefined) throw new Error('no recent fill among the bookings');
  const traders = [...Array(TRADERS).keys(), 700 + inserted, 800 + inserted];
  const more = traders.map((trader, log) => ({
    ...{ ...pattern, trader: addressOf(trader), log, block: 90_000_000 + inserted },
    ...{ time: NOW - 1, market: (trader + inserted) % UNLISTED_MARKET },
    pnl: BigInt(trader * 7_000_000 - 90_000_000),
  }));
  await insertBookings(seeded.clickhouse.client, more, 3_000_000 + inserted * 1_000);
  inserted++;
}

const FILTERS = [
  '',
  '&sort_by=roi&min_market_count=2&max_roi=20',
  '&sort_by=win_rate&tag=crypto&min_pnl=-500&max_win_rate=80',
  '&sort_by=market_count&time_frame=1D&order=asc',
];

describe.each(FILTERS)('the leaderboard with %j', (filter) => {
  const path = `/v1/analytics/leaderboard?limit=4${filter}`;
  const addresses = (traders: readonly { profile: { address: string } }[]) =>
    traders.map((entry) => entry.profile.address);

  test.each(['offset', 'Link'])('is complete in pages by %s while trades arrive', async (way) => {
    const whole = await ok(path.replace('limit=4', 'limit=100'));
    expect(whole.total_count).toBe(whole.traders.length);
    expect(whole.traders.length).toBeGreaterThan(4);
    const walked: typeof whole.traders = [];
    for await (const { body } of pagesOf(seeded.api.url, path, seeded.key)) {
      const page = way === 'Link' ? body : await ok(`${path}&offset=${walked.length}`);
      expect(page.total_count).toBe(whole.total_count);
      walked.push(...page.traders);
      await tradeMore();
    }
    expect(addresses(walked)).toEqual(addresses(whole.traders));
    expect(new Set(addresses(walked)).size).toBe(whole.total_count);
    const ranks = walked.map((entry: { rank: number }) => entry.rank);
    const upwards = Array.from({ length: whole.total_count }, (_, index) => index + 1);
    expect(ranks).toEqual(filter.includes('asc') ? upwards.toReversed() : upwards);
  });
});

test.each(['v1', 'v2'])(
  'the last trade on a board of %s is that of the profile',
  async (version) => {
    await tradeMore();
    // The first has traded after the clock of the api.
    const { traders } = await ok(`/${version}/analytics/leaderboard?limit=5&offset=1`);
    expect(traders).toHaveLength(5);
    for (const entry of traders) {
      const { profile } = await ok(`/v1/traders/${entry.profile.address}`);
      const shown = entry.last_trade_at ?? entry.profile.last_trade_at;
      expect(shown).toBe(profile.last_trade_at.replace(' ', 'T'));
    }
  },
);

test('a refresh brings the trades that arrived', async () => {
  const path = '/v1/analytics/leaderboard?limit=100';
  const before = (await ok(path)).total_count;
  await tradeMore();
  await refreshBoards(seeded.clickhouse.client);
  // A page is cached for a second after the refresh of its board was read.
  await expect.poll(async () => (await ok(path)).total_count).toBeGreaterThan(before);
});

test('the markets of a trader do not repeat when following Link while trades arrive', async () => {
  const path = `/v1/traders/${addressOf(6)}/markets?limit=2`;
  const whole = await ok(path.replace('limit=2', 'limit=100'));
  const walked: { market: { id: string } }[] = [];
  for await (const { body } of pagesOf(seeded.api.url, path, seeded.key)) {
    expect(body.total_count).toBe(whole.total_count);
    walked.push(...body.history);
    await tradeMore();
  }
  const ids = walked.map((entry) => entry.market.id);
  expect(new Set(ids).size).toBe(ids.length);
  // Markets that are traded meanwhile move before the cursor, and only these are omitted.
  const order = whole.history.map((entry: { market: { id: string } }) => entry.market.id);
  expect(ids).toEqual(order.filter((id: string) => ids.includes(id)));
  expect(ids.slice(0, 2)).toEqual(order.slice(0, 2));
});

test('oldest first, no market of a trader is omitted: one that is traded meanwhile comes again', async () => {
  const trader = addressOf(9);
  const path = `/v1/traders/${trader}/markets?limit=2&order=asc`;
  const idsOf = (body: { history: { market: { id: string } }[] }) =>
    body.history.map((entry) => entry.market.id);
  const whole = idsOf(await ok(path.replace('limit=2', 'limit=100')));
  const [pattern] = rows.filter((row) => row.kind === 'fill');
  if (pattern === undefined) throw new Error('no fill among the bookings');
  const ids: string[] = [];
  let again = '';
  for await (const { body } of pagesOf(seeded.api.url, path, seeded.key)) {
    ids.push(...idsOf(body));
    if (again !== '') continue;
    again = ids.find((id) => id !== '0') ?? '';
    const market = Number(again) - 1_000;
    const trade = { ...pattern, trader, market, block: 95_000_000, time: NOW };
    await insertBookings(seeded.clickhouse.client, [trade], 9_000_000);
  }
  expect(ids).toEqual([...whole, again]);
});
