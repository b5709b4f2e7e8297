/**
 * The page in Debian's Chromium on the embedded service with a trading devnet: its figures are the
 * API's, its controls do what they say, its tape outlives the api process, and nobody is shut out.
 */

import type { AddressInfo } from 'node:net';
import { createServer } from 'node:net';
import type { Browser, Locator, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type Service, startService, temporaryDirectory, until } from '../e2e/service.ts';
import { CHROMIUM, faults, launch, MISSING, open, screenshot, type Watched } from './browser.ts';
import { cents, count, money, percent } from './figures.ts';
import { replay } from './replay.ts';

const PHONE = { viewport: { width: 390, height: 844 }, deviceScaleFactor: 2, isMobile: true };
/** What Chromium itself writes of an answer that is an error, and of a server that is gone. */
const NETWORK_ERROR = /^Failed to load resource: /;

if (CHROMIUM === undefined) console.warn(MISSING);

describe.skipIf(CHROMIUM === undefined)(`the page (${CHROMIUM ?? MISSING})`, () => {
  const directory = temporaryDirectory();
  let service: Service;
  let browser: Browser;
  let url: string;
  let key: string;
  let tab: Watched | undefined;

  beforeAll(async () => {
    // A fixed port, so that a restarted api is found where it was.
    const port = await freePort();
    const args = ['--port', String(port), '--history-days', '4', '--demo-rate', '12'];
    [service, browser] = await Promise.all([
      startService(`${directory.path}/data`, { args }),
      launch(),
    ]);
    ({ url, key } = service.ready);
  });

  afterAll(async () => {
    await browser?.close();
    await service?.up.stop();
    directory.remove();
  });

  afterEach(async () => {
    const done = tab;
    tab = undefined;
    await done?.close();
    expect(done?.foreign ?? []).toEqual([]);
    expect((done?.errors ?? []).filter((text) => !NETWORK_ERROR.test(text))).toEqual([]);
    expect((done?.urls ?? []).filter((one) => one.includes(key))).toEqual([]);
  });

  async function at(path: string, options: Parameters<typeof open>[2] = {}): Promise<Watched> {
    tab = await open(browser, url, { key, path, ...options });
    return tab;
  }

  describe('the key', () => {
    test('comes from the link, leaves the address at once, and stays in the tab', async () => {
      const { page } = await at('/?time_frame=7D');
      await page.locator('tbody tr').first().waitFor();
      expect(page.url()).toBe(`${url}/?time_frame=7D`);
      await page.reload();
      await page.locator('tbody tr').first().waitFor();
      expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie')).toBe('{}');
    });

    test('is asked for, refused in the words of the server, and taken when it is right', async () => {
      tab = await open(browser, url);
      const { page } = tab;
      await page.getByLabel('Key', { exact: true }).fill('fs_pro_wrong');
      await page.getByRole('button', { name: 'Open' }).click();
      await expectText(
        page.getByRole('alert'),
        'the X-Service-Key field is not a key of this service',
      );
      expect(await faults(page)).toEqual([]);
      await page.getByLabel('Key', { exact: true }).fill(key);
      await page.getByRole('button', { name: 'Open' }).click();
      await page.locator('tbody tr').first().waitFor();
    });
  });

  type Board = {
    traders: {
      profile: { address: string; name: string };
      total_pnl: string;
      total_volume: string;
      roi: number;
      win_rate: number;
      rank: number;
      markets_count: number;
    }[];
    total_count: number;
  };

  describe('the leaderboard', () => {
    test('shows what the API answers, for each setting, and keeps settings in its address', async () => {
      const watched = await at('/?time_frame=7D');
      const { page } = watched;
      await expectBoard(watched, 'time_frame=7D&sort_by=pnl&order=desc&tag=all&offset=0');

      await page.getByLabel('Tag').selectOption('crypto');
      await page.getByRole('button', { name: 'Win rate' }).click();
      await page.getByRole('button', { name: /^Filters/ }).click();
      await page.getByLabel('Markets from').fill('3');
      await page.getByLabel('ROI from, %').fill('-50.5');
      const asked = 'time_frame=7D&sort_by=win_rate&order=desc&tag=crypto&offset=0';
      await expectBoard(watched, `${asked}&min_roi=-50.5&min_market_count=3`);
      expect(new URL(page.url()).searchParams.toString()).toBe(
        'time_frame=7D&tag=crypto&sort_by=win_rate&order=desc&min_market_count=3&min_roi=-50.5',
      );
      await page.getByRole('button', { name: 'markets ≥ 3' }).click();
      await expectBoard(watched, `${asked}&min_roi=-50.5`);

      await page.goBack();
      await expectBoard(watched, `${asked}&min_roi=-50.5&min_market_count=3`);
    });

    test('goes through all pages without losing or repeating a trader', async () => {
      const watched = await at('/?time_frame=30D&limit=20');
      const { page } = watched;
      const seen: string[] = [];
      for (let offset = 0; ; offset += 20) {
        const query = `time_frame=30D&sort_by=pnl&order=desc&tag=all&offset=${offset}`;
        const { traders, total_count } = await expectBoard(watched, `${query}&limit=20`);
        seen.push(...traders.map((entry) => entry.profile.address));
        const next = page.getByRole('button', { name: 'Next' });
        if (!(await next.isEnabled())) {
          expect(seen).toHaveLength(total_count);
          break;
        }
        await next.click();
      }
      expect(new Set(seen).size).toBe(seen.length);
      expect(seen.length).toBeGreaterThan(60);
    });

    test('says what the server says of a setting that it refuses, and of nobody', async () => {
      const { page } = await at('/?time_frame=1H&min_win_rate=101');
      await expectText(page.getByRole('alert'), 'min_win_rate: given "101"');
      await page.goto(`${url}/?time_frame=1H&min_market_count=100000`);
      await expectText(page.locator('.empty'), 'No trader matches');
    });

    test('works by keyboard alone', async () => {
      const { page } = await at('/?time_frame=7D');
      await page.locator('tbody tr').nth(2).waitFor();
      await page.keyboard.press('2');
      await expect.poll(() => page.url()).toContain('time_frame=4H');
      await page.keyboard.press('6');
      await expect.poll(() => page.url()).toContain('time_frame=30D');
      await page.locator('tbody tr').nth(2).waitFor();
      for (const one of ['j', 'j', 'k', 'j']) await page.keyboard.press(one);
      const second = await page.locator('tbody tr').nth(1).locator('a').getAttribute('href');
      await page.keyboard.press('Enter');
      await expect.poll(() => page.url()).toBe(url + second);
      await page.keyboard.press('/');
      await page.keyboard.type('no-such-market');
      await page.keyboard.press('Enter');
      await expectText(page.getByRole('alert'), 'no market has the slug no-such-market');
    });
  });

  async function expectBoard(watched: Watched, query: string): Promise<Board> {
    const { page } = watched;
    await agree(async () => {
      const { traders } = watched.answer<Board>(`/v1/analytics/leaderboard?${query}`);
      const shown = await texts(page.locator('main tbody tr'));
      expect(shown.map((cells) => [cells[0], cells[1], ...cells.slice(3, 8)])).toEqual(
        traders.map((entry) => [
          String(entry.rank),
          entry.profile.name || short(entry.profile.address),
          money(entry.total_pnl, 2, 'always'),
          percent(entry.roi, 'always'),
          percent(entry.win_rate, 'negative'),
          count(entry.markets_count),
          money(entry.total_volume, 0, 'negative'),
        ]),
      );
    });
    const board = watched.answer<Board>(`/v1/analytics/leaderboard?${query}`);
    await expectText(page.locator('.pager span').first(), `of ${count(board.total_count)}`);
    return board;
  }

  type Windows = {
    stats: Record<string, { pnl: string; roi: number; volume: string; taker_volume: string }>;
    top_tags: { slug: string; pnl: string }[];
  };
  type Second = { pusd_balance: number; taker_tier_name: string; weighted_volume: number };
  type History = {
    history: { pnl: number; roi: number; market: { id: number; question: string } }[];
    total_count: number;
  };
  type Orders = { orders: { usdc: string; shares: string; side: string }[] };

  test('a trader: windows, tier, tags, markets and their fills are those of the API', async () => {
    const address = await leader();
    const watched = await at(`/trader/${address}`);
    const { page } = watched;
    await page.locator('.windows').waitFor();
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
      const { history, total_count } = watched.answer<History>(`/v2/traders/${address}/markets`);
      const markets = await texts(page.locator('.history > tbody > tr'));
      expect(markets.map((cells) => [cells[2], cells[3]])).toEqual(
        history.map(({ pnl, roi }) => [money(pnl, 2, 'always'), percent(roi, 'always')]),
      );
      await expectText(page.locator('.pager span').first(), `of ${count(total_count)}`);
    });

    await page.getByRole('radio', { name: 'Resolved' }).check();
    await expect.poll(() => page.url()).toContain('is_active=false');
    await page.locator('.history .expand').first().click();
    await page.locator('.inner tbody tr').first().waitFor();
    await agree(async () => {
      const { orders } = watched.answer<Orders>(`/v1/traders/${address}/markets/`);
      const fills = await texts(page.locator('.inner tbody tr'));
      expect(fills.map((cells) => [cells[1], cells[4], cells[5], cells[6]])).toEqual(
        orders.map(({ side, usdc, shares }) => [
          side,
          cents(usdc, shares),
          money(shares, 2, 'negative'),
          money(usdc, 2, 'negative'),
        ]),
      );
    });

    const slider = page.getByRole('slider', { name: 'PnL by hour' });
    await slider.focus();
    const newest = await slider.getAttribute('aria-valuetext');
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => slider.getAttribute('aria-valuetext')).not.toBe(newest);
  });

  type Detail = {
    market: { question: string; outcome_1: string; winning_outcome: string; result: number };
    total_volume: number;
    total_pnl_distributed: number;
    total_traders: number;
    total_winners: number;
    top_earners: { pnl: number; roi: number; volume: number }[];
  };

  test('a market: totals, outcome and earners are those of the API, and its price is drawn', async () => {
    const address = await leader();
    const { history } = await service.get<History>(
      `/v2/traders/${address}/markets?is_active=false&limit=1`,
    );
    const watched = await at(`/market/${history[0]?.market.id}`);
    const { page } = watched;
    await page.locator('.plot canvas').waitFor();
    await agree(async () => {
      const detail = watched.answer<Detail>(`/v2/markets/${history[0]?.market.id}`);
      expect(await page.locator('h1').innerText()).toBe(detail.market.question);
      expect(await page.locator('.tiles dd').allInnerTexts()).toEqual([
        money(detail.total_volume, 0, 'negative'),
        count(detail.total_traders),
        count(detail.total_winners),
        money(detail.total_pnl_distributed, 0, 'negative'),
      ]);
      const earners = await texts(page.locator('.board-table tbody tr'));
      expect(earners.map((cells) => cells.slice(2))).toEqual(
        detail.top_earners.map(({ pnl, roi, volume }) => [
          money(pnl, 2, 'always'),
          percent(roi, 'always'),
          money(volume, 2, 'negative'),
        ]),
      );
      expect(detail.market.result).toBeGreaterThanOrEqual(0);
      await expectText(page.locator('.outcomes .won').first(), detail.market.winning_outcome);
    });
  });

  describe('the tape', () => {
    test('outlives the api process: no row is lost or doubled, and it says what happened', async () => {
      const { page } = await at('/tape');
      await page.locator('tr[data-position]').nth(25).waitFor();
      process.kill(service.pidOf('api'), 'SIGKILL');
      await expectText(page.locator('[data-stream]'), 'trying again');
      await expectText(page.locator('.told.resumed'), 'none is missing');
      const rowsAfter = await rowCount(page);
      await expect.poll(() => rowCount(page), { timeout: 40_000 }).toBeGreaterThan(rowsAfter + 40);
      // Until the first rows are settled: final blocks follow some seconds behind.
      await page.getByRole('button', { name: 'Pause' }).click();
      await expect.poll(() => oldestState(page), { timeout: 60_000 }).toMatch(/final|void/);

      const rows = await allRows(page);
      const [first, last] = [rows.at(-1), rows[0]];
      const { told, voided } = await replay(
        ...([url, key, first?.position ?? '', last?.position ?? ''] as const),
      );
      expect(rows.slice(0, -1).map(({ position }) => position)).toEqual(
        told.map(({ position }) => position).reverse(),
      );
      expect(rows.slice(0, -1).map(({ price, usdc }) => [price, usdc])).toEqual(
        told.map(({ usdc, shares }) => [cents(usdc, shares), money(usdc, 2, 'negative')]).reverse(),
      );
      const hashes = new Map(told.map(({ position, txHash }) => [position, txHash]));
      for (const { position, state, struck } of rows.slice(0, -1)) {
        const isVoid = voided.has(hashes.get(position) ?? '');
        if (isVoid) expect([position, state, struck]).toEqual([position, '✕ void', true]);
        else expect([position, struck]).toEqual([position, false]);
      }
      expect(rows.filter(({ state }) => state === '✓ final').length).toBeGreaterThan(20);
    });

    test('stands still while it is paused or scrolled, and goes on with what came meanwhile', async () => {
      const { page } = await at('/tape');
      await page.locator('tr[data-position]').nth(30).waitFor();
      await page.keyboard.press(' ');
      const shown = await positions(page);
      const before = await rowCount(page);
      await expect.poll(() => rowCount(page), { timeout: 30_000 }).toBeGreaterThan(before + 10);
      expect(await positions(page)).toEqual(shown);
      await page.keyboard.press(' ');
      await expect.poll(() => positions(page)).not.toEqual(shown);

      await scrollTo(page, 90);
      await expect.poll(() => page.locator('.fresh').count()).toBe(1);
      const still = await positions(page);
      expect(await positions(page)).toEqual(still);
      await page.locator('.fresh').click();
      await expect.poll(() => page.locator('.fresh').count()).toBe(0);
    });

    test('shows only what its filters let through, by the server, and what a match consists of', async () => {
      const { page } = await at('/tape?min_usdc=50&min_price=50');
      await page.locator('tr[data-position]').nth(4).waitFor();
      for (const [, , side, price = '', usdc = ''] of await texts(
        page.locator('tr[data-position]'),
      )) {
        expect(side).toMatch(/^(BUY|SELL)$/);
        expect(Number.parseFloat(price)).toBeGreaterThanOrEqual(50);
        expect(Number(usdc.replaceAll(',', ''))).toBeGreaterThanOrEqual(50);
      }
      await page.locator('tr[data-position] button').nth(3).click();
      await page.locator('.detail tbody tr').nth(1).waitFor();
      const [taker, ...makers] = await texts(page.locator('.detail tbody tr'));
      expect([taker?.[0], makers[0]?.[0]]).toEqual(['taker', 'maker']);
      await page.goto(`${url}/tape?min_price=101`);
      await expectText(page.getByRole('alert'), 'a parameter of the feed is not valid');
    });
  });

  type Stream = { id: string; name: string; tags: string[]; series: string[]; addresses: string[] };

  test('streams: created, changed, watched, disabled and deleted, as the API has them', async () => {
    const { page } = await at('/manage/streams');
    const streams = async () => (await service.get<{ data: Stream[] }>('/streams')).data;
    await page.getByLabel('Name').fill('crypto only');
    await page.getByLabel('Tags').fill('crypto, CRYPTO');
    await page.getByRole('button', { name: 'Create stream' }).click();
    await page.locator('.stream').waitFor();
    expect(await streams()).toMatchObject([{ name: 'crypto only', tags: ['crypto'] }]);
    await expectText(page.locator('.quotas'), '1 of 200');

    await page.locator('.stream').getByRole('button', { name: 'Edit' }).click();
    await page.locator('.stream').getByLabel('Tags').fill('');
    await page.locator('.stream').getByLabel('Traders').fill('0x12');
    await page.getByRole('button', { name: 'Save' }).click();
    await expectText(page.locator('.stream').getByRole('alert'), 'must be a wallet address');
    await page.locator('.stream').getByLabel('Traders').fill('');
    await page.locator('.stream').getByLabel('Name').fill('all of it');
    await page.getByRole('button', { name: 'Save' }).click();
    await expectText(page.locator('.stream h2'), 'all of it');
    expect(await streams()).toMatchObject([{ name: 'all of it', tags: [] }]);

    await page.getByRole('button', { name: 'Watch' }).click();
    await page.locator('tr[data-position]').nth(5).waitFor();
    await expectText(page.locator('h1'), 'all of it');
    await page.getByRole('button', { name: 'Back to the list' }).click();
    await page.locator('.stream').getByRole('button', { name: 'Disable' }).click();
    await expectText(page.locator('.stream .badge'), 'disabled');
    await page.locator('.stream').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete for good' }).click();
    await page.locator('.stream').waitFor({ state: 'detached' });
    expect(await streams()).toEqual([]);
  });

  describe('every view', () => {
    const schemes = ['light', 'dark'] as const;
    const views = ['leaderboard', 'trader', 'market', 'tape', 'streams'] as const;

    async function pathOf(view: (typeof views)[number]): Promise<string> {
      const address = await leader();
      const { history } = await service.get<History>(
        `/v2/traders/${address}/markets?is_active=false&limit=1`,
      );
      const paths = {
        leaderboard: '/?time_frame=7D',
        trader: `/trader/${address}`,
        market: `/market/${history[0]?.market.id}`,
        tape: '/tape',
        streams: '/manage/streams',
      };
      return paths[view];
    }

    const ready = {
      leaderboard: 'svg.spark',
      trader: '.history tbody tr',
      market: '.plot canvas',
      tape: 'tr[data-position]:nth-child(20)',
      streams: '.quotas',
    };

    test.each(views)(
      '%s has no serious fault of accessibility, in light and dark',
      async (view) => {
        for (const colorScheme of schemes) {
          const { page, close } = await at(await pathOf(view), { colorScheme });
          await page.locator(ready[view]).first().waitFor();
          await screenshot(page, `${view}-${colorScheme}`);
          expect(await faults(page), colorScheme).toEqual([]);
          await close();
        }
      },
    );

    test.each(views)('%s fits a phone', async (view) => {
      const { page } = await at(await pathOf(view), PHONE);
      await page.locator(ready[view]).first().waitFor({ state: 'attached' });
      await screenshot(page, `${view}-phone`);
      const width = await page.evaluate('document.documentElement.scrollWidth');
      expect(width).toBeLessThanOrEqual(PHONE.viewport.width);
      expect(await faults(page)).toEqual([]);
    });
  });

  /** Address of the first trader of the longest time frame. */
  async function leader(): Promise<string> {
    const { traders } = await service.get<Board>('/v1/analytics/leaderboard?limit=1');
    return traders[0]?.profile.address ?? '';
  }
});

