/** A trader's and a market's views: every figure comes from the API. */
import type { Locator, Page } from 'playwright-core';
import { getAddress } from 'viem';
import { expect, test } from 'vitest';
import type {
  LeaderboardV1,
  Market,
  MarketCandles,
  Markets,
  PositionEvents,
  Trader,
  TraderHours,
  TraderMovements,
  TraderOrdersV1,
  TraderPnl,
  TraderPositions,
  Traders,
  TraderTrades,
  TraderV1,
} from '../../apps/client/index.ts';
import { faults, PHONE, screenshot, type Watched } from './browser.ts';
import { cents, change, count, isShare, money, percent, price } from './figures.ts';
import { agree, compareRows, expectRows, expectText, texts } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();

/** At least the interval at which the page reloads a trader. */
const REFRESH_MS = 15_000;
/** By then everything that was received is drawn. */
const FRAME_MS = 100;
const HOUR_MS = 3_600_000;
const NEVER_TRADED = `0x${'0'.repeat(39)}1`;

/** The hour in the text of a chart, Unix milliseconds. */
async function hourOf(slider: Locator): Promise<number> {
  const text = (await slider.getAttribute('aria-valuetext')) ?? '';
  return Date.parse(`${text.slice(0, 10)}T${text.slice(11, 19)}Z`);
}

/** Moves the pointer of a chart to the hour before the newest, and returns that hour. */
async function leaveNewest(page: Page, slider: Locator): Promise<number> {
  await slider.focus();
  await page.keyboard.press('ArrowLeft');
  await expect
    .poll(() => slider.getAttribute('aria-valuenow'))
    .not.toBe(await slider.getAttribute('aria-valuemax'));
  return await hourOf(slider);
}

test('three traders are compared on a phone: found by touch and keyboard, with the figures of the API', async () => {
  const addresses = await stage.leaders();
  const [first = '', second = '', third = ''] = addresses;
  // As a visitor of the demo tier.
  const watched = await stage.at(`/trader/${first}`, { key: '', ...PHONE });
  const { page } = watched;
  await page.getByRole('link', { name: 'Compare', exact: true }).tap();
  const rows = page.locator('.compare tbody tr');
  await rows.nth(0).waitFor();
  await page.getByLabel('Add a trader').tap();
  await page.keyboard.insertText(second);
  await page.keyboard.press('Enter');
  await rows.nth(1).waitFor();
  await page.getByLabel('Add a trader').tap();
  await page.keyboard.insertText(third.slice(0, 14));
  await page.locator('.offers button').tap();
  await rows.nth(2).waitFor();
  expect(new URL(page.url()).searchParams.get('traders')).toBe(addresses.join(','));
  const { traders } = await expectRows(
    watched,
    '/v2/traders/batch',
    '.compare',
    [1, 2, 6, 9],
    ({ traders }: Traders) =>
      traders.map(({ positions, windows }) => [
        count(positions.open_count),
        money(positions.value, 0, 'negative'),
        money(windows.t_30d?.pnl ?? 0, 0, 'always'),
        money(windows.t_30d?.volume ?? 0, 0, 'negative'),
      ]),
  );
  expect(traders.map(({ profile }) => profile.address.toLowerCase())).toEqual(addresses);
  const named = new Map(
    traders.map(({ profile: { address, name } }) => {
      const lower = address.toLowerCase();
      return [lower, name === '' ? `${lower.slice(0, 6)}…${lower.slice(-4)}` : name] as const;
    }),
  );
  await agree(async () => {
    const gains = addresses.map((address) => {
      const start = [...watched.urls].findLast((one) => one.includes(`${address}/pnl`)) ?? '';
      const { points } = watched.answer<TraderPnl>(start.slice(stage.url.length));
      const gain = (points.at(-1)?.pnl ?? 0) - (points[0]?.pnl ?? 0);
      return `${named.get(address)} ${money(gain, 2, 'always')}`;
    });
    const text = await page.getByRole('slider').getAttribute('aria-valuetext');
    expect(text).toContain(`: ${gains.join(' · ')}`);
  });
  await page.reload();
  await rows.nth(2).waitFor();
  await page.getByRole('button', { name: 'Remove ' }).first().click();
  await expect.poll(() => rows.count()).toBe(2);
  const compared = () => new URL(page.url()).searchParams.get('traders');
  expect(compared()).toBe(`${second},${third}`);
  await page.goto(`${stage.url}/compare?traders=${third},${NEVER_TRADED}`);
  const never = rows.filter({ hasText: 'never traded' });
  await never.getByRole('button', { name: 'Remove ' }).click();
  await expect.poll(compared).toBe(third);
});

