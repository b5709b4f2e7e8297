/** A trader and a market: every figure is the API's. */
import type { Locator, Page } from 'playwright-core';
import { getAddress } from 'viem';
import { expect, test } from 'vitest';
import { faults, screenshot, type Watched } from './browser.ts';
import { cents, change, count, money, percent, price } from './figures.ts';
import { agree, expectText, texts } from './seen.ts';
import type { Stage } from './stage.ts';

type Windows = {
  stats: Record<string, { pnl: string; roi: number; volume: string; taker_volume: string }>;
  top_tags: { slug: string; pnl: string }[];
};
type Second = { pusd_balance: number; taker_tier_name: string; weighted_volume: number };
type History = {
  positions: { pnl: number; realised_pnl: number; market: { id: number; question: string } }[];
  totals: { closed_count: number; closed_won_count: number };
  total_count: number;
};
type Orders = { orders: { usdc: string; shares: string; side: string }[] };

type Held = {
  positions: {
    outcome: string;
    average_price: number;
    mark: { price: number };
    value: number;
    unrealised_pnl: number;
    unrealised_roi: number;
    realised_pnl: number;
  }[];
  totals: { value: number };
};
type Trades = {
  trades: {
    side: string;
    outcome: string;
    usdc: number;
    shares: number;
    market: { question: string };
  }[];
};
type Hours = { stats: { hour: string; pnl: number }[] };
type Points = { points: { equity: number; realised_pnl: number }[] };

/** At least as long as the page waits until it reads a trader again. */
const REFRESH_MS = 15_000;
/** By then what has come is drawn. */
const FRAME_MS = 100;
const HOUR_MS = 3_600_000;
const NEVER_TRADED = `0x${'0'.repeat(39)}1`;

/** The hour that a chart tells of, Unix milliseconds. */
async function hourOf(slider: Locator): Promise<number> {
  const text = (await slider.getAttribute('aria-valuetext')) ?? '';
  return Date.parse(`${text.slice(0, 10)}T${text.slice(11, 19)}Z`);
}

/** Moves the pointer of a chart to the hour before the newest, and gives that hour. */
async function leaveNewest(page: Page, slider: Locator): Promise<number> {
  await slider.focus();
  await page.keyboard.press('ArrowLeft');
  await expect
    .poll(() => slider.getAttribute('aria-valuenow'))
    .not.toBe(await slider.getAttribute('aria-valuemax'));
  return await hourOf(slider);
}

type Batch = {
  traders: {
    profile: { address: string; name: string };
    windows: Record<string, { pnl: number; roi: number; volume: number }>;
    positions: { open_count: number; value: number; unrealised_pnl: number };
  }[];
};