/** What of a table's row these tests read; the types of the browser are not those of Node. */
type TableRow = {
  readonly cells: Iterable<{ readonly innerText: string }>;
  readonly dataset: { readonly position?: string };
};

/** Texts of the cells of each row. */
async function texts(rows: Locator): Promise<string[][]> {
  return await rows.evaluateAll((all) =>
    (all as unknown as TableRow[]).map((row) =>
      [...row.cells].map((cell) => cell.innerText.trim()),
    ),
  );
}

async function scrollTo(page: Page, top: number): Promise<void> {
  await page.locator('.tape-scroll').evaluate((element, to) => {
    (element as unknown as { scrollTop: number }).scrollTop = to;
  }, top);
}

/** Holds as soon as what is shown and what was answered last are of the same moment. */
async function agree(check: () => Promise<void>): Promise<void> {
  let last: unknown;
  const deadline = Date.now() + 30_000;
  await until(async () => {
    try {
      await check();
      return true;
    } catch (error) {
      last = error;
      if (Date.now() > deadline) throw last;
      return undefined;
    }
  });
}

async function expectText(locator: Locator, text: string): Promise<void> {
  await expect
    .poll(async () => (await locator.allInnerTexts()).join(' '), { timeout: 30_000 })
    .toContain(text);
}