test('a trader whose line fails in a comparison is reported, also after the others have loaded', async () => {
  const addresses = await stage.leaders();
  const { page } = await stage.at('/leaderboard');
  const alert = page.getByRole('alert');
  await page.route('**/pnl?*', async (route) => {
    await alert.waitFor();
    await route.continue();
  });
  await page.route(`**/${addresses[0]}/pnl?*`, (route) =>
    route.fulfill({ status: 400, json: { detail: 'this line fails' } }),
  );
  await page.goto(`${stage.url}/compare?traders=${addresses}`);
  await page.locator('.plot[aria-valuenow]:not([aria-valuenow="0"])').waitFor();
  // At once: it fails again with the next refresh.
  expect((await alert.allInnerTexts()).join()).toContain('this line fails');
});

test('a trader: windows, tier, tags, markets and their fills are those of the API', async () => {
  const address = await stage.leader();
  const watched = await stage.at(`/trader/${address}?tab=performance`);
  const { page } = watched;
  await page.locator('.windows').waitFor();
  await page.locator('section:has(#tags-title) tbody tr').first().waitFor();
  const more = page.locator('section:has(#tags-title)').getByRole('button');
  if ((await more.count()) > 0) await more.click();
  const first = `/v1/traders/${address}`;
  await agree(async () => {
    const { t_1h, t_4h, t_1d, t_3d, t_7d, t_30d } = watched.answer<TraderV1>(first).stats;
    const windows = [t_1h, t_4h, t_1d, t_3d, t_7d, t_30d];
    const shown = (await texts(page.locator('.windows tbody tr'))).map((cells) => cells.slice(1));
    expect([shown[0], shown[1], shown[4], shown[6]]).toEqual([
      windows.map(({ pnl }) => money(pnl, 2, 'always')),
      windows.map(({ roi }) => percent(roi, 'always')),
      windows.map(({ volume }) => money(volume, 2, 'negative')),
      windows.map(({ taker_volume }) => money(taker_volume, 2, 'negative')),
    ]);
  });
  await expectRows(watched, first, 'section:has(#tags-title)', [0, 1], ({ top_tags }: TraderV1) =>
    top_tags.map(({ slug, pnl }) => [slug, money(pnl, 2, 'always')]),
  );
  await agree(async () => {
    const second = watched.answer<Trader>(`/v2/traders/${address}`);
    const { totals } = watched.answer<TraderPositions>(
      `/v2/traders/${address}/positions?limit=100`,
    );
    expect(await page.locator('.tiles dd').allInnerTexts()).toEqual([
      money(second.pusd_balance + totals.value, 2, 'negative'),
      second.taker_tier_name === '' ? 'not synced' : second.taker_tier_name,
      money(second.pusd_balance, 2, 'negative'),
      second.weighted_volume.toLocaleString('en-US', { maximumFractionDigits: 2 }),
    ]);
  });
  await page.getByRole('radio', { name: 'Positions' }).check();
  await page.locator('.history tbody tr').first().waitFor();
  const head = page.locator('section:has(#markets-title) .section-head');
  await agree(async () => {
    const all = { status: 'all', sort_by: 'last_trade' };
    const { totals, total_count } = await compareHistory(watched, address, all);
    const { closed_count: closed, closed_won_count: won } = totals;
    const text = await head.innerText();
    expect(text).toContain(`${count(total_count)}, won ${count(won)} of ${count(closed)} closed`);
    expect(text).toContain(percent((100 * won) / closed, 'negative'));
  });

  const markets = page.locator('section:has(#markets-title)');
  await markets.getByRole('radio', { name: 'Resolved' }).check();
  await markets.getByRole('button', { name: 'PnL' }).click();
  await expect.poll(() => page.url()).toContain('status=resolved&sort_by=pnl');
  const expectHistory = (asked: Record<string, string>) =>
    agree(() => compareHistory(watched, address, { status: 'resolved', ...asked, sort_by: 'pnl' }));
  const question = (await expectHistory({})).positions[0]?.market.question ?? '';
  await markets.getByLabel('Words').fill(question);
  await expect.poll(() => page.url()).toContain('q=');
  const { positions } = await expectHistory({ q: question });
  expect(positions.map(({ market }) => market.question)).toContain(question);
  await page.locator('.history .expand').first().click();
  const fills = `/v1/traders/${address}/markets/`;
  await expectRows(watched, fills, '.inner', [2, 4, 5, 6], ({ orders }: TraderOrdersV1) =>
    orders.map(({ side, usdc, shares }) => [
      side,
      cents(usdc, shares),
      money(shares, 2, 'negative'),
      money(usdc, 2, 'negative'),
    ]),
  );

  const slider = page.getByRole('slider', { name: 'Total PnL' });
  const hour = await leaveNewest(page, slider);
  await page.keyboard.press('ArrowLeft');
  await expect.poll(() => hourOf(slider)).toBe(hour - HOUR_MS);
});

