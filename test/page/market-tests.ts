/** Home, the list of markets, a market, and the palette that finds them: every figure is the API's. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { faults, screenshot, type Watched } from './browser.ts';
import { cents, change, count, money, percent, price } from './figures.ts';
import { agree, expectText, texts } from './seen.ts';
import type { Stage } from './stage.ts';

type Market = {
  id: number;
  condition_id: string;
  question: string;
  event_slug: string;
  slug: string;
  outcome_1: string;
  outcome_2: string;
  winning_outcome: string;
  resolved_at: string;
  result: number;
};
type Mark = { price_1: number | null; price_2: number | null };
type Entry = {
  market: Market;
  status: string;
  mark: Mark;
  change_24h: number;
  volume_24h: number;
  volume: number;
  traders: number;
  open_interest: number;
};
type List = { markets: Entry[]; next_cursor: string };
type Trader = {
  profile: { address: string; name: string };
  rank: number;
  total_pnl: number;
  roi: number;
  total_volume: number;
};
type Board = { traders: Trader[] };
type Detail = {
  market: Market;
  mark: Mark;
  vwap_5m: number | null;
  volume: number;
  matches: number;
  open_interest: number;
  total_pnl_distributed: number;
  total_traders: number;
  total_winners: number;
  top_earners: { pnl: number; roi: number; volume: number }[];
};
type Candles = { candles: { open: number; close: number }[] };
type Trades = { trades: { match_id: string; usdc: number; shares: number; side: string }[] };
type Holders = {
  holders: {
    shares: number;
    outcome_share: number;
    average_price: number;
    value: number;
    unrealised_pnl: number;
  }[];
};

const odds = ({ market, mark }: Entry) => `${market.outcome_1} ${price(mark.price_1)}`.trim();
const words = (cell: string | undefined) => cell?.replace(/\s+/g, ' ');

const busiest = (stage: Stage) => firstBy(stage, 'sort_by=volume_24h');
/** With many candles. */
const oldest = (stage: Stage) => firstBy(stage, 'sort_by=newest&order=asc');

async function firstBy(stage: Stage, settings: string): Promise<Entry> {
  const { markets } = await stage.service.get<List>(`/v2/markets?limit=1&${settings}`);
  const [first] = markets;
  if (first === undefined) throw new Error('no market is open');
  return first;
}

type Biggest = {
  trades: { side: string; outcome: string; market: { question: string }; usdc: number }[];
};

