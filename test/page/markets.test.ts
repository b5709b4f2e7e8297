/** Home, the list of markets, a market, and the palette: every figure comes from the API. */
import type { Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import type {
  BiggestTrades,
  Leaderboard,
  Market,
  MarketCandles,
  MarketHolders,
  Markets,
  MarketTrades,
  TraderMarkets,
} from '../../apps/client/index.ts';
import { faults, screenshot, type Watched } from './browser.ts';
import { cents, change, count, isShare, money, percent, price } from './figures.ts';
import { agree, asOnRealChain, expectRows, expectText, texts } from './seen.ts';
import { useStage } from './stage.ts';

type Entry = Markets['markets'][number];

const stage = useStage();

const odds = ({ market, mark }: Entry) => `${market.outcome_1} ${price(mark.price_1)}`.trim();

const busiest = () => firstBy('sort_by=volume_24h');
/** With many candles. */
const oldest = () => firstBy('sort_by=newest&order=asc');

async function firstBy(settings: string): Promise<Entry> {
  const { markets } = await stage.get<Markets>(`/v2/markets?limit=1&${settings}`);
  const [first] = markets;
  if (first === undefined) throw new Error('no market is open');
  return first;
}

test('home: trending, rising, falling and closing markets, top traders and biggest trades are those of the API', async () => {
  const watched = await stage.at('/');
  const { page } = watched;
  const parts = {
    trending: 'sort_by=volume_24h',
    rising: 'sort_by=change_24h',
    falling: 'sort_by=change_24h&order=asc',
    closing: 'sort_by=closing',
  };
  for (const [part, settings] of Object.entries(parts)) {
    const columns = part === 'closing' ? [0, 1] : [0, 1, 2];
    const path = `/v2/markets?limit=10&${settings}`;
    const cells = (entry: Entry) =>
      [entry.market.question, odds(entry), change(entry.change_24h)].slice(0, columns.length);
    const { markets } = await expectRows(watched, path, `.${part}`, columns, (answer: Markets) =>
      answer.markets.map(cells),
    );
    expect(markets.length).toBeGreaterThan(0);
  }
  const board = '/v2/analytics/leaderboard';
  await expectRows(watched, board, '.leaders', [0, 2, 3], ({ traders }: Leaderboard) =>
    traders.map(({ rank, total_pnl, roi }) => [
      String(rank),
      money(total_pnl, 0, 'always'),
      percent(roi, 'always'),
    ]),
  );
  const columns = [2, 3, 4, 6];
  const { trades } = await expectRows(
    watched,
    '/v2/biggest_trades',
    '.biggest',
    columns,
    (answer: BiggestTrades) =>
      answer.trades.map(({ side, outcome, market, usdc }) => [
        market.question,
        side,
        outcome,
        money(usdc, 0, 'negative'),
      ]),
  );
  expect(trades).toHaveLength(10);
  const sizes = trades.map(({ usdc }) => usdc);
  expect(sizes).toEqual(sizes.toSorted((a, b) => b - a));
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

test('markets: Previous shows the previous page, also after going back in the browser', async () => {
  const { page } = await stage.at('/leaderboard');
  // However many markets there are, each page has a next one.
  await page.route('**/v2/markets?*', async (route) => {
    const url = new URL(route.request().url());
    const cursor = url.searchParams.get('cursor') ?? '';
    url.searchParams.delete('cursor');
    const response = await route.fetch({ url: url.href });
    const list = (await response.json()) as Markets;
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

test('markets: a rejected filter shows the error, greys out the old rows, and can be retried', async () => {
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
  await expectText(page.getByRole('alert'), 'No response');
  await Promise.all([
    page.waitForRequest('**/v2/markets?*'),
    page.getByRole('button', { name: 'Retry' }).click(),
  ]);
  await page.unroute('**/v2/markets?*');
  await page.locator('.stale').waitFor({ state: 'detached' });
  await page.getByRole('alert').waitFor({ state: 'detached' });
});

function expectMarkets(watched: Watched, query: string): Promise<Markets> {
  const path = `/v2/markets?limit=50&${query}`;
  const columns = [0, 1, 2, 3, 4, 5, 6];
  return expectRows(watched, path, '.market-table', columns, ({ markets }: Markets) =>
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
}

async function expectOutcomes(watched: Watched, id: number): Promise<Market> {
  const { page } = watched;
  const path = `/v2/markets/${id}`;
  await agree(async () => {
    const detail = watched.answer<Market>(path);
    const { market, mark } = detail;
    expect(await page.locator('h1').innerText()).toBe(market.question);
    expect(await page.locator('.price-now').allInnerTexts()).toEqual([
      price(mark.price_1),
      price(mark.price_1 === null ? null : 1_000_000 - Math.round(mark.price_1 / 1_000) * 1_000),
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
  });
  const earners = 'section[aria-labelledby=earners-title]';
  return await expectRows(watched, path, earners, [1, 2, 3], ({ top_earners }: Market) =>
    top_earners.map(({ pnl, roi, volume }) => [
      money(pnl, 2, 'always'),
      percent(roi, 'always'),
      money(volume, 2, 'negative'),
    ]),
  );
}

test('a market that is open: odds, change, matches, holders, losers and siblings are those of the API', async () => {
  const { market } = await busiest();
  const watched = await stage.at(`/market/${market.id}`);
  const { page } = watched;
  await page.locator('.plot canvas').waitFor();
  await expectOutcomes(watched, market.id);
  const base = `/v2/markets/${market.condition_id}`;
  await agree(async () => {
    const { candles } = watched.answer<MarketCandles>(`${base}/candles`);
    const moved = (candles.at(-1)?.close ?? 0) - (candles[0]?.open ?? 0);
    expect(await page.locator('.moved').allInnerTexts()).toEqual([
      `${change(moved)} since open`,
      `${change(-moved)} since open`,
    ]);
    // From the first match to now, by default.
    const detail = watched.answer<Market>(`/v2/markets/${market.id}`);
    const [first, last] = [candles[0], candles.at(-1)].map((one) => Date.parse(one?.time ?? ''));
    const width = Date.parse(candles[1]?.time ?? '') - (first ?? 0);
    const opened = Date.parse(detail.first_match_at);
    expect(await page.getByRole('radio', { name: 'All' }).isChecked()).toBe(true);
    expect(first).toBe(opened - (opened % width));
    expect(last).toBeGreaterThan(Date.now() - 2 * width - 60_000);
  });
  for (const outcome of [0, 1]) {
    const path = `${base}/holders?outcome=${outcome}&limit=10`;
    const table = `section[aria-labelledby=holders-${outcome}]`;
    await expectRows(watched, path, table, [1, 2, 3, 4, 5], ({ holders }: MarketHolders) =>
      holders
        .filter(isShare)
        .map((holder) => [
          count(Math.round(holder.shares / 1e6)),
          percent(holder.outcome_share, 'negative'),
          price(holder.average_price),
          money(holder.value, 2, 'negative'),
          money(holder.unrealised_pnl, 2, 'always'),
        ]),
    );
  }
  const [board, losers] = ['/v2/analytics/leaderboard', 'section[aria-labelledby=losers-title]'];
  await expectRows(watched, board, losers, [1], ({ traders }: Leaderboard) =>
    traders
      .filter(({ total_pnl }) => total_pnl < 0)
      .map(({ total_pnl }) => [money(total_pnl, 2, 'always')]),
  );
  await expectText(page.locator('[data-stream]'), 'Live');
  await expectMatches(watched, `${base}/trades`);
  // Other sites do not know simulated markets and transactions.
  const links = page.locator('a[href^="https:"]');
  expect(await links.count()).toBe(0);
  await asOnRealChain(page);
  await page.reload();
  await page.locator('.outside a').first().waitFor();
  const outside = await page
    .locator('.outside a')
    .evaluateAll((all) => all.map((link) => (link as unknown as { href: string }).href));
  expect(outside[0]).toContain(`polymarket.com/event/${market.event_slug}/${market.slug}`);
  expect(outside[1]).toMatch(/^https:\/\/polygonscan\.com\/nft\/0x/);
  await expect
    .poll(() => page.locator('a[href^="https://polygonscan.com/tx/0x"]').count())
    .toBeGreaterThan(0);
});

test('a market: ranges, kinds of chart, pointer and zoom, by mouse and keyboard', async () => {
  const { market } = await oldest();
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
  const { history } = await stage.get<TraderMarkets>(
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

/** The final matches of the tape are those of the API; above them may be newer ones. */
async function expectMatches(watched: Watched, path: string): Promise<void> {
  const rows = watched.page.locator('.matches tbody tr');
  await agree(async () => {
    const { trades } = watched.answer<MarketTrades>(path);
    const ids = (await rows.evaluateAll((all) =>
      (all as unknown as { dataset: { name: string } }[]).map((row) => row.dataset.name),
    )) as string[];
    const cells = await texts(rows);
    const shown = new Map(ids.map((id, index) => [id, cells[index]]));
    const both = trades.filter(({ match_id }) => shown.has(match_id));
    expect(both.length).toBeGreaterThan(0);
    for (const { match_id, side, usdc, shares } of both) {
      const row = shown.get(match_id);
      expect(row?.[1]).toContain(side);
      expect(row?.slice(3, 5)).toEqual([
        cents(String(usdc), String(shares)),
        money(usdc, 2, 'negative'),
      ]);
    }
  });
}

describe('the palette', () => {
  const field = (page: Page) => page.getByRole('combobox', { name: 'Market, trader' });

  test('finds a market by words, opens it, and lists it as recent', async () => {
    const { market } = await firstBy('sort_by=volume_24h&tag=politics');
    const { page } = await stage.at('/following');
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

    await page.goto(`${stage.url}/following`);
    await page.getByRole('button', { name: 'Find a market or trader' }).click();
    const recent = page.getByRole('group', { name: 'Recent' }).getByRole('option');
    await expectText(recent.first(), market.question);
    await recent.first().click();
    await expect.poll(() => page.url()).toBe(`${stage.url}/market/${market.id}`);
  });

  test('finds a trader by name and by the beginning of the address', async () => {
    const { traders } = await stage.get<Leaderboard>('/v2/analytics/leaderboard?limit=20');
    const known = traders.find(({ profile }) => profile.name !== '')?.profile;
    if (known === undefined) throw new Error('no trader of the leaderboard has a name');
    // The list of traders is up to a minute old.
    await expect
      .poll(
        async () => {
          const asked = `/v2/search?q=${encodeURIComponent(known.name)}`;
          const found = await stage.get<{ traders: unknown[] }>(asked);
          return found.traders.length;
        },
        { timeout: 90_000 },
      )
      .toBeGreaterThan(0);
    const { page } = await stage.at('/following');
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

  test('Enter before the response opens the first result; Escape closes; an empty result is reported', async () => {
    const { market } = await busiest();
    const { page } = await stage.at('/following');
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
    // The next key arrives before the browser's event that the palette is closed.
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

  test('opens pasted text: an address, a condition id, a link', async () => {
    const { market } = await busiest();
    const address = await stage.leader();
    const permissions = ['clipboard-read', 'clipboard-write'];
    const { page } = await stage.at('/following', { permissions });
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
    const { market } = await busiest();
    const { page } = await stage.at('/following');
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
      expect(page.url()).toBe(`${stage.url}/following`);
    }
  });
});