/** The request whose response the list of markets must show. */
function compareHistory(watched: Watched, address: string, asked: Record<string, string>) {
  const all = new URLSearchParams({ ...asked, order: 'desc', limit: '20' });
  const path = `/v2/traders/${address}/positions?${all}`;
  return compareRows(watched, path, '.history', [1, 2], ({ positions }: TraderPositions) =>
    positions.map(({ pnl, realised_pnl }) => [
      money(pnl, 2, 'always'),
      money(realised_pnl, 2, 'always'),
    ]),
  );
}

test('a trader: the chart of PnL begins at zero, then come open positions, with the figures of the API', async () => {
  const address = await holder();
  const watched = await stage.at(`/trader/${address}`);
  const { page } = watched;
  await page.locator('.positions tbody tr').first().waitFor();
  expect(await page.locator('main h2').allInnerTexts()).toEqual([
    ...['PnL', 'Open positions', 'Markets'],
  ]);
  const path = `/v2/traders/${address}/positions?limit=100`;
  const columns = [1, 3, 4, 5, 6, 7, 8];
  await agree(async () => {
    const { totals } = await compareRows(
      watched,
      path,
      '.positions',
      columns,
      ({ positions }: TraderPositions) =>
        positions
          .filter(isShare)
          .slice(0, 8)
          .map((one) => [
            one.outcome,
            cents(String(one.average_price), '1000000'),
            cents(String(one.mark.price), '1000000'),
            money(one.value, 2, 'negative'),
            money(one.unrealised_pnl, 2, 'always'),
            percent(one.unrealised_roi, 'always'),
            money(one.realised_pnl, 2, 'always'),
          ]),
    );
    const shown = await page.locator('section:has(#positions-title) .totals').innerText();
    expect(shown).toContain(money(totals.value, 2, 'negative'));
  });
  for (const [title, slider] of [
    ['Total', 'Total PnL'],
    ['Realised', 'Realised PnL'],
  ] as const) {
    await page.getByRole('radio', { name: title, exact: true }).check();
    await agree(async () => {
      const { points } = watched.answer<TraderPnl>(`/v2/traders/${address}/pnl`);
      const traded = points.findIndex((one) => one.realised_pnl !== 0 || one.unrealised_pnl !== 0);
      const shown = points.slice(Math.max(0, traded - 1));
      const [first, last] = [shown[0], shown.at(-1)] as TraderPnl['points'];
      const chart = page.getByRole('slider', { name: slider, exact: false }).first();
      const gain = (name: 'pnl' | 'realised_pnl') => (last?.[name] ?? 0) - (first?.[name] ?? 0);
      expect(await chart.getAttribute('aria-valuetext')).toContain(
        `${money(gain('pnl'), 2, 'always')} USDC: realised ${money(gain('realised_pnl'), 2, 'always')}`,
      );
      const values = shown.map((one) => (title === 'Total' ? one.pnl : one.realised_pnl));
      const drawdowns = values.map((value, n) => value - Math.max(...values.slice(0, n + 1)));
      const name = title === 'Total' ? 'pnl' : 'realised_pnl';
      expect(await page.locator('.drawdown').innerText()).toBe(
        `${money(gain(name), 2, 'always')} · largest drawdown ${money(Math.min(...drawdowns), 2, 'always')}`,
      );
    });
  }
  await page.getByRole('radio', { name: '1 year' }).check();
  await expect.poll(() => watched.urls.some((one) => one.includes('interval=1d'))).toBe(true);
  await screenshot(page, 'trader-positions');
});