export function homeTests(stage: Stage): void {
  test('home: what trends, rises, falls and closes, who leads, and the biggest trades are those of the API', async () => {
    const watched = await stage.at('/');
    const { page } = watched;
    const parts = {
      trending: 'sort_by=volume_24h',
      rising: 'sort_by=change_24h',
      falling: 'sort_by=change_24h&order=asc',
      closing: 'sort_by=closing',
    };
    for (const [part, settings] of Object.entries(parts)) {
      await agree(async () => {
        const { markets } = watched.answer<List>(`/v2/markets?limit=10&${settings}`);
        expect(markets.length).toBeGreaterThan(0);
        const rows = await texts(page.locator(`.${part} tbody tr`));
        expect(rows.map((cells) => [cells[0], words(cells[1])])).toEqual(
          markets.map((entry) => [entry.market.question, odds(entry)]),
        );
        if (part === 'closing') return;
        expect(rows.map((cells) => cells[2])).toEqual(
          markets.map(({ change_24h }) => change(change_24h)),
        );
      });
    }
    await agree(async () => {
      const { traders } = watched.answer<Board>('/v2/analytics/leaderboard');
      expect(
        (await texts(page.locator('.leaders tbody tr'))).map((cells) => [
          cells[0],
          ...cells.slice(2),
        ]),
      ).toEqual(
        traders.map(({ rank, total_pnl, roi }) => [
          String(rank),
          money(total_pnl, 0, 'always'),
          percent(roi, 'always'),
        ]),
      );
    });
    await agree(async () => {
      const { trades } = watched.answer<Biggest>('/v2/biggest_trades');
      expect(trades).toHaveLength(10);
      expect(trades.map(({ usdc }) => usdc)).toEqual(
        trades.map(({ usdc }) => usdc).toSorted((a, b) => b - a),
      );
      const rows = await texts(page.locator('.biggest tbody tr'));
      expect(rows.map((cells) => [cells[2], cells[3], cells[4], cells[6]])).toEqual(
        trades.map((trade) => [
          ...[trade.side, trade.outcome, trade.market.question, money(trade.usdc, 0, 'negative')],
        ]),
      );
    });
    await page.getByRole('link', { name: 'All: Closing soon' }).click();
    await expect.poll(() => page.url()).toBe(`${stage.url}/markets?sort_by=closing`);
  });

  test('markets: filters, sorts and pages are those of the API, by mouse and keyboard', async () => {
    const watched = await stage.at('/markets');
    const { page } = watched;
    await expectMarkets(watched, 'status=open&tag=all&sort_by=volume_24h&order=desc');
    await page.getByRole('radio', { name: 'All' }).check();
    await page.getByRole('button', { name: 'Traders' }).click();
    const asked = 'sort_by=traders&order=desc';
    const all = await expectMarkets(watched, `status=all&tag=all&${asked}`);
    expect(new URL(page.url()).search).toBe('?status=all&sort_by=traders&order=desc');

    const [word = ''] = all.markets[0]?.market.question.toLowerCase().match(/[a-z]{4,}/) ?? [];
    // The space before the next word stays in the field.
    await page.getByLabel('Words').fill(`${word} `);
    await expectMarkets(watched, `q=${word}&status=all&tag=all&${asked}`);
    expect(await page.getByLabel('Words').inputValue()).toBe(`${word} `);
    await page.getByLabel('Words').fill('');
    await page.getByRole('button', { name: /^Filters/ }).click();
    const event = all.markets[0]?.market.event_slug ?? '';
    await page.getByLabel('Event (slug)').fill(event);
    const { markets } = await expectMarkets(watched, `status=all&tag=all&event=${event}&${asked}`);
    expect(markets.every(({ market }) => market.event_slug === event)).toBe(true);
    await page.getByRole('button', { name: /^event .*remove/ }).click();

    if (all.next_cursor !== '') {
      await page.getByRole('button', { name: 'Next' }).click();
      await expect.poll(() => page.url()).toContain('cursor=');
      await page.getByRole('button', { name: 'Previous' }).click();
    }
    await expectMarkets(watched, `status=all&tag=all&${asked}`);
    await page.keyboard.press('j');
    await page.keyboard.press('Enter');
    await page.locator('.price-now').first().waitFor();
    expect(page.url()).toContain('/market/');
  });

  test('markets: Previous shows the page before, also after going back in the browser', async () => {
    const { page } = await stage.at('/leaderboard');
    // However many markets there are, each page has a next one.
    await page.route('**/v2/markets?*', async (route) => {
      const url = new URL(route.request().url());
      const cursor = url.searchParams.get('cursor') ?? '';
      url.searchParams.delete('cursor');
      const response = await route.fetch({ url: url.href });
      const list = (await response.json()) as List;
      await route.fulfill({ response, json: { ...list, next_cursor: `${cursor}1` } });
    });
    await page.goto(`${stage.url}/markets`);
    const turn = async (name: string, cursor: string) => {
      await page.locator('section[aria-busy=false]').waitFor();
      await page.getByRole('button', { name }).click();
      await expect.poll(() => new URL(page.url()).searchParams.get('cursor') ?? '').toBe(cursor);
    };
    await turn('Next', '1');
    await turn('Next', '11');
    await page.goBack();
    await turn('Previous', '');
  });

  test('markets: what a filter is refused for is said, what is shown then is grey, and can be tried again', async () => {
    const { page } = await stage.at('/markets?status=all');
    await page.locator('.market-table tbody tr').first().waitFor();
    await page.getByLabel('Words').fill(Array.from({ length: 33 }, (_, i) => `word${i}`).join(' '));
    await expectText(page.getByRole('alert'), 'q: ');
    await expectText(page.getByRole('alert'), 'The data below was loaded at');
    expect(await page.locator('.stale tbody tr').count()).toBeGreaterThan(0);
    await page.getByLabel('Words').fill('');
    await page.locator('.stale').waitFor({ state: 'detached' });
    await page.getByRole('alert').waitFor({ state: 'detached' });

    await page.route('**/v2/markets?*', (route) => route.abort());
    await page.getByRole('radio', { name: 'Resolved' }).check();
    await expectText(page.getByRole('alert'), 'no response');
    await Promise.all([
      page.waitForRequest('**/v2/markets?*'),
      page.getByRole('button', { name: 'Retry' }).click(),
    ]);
    await page.unroute('**/v2/markets?*');
    await page.locator('.stale').waitFor({ state: 'detached' });
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });
}