function short(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`;
}

async function rowCount(page: Page): Promise<number> {
  const text = await page.locator('[data-stream]').innerText();
  return Number(/([\d,]+) rows/.exec(text)?.[1]?.replaceAll(',', '') ?? 0);
}

async function positions(page: Page): Promise<string[]> {
  return await page
    .locator('tr[data-position]')
    .evaluateAll((all) => (all as unknown as TableRow[]).map((row) => row.dataset.position ?? ''));
}

/** State of the oldest row of the tape. */
async function oldestState(page: Page): Promise<string> {
  await scrollTo(page, 1e9);
  return (await texts(page.locator('tr[data-position]'))).at(-1)?.[1] ?? '';
}

type Shown = {
  readonly position: string;
  readonly state: string;
  readonly price: string;
  readonly usdc: string;
  readonly struck: boolean;
};

/** Every row of a paused tape, newest first, by scrolling through it. */
async function allRows(page: Page): Promise<Shown[]> {
  const found = new Map<string, Shown>();
  const rows = page.locator('tr[data-position]');
  const height = await page
    .locator('.tape-scroll')
    .evaluate((element) => (element as unknown as { scrollHeight: number }).scrollHeight);
  for (let top = 0; top <= height; top += 300) {
    await scrollTo(page, top);
    await page.evaluate(
      'new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))',
    );
    const [at, cells] = [await positions(page), await texts(rows)];
    const struck = await rows.locator('.c-market').evaluateAll((all) => {
      const { getComputedStyle } = globalThis as unknown as {
        getComputedStyle: (one: unknown) => { textDecorationLine: string };
      };
      return all.map((one) => getComputedStyle(one).textDecorationLine === 'line-through');
    });
    for (const [index, position] of at.entries()) {
      const [, state = '', , price = '', usdc = ''] = cells[index] ?? [];
      found.set(position, { position, state, price, usdc, struck: struck[index] ?? false });
    }
  }
  return [...found.values()].sort((a, b) => Number(BigInt(b.position) - BigInt(a.position)));
}

function freePort(): Promise<number> {
  const server = createServer();
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}