export function traderTests(stage: Stage): void {
  test('three traders are compared: found by mouse and keyboard, and as the API has them', async () => {
    const [first = '', second = '', third = ''] = await stage.leaders();
    // As a visitor of the demo tier.
    const watched = await stage.at(`/trader/${first}`, { key: '' });
    const { page } = watched;
    await page.getByRole('link', { name: 'Compare', exact: true }).click();
    const rows = page.locator('.compare tbody tr');
    await rows.nth(0).waitFor();
    await page.getByLabel('Add a trader').fill(second);
    await page.keyboard.press('Enter');
    await rows.nth(1).waitFor();
    await page.getByLabel('Add a trader').fill(third.slice(0, 14));
    await page.locator('.offers button').click();
    await rows.nth(2).waitFor();
    const addresses = [first, second, third];
    expect(new URL(page.url()).searchParams.get('traders')).toBe(addresses.join(','));
    await agree(async () => {
      const { traders } = watched.answer<Batch>('/v2/traders/batch');
      expect(traders.map(({ profile }) => profile.address.toLowerCase())).toEqual(addresses);
      expect((await texts(rows)).map((cells) => [cells[1], cells[2], cells[6], cells[9]])).toEqual(
        traders.map(({ positions, windows }) => [
          count(positions.open_count),
          money(positions.value, 0, 'negative'),
          money(windows.t_30d?.pnl ?? 0, 0, 'always'),
          money(windows.t_30d?.volume ?? 0, 0, 'negative'),
        ]),
      );
    });
    await agree(async () => {
      const gains = addresses.map((address) => {
        const start = [...watched.urls].findLast((one) => one.includes(`${address}/equity`)) ?? '';
        const { points } = watched.answer<Points>(start.slice(stage.url.length));
        return money((points.at(-1)?.equity ?? 0) - (points[0]?.equity ?? 0), 2, 'always');
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
    await page.route('**/equity?*', async (route) => {
      await alert.waitFor();
      await route.continue();
    });
    await page.route(`**/${addresses[0]}/equity?*`, (route) =>
      route.fulfill({ status: 400, json: { detail: 'this line fails' } }),
    );
    await page.goto(`${stage.url}/compare?traders=${addresses}`);
    await page.locator('.plot[aria-valuenow]:not([aria-valuenow="0"])').waitFor();
    // At once: it fails again with the next refresh.
    expect((await alert.allInnerTexts()).join()).toContain('this line fails');
  });

  test('a trader: windows, tier, tags, markets and their fills are those of the API', async () => {
    const address = await stage.leader();
    const watched = await stage.at(`/trader/${address}`);
    const { page } = watched;
    await page.locator('.windows').waitFor();
    await page.locator('section:has(#tags-title) tbody tr').first().waitFor();
    const more = page.locator('section:has(#tags-title)').getByRole('button');
    if ((await more.count()) > 0) await more.click();
    await page.locator('.history tbody tr').first().waitFor();
    await agree(async () => {
      const { stats, top_tags } = watched.answer<Windows>(`/v1/traders/${address}`);
      const names = ['t_1h', 't_4h', 't_1d', 't_3d', 't_7d', 't_30d'];
      const row = (cell: (window: Windows['stats'][string]) => string) =>
        names.map((name) => cell(stats[name] as Windows['stats'][string]));
      const shown = await texts(page.locator('.windows tbody tr'));
      expect(shown[0]?.slice(1)).toEqual(row(({ pnl }) => money(pnl, 2, 'always')));
      expect(shown[1]?.slice(1)).toEqual(row(({ roi }) => percent(roi, 'always')));
      expect(shown[4]?.slice(1)).toEqual(row(({ volume }) => money(volume, 2, 'negative')));
      expect(shown[6]?.slice(1)).toEqual(row((one) => money(one.taker_volume, 2, 'negative')));
      const tags = await texts(page.locator('section:has(#tags-title) tbody tr'));
      expect(tags.map((cells) => cells.slice(0, 2))).toEqual(
        top_tags.map(({ slug, pnl }) => [slug, money(pnl, 2, 'always')]),
      );
      const second = watched.answer<Second>(`/v2/traders/${address}`);
      expect(await page.locator('.tiles dd').allInnerTexts()).toEqual([
        second.taker_tier_name === '' ? 'not synced' : second.taker_tier_name,
        money(second.pusd_balance, 2, 'negative'),
        second.weighted_volume.toLocaleString('en-US', { maximumFractionDigits: 2 }),
      ]);
      const { totals, total_count } = await expectHistory(watched, address, {
        ...{ status: 'all', sort_by: 'last_trade' },
      });
      const { closed_count: closed, closed_won_count: won } = totals;
      const head = page.locator('section:has(#markets-title) .section-head');
      const text = await head.innerText();
      expect(text).toContain(`${count(total_count)}, won ${count(won)} of ${count(closed)} closed`);
      expect(text).toContain(percent((100 * won) / closed, 'negative'));
    });

    const markets = page.locator('section:has(#markets-title)');
    await markets.getByRole('radio', { name: 'Resolved' }).check();
    await markets.getByRole('button', { name: 'PnL' }).click();
    await expect.poll(() => page.url()).toContain('status=resolved&sort_by=pnl');
    let question = '';
    await agree(async () => {
      const { positions } = await expectHistory(watched, address, {
        ...{ status: 'resolved', sort_by: 'pnl' },
      });
      question = positions[0]?.market.question ?? '';
    });
    await markets.getByLabel('Words').fill(question);
    await expect.poll(() => page.url()).toContain('q=');
    await agree(async () => {
      const { positions } = await expectHistory(watched, address, {
        ...{ status: 'resolved', q: question, sort_by: 'pnl' },
      });
      expect(positions.map(({ market }) => market.question)).toContain(question);
    });
    await page.locator('.history .expand').first().click();
    await page.locator('.inner tbody tr').first().waitFor();
    await agree(async () => {
      const { orders } = watched.answer<Orders>(`/v1/traders/${address}/markets/`);
      const fills = await texts(page.locator('.inner tbody tr'));
      expect(fills.map((cells) => [cells[2], cells[4], cells[5], cells[6]])).toEqual(
        orders.map(({ side, usdc, shares }) => [
          side,
          cents(usdc, shares),
          money(shares, 2, 'negative'),
          money(usdc, 2, 'negative'),
        ]),
      );
    });

    const slider = page.getByRole('slider', { name: 'PnL by hour' });
    const hour = await leaveNewest(page, slider);
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => hourOf(slider)).toBe(hour - HOUR_MS);
  });

  /** What the list of markets shows is the API's answer to this. */
  async function expectHistory(
    { answer, page }: Watched,
    address: string,
    asked: Readonly<Record<string, string>>,
  ): Promise<History> {
    const all = new URLSearchParams({ ...asked, order: 'desc', limit: '20' });
    const history = answer<History>(`/v2/traders/${address}/positions?${all}`);
    const rows = await texts(page.locator('.history > tbody > tr'));
    expect(rows.map((cells) => cells.slice(1, 3))).toEqual(
      history.positions.map(({ pnl, realised_pnl }) => [
        money(pnl, 2, 'always'),
        money(realised_pnl, 2, 'always'),
      ]),
    );
    return history;
  }

  test('a trader: open positions come first, and the equity is drawn, as the API has them', async () => {
    const address = await holder();
    const watched = await stage.at(`/trader/${address}`);
    const { page } = watched;
    await page.locator('.positions tbody tr').first().waitFor();
    expect(await page.locator('h2').first().innerText()).toBe('Open positions');
    await agree(async () => {
      const { positions, totals } = watched.answer<Held>(
        `/v2/traders/${address}/positions?limit=100`,
      );
      const shown = await texts(page.locator('.positions tbody tr'));
      expect(shown.map((cells) => [cells[1], ...cells.slice(3, 9)])).toEqual(
        positions
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
      expect(await page.locator('.totals').first().innerText()).toContain(
        money(totals.value, 2, 'negative'),
      );
    });
    for (const [title, slider] of [
      ['Total', 'Total PnL'],
      ['Realised', 'Realised PnL'],
    ] as const) {
      await page.getByRole('radio', { name: title, exact: true }).check();
      await agree(async () => {
        const { points } = watched.answer<Points>(`/v2/traders/${address}/equity`);
        const last = points.at(-1) as Points['points'][number];
        const chart = page.getByRole('slider', { name: slider, exact: false }).first();
        expect(await chart.getAttribute('aria-valuetext')).toContain(
          `${money(last.equity, 2, 'always')} USDC: realised ${money(last.realised_pnl, 2, 'always')}`,
        );
        const values = points.map((one) => (title === 'Total' ? one.equity : one.realised_pnl));
        const drawdowns = values.map((value, n) => value - Math.max(...values.slice(0, n + 1)));
        expect(await page.locator('.drawdown').innerText()).toBe(
          `largest drawdown ${money(Math.min(...drawdowns), 2, 'always')}`,
        );
      });
    }
    await page.getByRole('radio', { name: '1 year' }).check();
    await expect.poll(() => watched.urls.some((one) => one.includes('interval=1d'))).toBe(true);
    await screenshot(page, 'trader-positions');
  });

  test('a trader: all trades, by side and size, are those of the API; the trader is among the recent', async () => {
    const address = await stage.leader();
    const watched = await stage.at(`/trader/${address}`);
    const { page } = watched;
    const shownAs = async (query: string) => {
      await agree(async () => {
        const { trades } = watched.answer<Trades>(`/v2/traders/${address}/trades?${query}`);
        const rows = await texts(page.locator('.trades tbody tr'));
        expect(rows.map((cells) => cells.slice(1, 7))).toEqual(
          trades.map(({ market, side, outcome, usdc, shares }) => [
            market.question,
            side,
            outcome,
            cents(String(usdc), String(shares)),
            money(shares, 2, 'negative'),
            money(usdc, 2, 'negative'),
          ]),
        );
      });
      const { trades } = watched.answer<Trades>(`/v2/traders/${address}/trades?${query}`);
      expect(trades.length).toBeGreaterThan(0);
      return trades;
    };
    const [first] = await shownAs('limit=25');
    const link = page.locator('.trades .match-link a').first();
    expect(await link.getAttribute('href')).toMatch(/^https:\/\/polygonscan\.com\/tx\/0x/);
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

  test('a trader: the star follows, and Following shows their tape and what they hold', async () => {
    const address = await holder();
    const watched = await stage.at(`/trader/${address}`);
    const { page } = watched;
    await page.getByRole('button', { name: 'Follow', exact: true }).click();
    await page.getByRole('link', { name: 'Following', exact: true }).click();
    await page.locator('.followed tbody td.strong span').waitFor();
    await agree(async () => {
      const { traders } = watched.answer<Batch>('/v2/traders/batch');
      const rows = await texts(page.locator('.followed tbody tr'));
      expect(rows.map((cells) => cells.slice(1, 4))).toEqual(
        traders.map(({ positions: { open_count, value, unrealised_pnl } }) => [
          ...[count(open_count), money(value, 2, 'negative'), money(unrealised_pnl, 2, 'always')],
        ]),
      );
    });
    const asked = watched.urls.find((one) => one.includes('/v1/stream/orders')) ?? '';
    expect(new URL(asked).searchParams.get('traders')).toBe(address);
    await agree(async () => {
      const { positions } = watched.answer<Held>(`/v2/traders/${address}/positions?limit=3`);
      const rows = await texts(page.locator('.positions tbody tr'));
      expect(rows.map((cells) => [cells[2], cells[4], cells[5]])).toEqual(
        positions.map(({ outcome, value, unrealised_pnl }) => [
          ...[outcome, money(value, 2, 'negative'), money(unrealised_pnl, 2, 'always')],
        ]),
      );
    });
    await page.locator('.positions').getByRole('link').nth(1).click();
    await expect.poll(() => page.url()).toContain('/market/');
    const market = new URL(page.url()).pathname;
    await page.getByRole('button', { name: 'Follow', exact: true }).click();
    await page.getByRole('link', { name: 'Following', exact: true }).click();
    const markets = page.locator('.market-table tbody tr');
    await agree(async () => {
      type Detail = { mark: { price_1: number } };
      const { mark } = watched.answer<Detail>(`/v2${market.replace('market', 'markets')}`);
      const path = `/v2${market.replace('market', 'markets')}/candles`;
      const { candles } = watched.answer<{ candles: { open: number; close: number }[] }>(path);
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

  /** Address of a trader with an open position. */
  async function holder(): Promise<string> {
    type Board = { traders: { profile: { address: string } }[] };
    const { traders } = await stage.service.get<Board>('/v1/analytics/leaderboard?limit=50');
    for (const { profile } of traders) {
      const path = `/v2/traders/${profile.address}/positions?limit=1`;
      const { total_count } = await stage.service.get<{ total_count: number }>(path);
      if (total_count >= 2) return profile.address;
    }
    throw new Error('nobody on the leaderboard holds two positions');
  }

  test('a trader: PnL by day is the sum of the hours that the API has, by months', async () => {
    const address = await stage.leader();
    const watched = await stage.at(`/trader/${address}`);
    const { page } = watched;
    const now = new Date();
    /** Seconds since the epoch. */
    const startOf = (more: number) =>
      Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + more) / 1_000;
    /** The month so many after this one is shown as the API has it; gives how many days have trades. */
    const daysOf = async (more: number) => {
      const [from, end] = [startOf(more), startOf(more + 1)];
      let days = new Map<string, Hours['stats']>();
      await agree(async () => {
        const { stats } = watched.answer<Hours>(
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

  test('a trader: the hour pointed at stays when another begins', async () => {
    const address = await stage.leader();
    const { page } = await stage.at('/', { clock: true });
    // Until the page reads again it has the answer of an hour before; the newest comes first.
    let isEarlier = true;
    await page.route('**/hourly_stats?*', async (route) => {
      const response = await route.fetch();
      const { stats } = (await response.json()) as { stats: unknown[] };
      await route.fulfill({ response, json: { stats: isEarlier ? stats.slice(1) : stats } });
    });
    await page.goto(`${stage.url}/trader/${address}`);
    const slider = page.getByRole('slider', { name: 'PnL by hour' });
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
    await Promise.all([expectText(copy, 'copied'), copy.click()]);
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(getAddress(address));
  });
}