async function expectMarkets(watched: Watched, query: string): Promise<List> {
  const path = `/v2/markets?limit=50&${query}`;
  await agree(async () => {
    const { markets } = watched.answer<List>(path);
    const shown = await texts(watched.page.locator('.market-table tbody tr'));
    expect(shown.map((cells) => [cells[0], words(cells[1]), ...cells.slice(2, 7)])).toEqual(
      markets.map((entry) => [
        entry.market.question,
        odds(entry),
        change(entry.change_24h),
        money(entry.volume_24h, 0, 'negative'),
        money(entry.volume, 0, 'negative'),
        count(entry.traders),
        count(Math.round(entry.open_interest / 1e6)),
      ]),
    );
  });
  return watched.answer<List>(path);
}

async function expectOutcomes(watched: Watched, id: number): Promise<Detail> {
  const { page } = watched;
  await agree(async () => {
    const detail = watched.answer<Detail>(`/v2/markets/${id}`);
    const { market, mark } = detail;
    expect(await page.locator('h1').innerText()).toBe(market.question);
    expect(await page.locator('.price-now').allInnerTexts()).toEqual([
      price(mark.price_1),
      price(mark.price_2),
    ]);
    expect(await page.locator('.tiles dd').allInnerTexts()).toEqual([
      money(detail.volume, 0, 'negative'),
      count(detail.matches),
      count(Math.round(detail.open_interest / 1e6)),
      price(detail.vwap_5m),
      count(detail.total_traders),
      count(detail.total_winners),
      money(detail.total_pnl_distributed, 0, 'negative'),
    ]);
    const earners = await texts(page.locator('section[aria-labelledby=earners-title] tbody tr'));
    expect(earners.map((cells) => cells.slice(1))).toEqual(
      detail.top_earners.map(({ pnl, roi, volume }) => [
        money(pnl, 2, 'always'),
        percent(roi, 'always'),
        money(volume, 2, 'negative'),
      ]),
    );
  });
  return watched.answer<Detail>(`/v2/markets/${id}`);
}