test('a trader: all trades, by side and size, are those of the API; the trader is among the recent', async () => {
  const address = await stage.leader();
  const watched = await stage.at(`/trader/${address}?tab=activity`);
  const { page } = watched;
  const shownAs = async (query: string) => {
    const path = `/v2/traders/${address}/trades?${query}`;
    const columns = [1, 2, 3, 4, 5, 6];
    const answer = await expectRows(watched, path, '.trades', columns, ({ trades }: TraderTrades) =>
      trades.map(({ market, side, outcome, usdc, shares }) => [
        market.question,
        side,
        outcome,
        cents(String(usdc), String(shares)),
        money(shares, 2, 'negative'),
        money(usdc, 2, 'negative'),
      ]),
    );
    expect(answer.trades.length).toBeGreaterThan(0);
    return answer.trades;
  };
  const [first] = await shownAs('limit=25');
  const side = first?.side ?? '';
  await page.getByRole('radio', { name: side === 'BUY' ? 'Buys' : 'Sells' }).check();
  expect((await shownAs(`limit=25&side=${side}`)).every((one) => one.side === side)).toBe(true);
  const least = first?.usdc ?? 0;
  await page.getByLabel('Min USDC').fill(String(least / 1e6));
  const large = await shownAs(`limit=25&side=${side}&min_usdc=${least / 1e6}`);
  expect(large.every(({ usdc }) => usdc >= least)).toBe(true);
  await page.locator('.trades').scrollIntoViewIfNeeded();
  await screenshot(page, 'trader-trades');
  await page.goto(`${stage.url}/tape`);
  await page.keyboard.press('Control+k');
  const recent = page.getByRole('group', { name: 'Recent' }).getByRole('option');
  expect(await recent.first().getAttribute('href')).toBe(`/trader/${address}`);
});

test('a trader: shares that moved without a trade are those of the API', async () => {
  const path = 'movements?limit=25';
  const owners = await Promise.all(
    (await stage.leaders()).map(async (address) => {
      const of = await stage.get<TraderMovements>(`/v2/traders/${address}/${path}`);
      return { address, count: of.movements.length };
    }),
  );
  const [{ address = '' } = {}] = owners.toSorted((a, b) => b.count - a.count);
  const watched = await stage.at(`/trader/${address}?tab=activity`);
  const answer = await expectRows(
    ...[watched, `/v2/traders/${address}/${path}`, '.movements', [1, 2, 3, 4]],
    ({ movements }: TraderMovements) =>
      movements.map(({ market, reason, change_0, change_1, value }) => [
        market.question,
        reason.charAt(0).toUpperCase() + reason.slice(1),
        [
          [change_0, market.outcome_1],
          [change_1, market.outcome_2],
        ]
          .filter(([change]) => change !== 0)
          .map(([change, outcome]) => `${money(Number(change), 2, 'always')} ${outcome}`)
          .join(', '),
        money(value, 2, 'negative'),
      ]),
  );
  expect(answer.movements.length).toBeGreaterThan(0);
});

test('a trader: the star follows, and Following shows their tape and positions', async () => {
  const address = await holder();
  const watched = await stage.at(`/trader/${address}`);
  const { page } = watched;
  await page.getByRole('button', { name: 'Follow', exact: true }).click();
  await page.getByRole('link', { name: 'Following', exact: true }).click();
  await page.locator('.followed tbody td.strong span').waitFor();
  const batch = '/v2/traders/batch';
  await expectRows(watched, batch, '.followed', [1, 2, 3], ({ traders }: Traders) =>
    traders.map(({ positions: { open_count, value, unrealised_pnl } }) => [
      count(open_count),
      money(value, 2, 'negative'),
      money(unrealised_pnl, 2, 'always'),
    ]),
  );
  const asked = watched.urls.find((one) => one.includes('/v2/recent_matches')) ?? '';
  expect(new URL(asked).searchParams.get('traders')).toBe(address);
  const largest = `/v2/traders/${address}/positions?limit=3`;
  await expectRows(watched, largest, '.positions', [2, 4, 5], ({ positions }: TraderPositions) =>
    positions.map(({ outcome, value, unrealised_pnl }) => [
      outcome,
      money(value, 2, 'negative'),
      money(unrealised_pnl, 2, 'always'),
    ]),
  );
  await page.locator('.positions').getByRole('link').nth(1).click();
  await expect.poll(() => page.url()).toContain('/market/');
  const market = new URL(page.url()).pathname;
  await page.getByRole('button', { name: 'Follow', exact: true }).click();
  await page.getByRole('link', { name: 'Following', exact: true }).click();
  const markets = page.locator('.market-table tbody tr');
  await agree(async () => {
    const path = `/v2${market.replace('market', 'markets')}`;
    const { mark } = watched.answer<Market>(path);
    const { candles } = watched.answer<MarketCandles>(`${path}/candles`);
    const moved = (candles.at(-1)?.close ?? 0) - (candles[0]?.open ?? 0);
    const [cells] = await texts(markets);
    expect(cells?.[1]).toContain(price(mark.price_1));
    expect(cells?.[2]).toBe(change(moved));
  });
  expect(await faults(page)).toEqual([]);
  await screenshot(page, 'following');
  await page.reload();
  await markets.getByRole('button', { name: 'Following' }).click();
  await page.locator('.followed').getByRole('button', { name: 'Following' }).click();
  await expectText(page.locator('main'), 'Nothing yet');
});

test('following: what they did, and since the last visit on the home page', async () => {
  const id = (await holder()).toLowerCase();
  const seen = Date.now() - 20 * 86_400_000;
  const localStorage = [
    { name: 'fillstream.followed.traders', value: JSON.stringify([{ id, name: '' }]) },
    { name: 'fillstream.seen', value: String(seen) },
  ];
  const storageState = { cookies: [], origins: [{ origin: stage.url, localStorage }] };
  const watched = await stage.at('/following', { storageState });
  const { page } = watched;
  const path = '/v2/position_events';
  const rows = ({ events }: PositionEvents) =>
    events.map(({ type, outcome, price: paid, value }) => [
      `${type.charAt(0).toUpperCase()}${type.slice(1)} ${outcome}`,
      price(paid),
      money(value, 2, 'negative'),
    ]);
  await expectRows(watched, path, '.events', [2, 5, 7], rows);
  expect(await faults(page)).toEqual([]);
  await page.goto(stage.url);
  await page.getByRole('heading', { name: 'Since you were last here' }).waitFor();
  await expectRows(watched, path, '.events', [2, 5, 7], rows);
  const asked = watched.urls.findLast((one) => one.includes(path)) ?? '';
  const from = new URL(asked).searchParams.get('from') ?? '';
  expect(Date.parse(from)).toBe(seen - (seen % 1_000));
  await screenshot(page, 'since');
  // A reload is the same visit.
  await page.reload();
  await page.getByRole('heading', { name: 'Since you were last here' }).waitFor();
});

/** Address of a trader with an open position. */
async function holder(): Promise<string> {
  const { traders } = await stage.get<LeaderboardV1>('/v1/analytics/leaderboard?limit=50');
  for (const { profile } of traders) {
    const path = `/v2/traders/${profile.address}/positions?limit=1`;
    const { total_count } = await stage.get<TraderPositions>(path);
    if (total_count >= 2) return profile.address;
  }
  throw new Error('nobody on the leaderboard holds two positions');
}