export function marketTests(stage: Stage): void {
  test('a market that is open: odds, change, matches, holders, losers and siblings are those of the API', async () => {
    const { market } = await busiest(stage);
    const watched = await stage.at(`/market/${market.id}`);
    const { page } = watched;
    await page.locator('.plot canvas').waitFor();
    await expectOutcomes(watched, market.id);
    const base = `/v2/markets/${market.condition_id}`;
    await agree(async () => {
      const { candles } = watched.answer<Candles>(`${base}/candles`);
      const moved = (candles.at(-1)?.close ?? 0) - (candles[0]?.open ?? 0);
      expect(await page.locator('.moved').allInnerTexts()).toEqual([
        `${change(moved)} in 1D`,
        `${change(-moved)} in 1D`,
      ]);
    });
    for (const outcome of [0, 1]) {
      await agree(async () => {
        const { holders } = watched.answer<Holders>(`${base}/holders?outcome=${outcome}&limit=10`);
        const rows = await texts(
          page.locator(`section[aria-labelledby=holders-${outcome}] tbody tr`),
        );
        expect(rows.map((cells) => cells.slice(1))).toEqual(
          holders.map((holder) => [
            count(Math.round(holder.shares / 1e6)),
            percent(holder.outcome_share, 'negative'),
            price(holder.average_price),
            money(holder.value, 2, 'negative'),
            money(holder.unrealised_pnl, 2, 'always'),
          ]),
        );
      });
    }
    await agree(async () => {
      const { traders } = watched.answer<Board>('/v2/analytics/leaderboard');
      const rows = await texts(page.locator('section[aria-labelledby=losers-title] tbody tr'));
      expect(rows.map((cells) => cells[1])).toEqual(
        traders
          .filter(({ total_pnl }) => total_pnl < 0)
          .map(({ total_pnl }) => money(total_pnl, 2, 'always')),
      );
    });
    await expectText(page.locator('[data-stream]'), 'live');
    await expectMatches(watched, `${base}/trades`);
    const links = page.locator('.outside a');
    expect(await links.first().getAttribute('href')).toContain(
      `polymarket.com/event/${market.event_slug}/${market.slug}`,
    );
    expect(await links.last().getAttribute('href')).toMatch(/^https:\/\/polygonscan\.com\/nft\/0x/);
  });

  test('a market: ranges, kinds of chart, pointer and zoom, by mouse and keyboard', async () => {
    const { market } = await oldest(stage);
    const watched = await stage.at(`/market/${market.id}`);
    const { page } = watched;
    const slider = page.getByRole('slider', { name: /^Price of/ });
    await slider.waitFor();
    await page.keyboard.press('4');
    await expect.poll(() => page.url()).toContain('range=1W');
    expect(await page.getByRole('radio', { name: '1W' }).isChecked()).toBe(true);
    await page.getByRole('radio', { name: 'Line' }).check();
    await expect.poll(() => page.url()).toContain('chart=line');
    await page.locator('.plot canvas').waitFor();

    const newest = (await slider.getAttribute('aria-valuetext')) ?? '';
    await slider.focus();
    await page.keyboard.press('ArrowLeft');
    await expect.poll(() => slider.getAttribute('aria-valuetext')).not.toBe(newest);
    await expectText(page.locator('.tip'), 'Volume');
    await page.keyboard.press('+');
    const unzoomed = page.getByRole('button', { name: 'Reset zoom' });
    await unzoomed.click();
    await unzoomed.waitFor({ state: 'detached' });

    const over = page.locator('.u-over');
    const box = await over.boundingBox();
    if (box === null) throw new Error('the chart is not shown');
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.8, y, { steps: 4 });
    await page.mouse.up();
    await unzoomed.waitFor();
  });

  test('a market that is resolved: what its outcomes pay, and all of its time', async () => {
    const address = await stage.leader();
    type History = { history: { market: { id: number } }[] };
    const { history } = await stage.service.get<History>(
      `/v2/traders/${address}/markets?is_active=false&limit=1`,
    );
    const id = history[0]?.market.id ?? 0;
    const watched = await stage.at(`/market/${id}`);
    const { page } = watched;
    await page.locator('.plot canvas').waitFor();
    const { market } = await expectOutcomes(watched, id);
    expect(market.result).toBeGreaterThanOrEqual(0);
    await expectText(page.locator('.outcomes .won').first(), market.winning_outcome);
    expect(await page.getByRole('radio', { name: 'All' }).isChecked()).toBe(true);
    expect(await page.locator('[data-stream]').count()).toBe(0);
    await screenshot(page, 'market-resolved');
  });

  test('following: a market that was resolved today has changed to what it pays', async () => {
    const { markets } = await stage.service.get<List>('/v2/markets?status=resolved&limit=100');
    let id = 0;
    for (const { market, mark } of markets) {
      if (Date.parse(market.resolved_at) < Date.now() - 43_200_000) continue;
      const { candles } = await stage.service.get<Candles>(`/v2/markets/${market.id}/candles`);
      if (candles.at(-1)?.close !== mark.price_1) id = market.id;
      if (id !== 0) break;
    }
    expect(id).toBeGreaterThan(0);
    const value = JSON.stringify([{ id: String(id), name: '' }]);
    const localStorage = [{ name: 'fillstream.followed.markets', value }];
    const storageState = { cookies: [], origins: [{ origin: stage.url, localStorage }] };
    const watched = await stage.at('/following', { storageState });
    await agree(async () => {
      const { mark } = watched.answer<Detail>(`/v2/markets/${id}`);
      const { candles } = watched.answer<Candles>(`/v2/markets/${id}/candles`);
      const [cells] = await texts(watched.page.locator('.market-table tbody tr'));
      expect(cells?.[2]).toBe(change((mark.price_1 ?? 0) - (candles[0]?.open ?? 0)));
    });
  });

  test('an unknown address is said in the frame of the page, and answered with 404', async () => {
    const { page } = await stage.at('/');
    const answer = await page.goto(`${stage.url}/no/such/view`);
    expect(answer?.status()).toBe(404);
    await expectText(page.locator('h1'), 'Page not found');
    await page.getByRole('link', { name: 'Markets', exact: true }).click();
    await page.locator('.market-table tbody tr').first().waitFor();
    const program = await fetch(`${stage.url}/no/such/view`);
    expect([program.status, program.headers.get('content-type')]).toEqual([
      404,
      'application/problem+json; charset=utf-8',
    ]);
  });

  test.each([
    { width: 1_440, height: 900 },
    { width: 390, height: 844 },
  ])('no view moves while it loads, $width pixels wide', async (viewport) => {
    const { market } = await busiest(stage);
    const trader = `/trader/${await stage.leader()}`;
    for (const path of ['/', '/markets', `/market/${market.id}`, trader]) {
      // A document of the same origin without a script.
      const { page, close } = await stage.at('/llms.txt', { key: '', viewport });
      await page.addInitScript(`
        window.shift = 0;
        window.moved = [];
        new PerformanceObserver((list) => {
          for (const one of list.getEntries().filter((one) => !one.hadRecentInput)) {
            window.shift += one.value;
            for (const { node, previousRect: from, currentRect: to } of one.sources)
              moved.push((node?.className ?? '?') + ' ' + from.y + ' to ' + to.y);
          }
        }).observe({ type: 'layout-shift', buffered: true });`);
      // Not answered again: a refresh may reorder the rows, which is not a fault of loading.
      const asked = new Set<string>();
      await page.route(/\/v\d\//, async (route) => {
        const url = route.request().url();
        if (asked.has(url)) return;
        asked.add(url);
        await route.continue();
      });
      // The last answer of a trader would move all that is below it.
      const isShown = Promise.withResolvers<void>();
      await page.route(/\/v2\/traders\/0x\w+$/, async (route) => {
        await isShown.promise;
        await route.continue();
      });
      await page.goto(`${stage.url}${path}#key=${stage.key}`);
      await page.locator('main tbody tr').nth(5).waitFor();
      await page.locator('.skeleton').first().waitFor({ state: 'detached' });
      isShown.resolve();
      if (path === trader)
        await page.locator('.tiles', { hasText: '–' }).waitFor({ state: 'detached' });
      const [shift, moved] = await page.evaluate<[number, string]>('[shift, moved.join()]');
      expect(shift, `${path}: ${moved}`).toBeLessThan(0.05);
      await close();
    }
  });
}