test('a trader: PnL by day is the sum of the hours that the API has, by months', async () => {
  const address = await stage.leader();
  const watched = await stage.at(`/trader/${address}?tab=performance`);
  const { page } = watched;
  const now = new Date();
  /** Seconds since the epoch. */
  const startOf = (more: number) =>
    Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + more) / 1_000;
  /** Expects that this month (0 is the current one) is shown as the API has it; returns the number of days with trades. */
  const daysOf = async (more: number) => {
    const [from, end] = [startOf(more), startOf(more + 1)];
    let days = new Map<string, TraderHours['stats']>();
    await agree(async () => {
      const { stats } = watched.answer<TraderHours>(
        `/v2/traders/${address}/hourly_stats?from=${from}&to=${end - 1}`,
      );
      days = Map.groupBy(stats, ({ hour }) => hour.slice(0, 10));
      const first = new Date(from * 1_000).toISOString().slice(0, 10);
      expect(await page.locator(`.calendar time[datetime="${first}"]`).count()).toBe(1);
      for (const [day, hours] of days) {
        const cell = page.locator(`.calendar td:has(time[datetime="${day}"])`);
        const pnl = hours.reduce((sum, one) => sum + one.pnl, 0);
        expect(await cell.locator('.hidden').textContent()).toBe(
          ` (${money(pnl, 2, 'always')} USDC)`,
        );
      }
      expect(await page.locator('.calendar b').count()).toBe(days.size);
    });
    return days.size;
  };
  const thisMonth = await daysOf(0);
  const after = page.getByRole('button', { name: 'Next month' });
  expect(await after.isDisabled()).toBe(true);
  await page.getByRole('button', { name: 'Previous month' }).click();
  // On the first of a month, only the previous one may have trades.
  expect(thisMonth + (await daysOf(-1))).toBeGreaterThan(0);
  await after.click();
  expect(await daysOf(0)).toBeGreaterThanOrEqual(thisMonth);
});

test('a trader: the hour under the pointer stays when a new hour begins', async () => {
  const address = await stage.leader();
  const { page } = await stage.at('/', { clock: true });
  // Until the page reloads, it has the response of the previous hour.
  let isEarlier = true;
  await page.route('**/pnl?*', async (route) => {
    const response = await route.fetch();
    const { points } = (await response.json()) as { points: unknown[] };
    await route.fulfill({ response, json: { points: isEarlier ? points.slice(0, -1) : points } });
  });
  await page.goto(`${stage.url}/trader/${address}`);
  const slider = page.getByRole('slider', { name: 'Total PnL' });
  const hour = await leaveNewest(page, slider);
  const last = await slider.getAttribute('aria-valuemax');
  isEarlier = false;
  await page.clock.runFor(REFRESH_MS);
  await expect.poll(() => slider.getAttribute('aria-valuemax')).not.toBe(last);
  await page.clock.runFor(FRAME_MS);
  expect(await hourOf(slider)).toBe(hour);
});

test('a trader: the address is copied with its checksum', async () => {
  const address = await stage.leader();
  const permissions = ['clipboard-read', 'clipboard-write'];
  const { page } = await stage.at(`/trader/${address}`, { permissions });
  const copy = page.getByRole('button', { name: 'Copy the address' });
  await expectText(page.locator('.full-address'), getAddress(address));
  await Promise.all([expectText(copy, 'Copied'), copy.click()]);
  expect(await page.evaluate('navigator.clipboard.readText()')).toBe(getAddress(address));
});

test('following: the change of a market that was resolved today ends at its payout', async () => {
  const { markets } = await stage.get<Markets>('/v2/markets?status=resolved&limit=100');
  let id = 0;
  for (const { market, mark } of markets) {
    if (Date.parse(market.resolved_at) < Date.now() - 43_200_000) continue;
    const { candles } = await stage.get<MarketCandles>(`/v2/markets/${market.id}/candles`);
    if (candles.at(-1)?.close !== mark.price_1) id = market.id;
    if (id !== 0) break;
  }
  expect(id).toBeGreaterThan(0);
  const value = JSON.stringify([{ id: String(id), name: '' }]);
  const localStorage = [{ name: 'fillstream.followed.markets', value }];
  const storageState = { cookies: [], origins: [{ origin: stage.url, localStorage }] };
  const watched = await stage.at('/following', { storageState });
  await agree(async () => {
    const { mark } = watched.answer<Market>(`/v2/markets/${id}`);
    const { candles } = watched.answer<MarketCandles>(`/v2/markets/${id}/candles`);
    const [cells] = await texts(watched.page.locator('.market-table tbody tr'));
    expect(cells?.[2]).toBe(change((mark.price_1 ?? 0) - (candles[0]?.open ?? 0)));
  });
});