/** The final matches of the tape are those of the API; above them may be newer ones. */
async function expectMatches(watched: Watched, path: string): Promise<void> {
  const rows = watched.page.locator('.matches tbody tr');
  await agree(async () => {
    const { trades } = watched.answer<Trades>(path);
    const ids = (await rows.evaluateAll((all) =>
      (all as unknown as { dataset: { match: string } }[]).map((row) => row.dataset.match),
    )) as string[];
    const cells = await texts(rows);
    const shown = new Map(ids.map((id, index) => [id, cells[index]]));
    const both = trades.filter(({ match_id }) => shown.has(match_id));
    expect(both.length).toBeGreaterThan(0);
    for (const { match_id, side, usdc, shares } of both) {
      const row = shown.get(match_id);
      expect(row?.[1]).toContain(side);
      expect(row?.slice(2, 4)).toEqual([
        cents(String(usdc), String(shares)),
        money(usdc, 2, 'negative'),
      ]);
    }
  });
}

export function findTests(stage: Stage): void {
  describe('the palette', () => {
    const field = (page: Page) => page.getByRole('combobox', { name: 'Market, trader' });

    test('finds a market by words, opens it, and has it among the recent ones', async () => {
      const { market } = await firstBy(stage, 'sort_by=volume_24h&tag=politics');
      const { page } = await stage.at('/tape');
      await page.keyboard.press('Control+k');
      await field(page).waitFor();
      await page.keyboard.type(market.slug.replaceAll('-', ' '));
      await expectText(page.getByRole('option').first(), market.question);
      expect(await faults(page)).toEqual([]);
      await screenshot(page, 'palette');
      // Enter that ends the input of, say, a Chinese word is not meant for the palette.
      const composed =
        "new KeyboardEvent('keydown', { key: 'Enter', isComposing: true, bubbles: true, cancelable: true })";
      expect(await page.evaluate(`document.activeElement.dispatchEvent(${composed})`)).toBe(true);
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('Enter');
      await expect.poll(() => page.url()).toBe(`${stage.url}/market/${market.id}`);
      await expectText(page.locator('h1'), market.question);
      expect(await field(page).count()).toBe(0);

      await page.goto(`${stage.url}/tape`);
      await page.getByRole('button', { name: 'Find a market or trader' }).click();
      const recent = page.getByRole('group', { name: 'Recent' }).getByRole('option');
      await expectText(recent.first(), market.question);
      await recent.first().click();
      await expect.poll(() => page.url()).toBe(`${stage.url}/market/${market.id}`);
    });

    test('finds a trader by name and by the beginning of the address', async () => {
      const { traders } = await stage.service.get<Board>('/v2/analytics/leaderboard?limit=20');
      const known = traders.find(({ profile }) => profile.name !== '')?.profile;
      if (known === undefined) throw new Error('no trader of the leaderboard has a name');
      // Which traders there are is up to a minute old.
      await expect
        .poll(
          async () => {
            const asked = `/v2/search?q=${encodeURIComponent(known.name)}`;
            const found = await stage.service.get<{ traders: unknown[] }>(asked);
            return found.traders.length;
          },
          { timeout: 90_000 },
        )
        .toBeGreaterThan(0);
      const { page } = await stage.at('/tape');
      for (const text of [known.name, known.address.slice(0, 12)]) {
        await page.keyboard.press('Control+k');
        await field(page).fill(text);
        const found = page.getByRole('group', { name: 'Traders' }).getByRole('option');
        await found.filter({ hasText: known.name }).first().click();
        await expect
          .poll(() => page.url())
          .toBe(`${stage.url}/trader/${known.address.toLowerCase()}`);
      }
      await page.keyboard.press('Control+k');
      const recent = page.getByRole('group', { name: 'Recent' }).getByRole('option');
      await expectText(recent.first(), known.name);
    });

    test('Enter before the answer opens the first that is found; Escape closes; nothing found is said', async () => {
      const { market } = await busiest(stage);
      const { page } = await stage.at('/tape');
      await page.keyboard.press('/');
      await field(page).fill('no such thing anywhere');
      await expectText(page.getByRole('status'), 'Nothing found for “no such thing anywhere”.');
      // After a search that failed, Enter searches again.
      const failing = '**/v2/search?*';
      await page.route(failing, (route) =>
        route.fulfill({ status: 400, json: { detail: 'this search fails' } }),
      );
      await field(page).fill(market.slug);
      await expectText(page.getByRole('alert'), 'this search fails');
      await page.unroute(failing);
      await page.keyboard.press('Enter');
      await expect.poll(() => page.url()).toBe(`${stage.url}/market/${market.id}`);
      await page.keyboard.press('Control+k');
      // The market, among the recent ones.
      await page.getByRole('option').first().waitFor();
      // The next key comes before the browser tells that the palette is closed.
      await page.evaluate(`(async () => {
        document.querySelector('#found [role=option]').click();
        for (let n = 0; n < 9; n += 1) await null;
        const key = { key: 'k', ctrlKey: true, bubbles: true };
        document.body.dispatchEvent(new KeyboardEvent('keydown', key));
      })()`);
      await expect.poll(() => page.locator('dialog.palette').getAttribute('open')).toBe('');
      await page.keyboard.press('Escape');
      await field(page).waitFor({ state: 'detached' });
    });

    test('opens what is pasted: an address, a condition id, a link', async () => {
      const { market } = await busiest(stage);
      const address = await stage.leader();
      const permissions = ['clipboard-read', 'clipboard-write'];
      const { page } = await stage.at('/tape', { permissions });
      const pasted = {
        [address]: `/trader/${address}`,
        [market.condition_id]: `/market/${market.condition_id}`,
        [`https://polymarket.com/event/${market.event_slug}/${market.slug}?tid=1`]: `/market/${market.id}`,
        [`${stage.url}/markets?sort_by=closing`]: '/markets?sort_by=closing',
      };
      for (const [text, path] of Object.entries(pasted)) {
        await page.evaluate(`navigator.clipboard.writeText(${JSON.stringify(text)})`);
        await page.keyboard.press('Control+k');
        await field(page).waitFor();
        await page.keyboard.press('Control+v');
        await expect.poll(() => page.url()).toBe(stage.url + path);
        await field(page).waitFor({ state: 'detached' });
      }
    });

    test('a click with Ctrl, and Enter with Ctrl, open a new tab', async () => {
      const { market } = await busiest(stage);
      const { page } = await stage.at('/tape');
      await page.keyboard.press('Control+k');
      await field(page).fill(market.slug);
      const first = page.getByRole('option').first();
      await expect.poll(() => first.getAttribute('href')).toBe(`/market/${market.id}`);
      const opens = [
        () => first.click({ modifiers: ['ControlOrMeta'] }),
        () => field(page).press('Control+Enter'),
      ];
      for (const open of opens) {
        const [tab] = await Promise.all([page.context().waitForEvent('page'), open()]);
        await expect.poll(() => tab.url()).toBe(`${stage.url}/market/${market.id}`);
        await tab.close();
        expect(page.url()).toBe(`${stage.url}/tape`);
      }
    });
  });
}
