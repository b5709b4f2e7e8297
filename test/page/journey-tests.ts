/** What a trader does here, from one end to the other: with a mouse, with the keyboard alone, and on a phone. */
import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import { until } from '../support/service.ts';
import { faults, screenshot } from './browser.ts';
import { agree, expectText } from './seen.ts';
import type { Stage } from './stage.ts';

export const PHONE = {
  viewport: { width: 390, height: 844 },
  deviceScaleFactor: 2,
  isMobile: true,
};

type Way = {
  readonly context: Parameters<Stage['at']>[1];
  /** Opens the palette. */
  find(page: Page): Promise<void>;
  /** Activates a link or a button. */
  use(page: Page, control: Locator): Promise<void>;
  /** Goes to a view of the top bar. */
  go(page: Page, title: keyof typeof KEYS): Promise<void>;
};

/** Of the views, as `?` lists them. */
const KEYS = { Following: 'f', Markets: 'o' } as const;

const find = (page: Page) => page.getByRole('button', { name: 'Find a market or trader' });
const view = (page: Page, title: string) => page.getByRole('link', { name: title, exact: true });

const WAYS: Readonly<Record<string, Way>> = {
  'with a mouse': {
    context: {},
    find: (page) => find(page).click(),
    use: (_page, control) => control.click(),
    go: (page, title) => view(page, title).click(),
  },
  'with the keyboard alone': {
    context: {},
    find: (page) => page.keyboard.press('Control+k'),
    async use(page, control) {
      await tabTo(page, control);
      await page.keyboard.press('Enter');
    },
    go: (page, title) => page.keyboard.press(KEYS[title]),
  },
  'on a phone': {
    context: { ...PHONE, hasTouch: true },
    find: (page) => find(page).tap(),
    use: (_page, control) => control.tap(),
    go: (page, title) => view(page, title).tap(),
  },
};

const TABS_MAX = 150;
/** The page shows twice as many positions: these stay in view while marks move. */
const LARGEST = 4;
/** Longer than a journey: the stream of a market ends when it is resolved. */
const LEFT_MS_MIN = 3_600_000;

/** Presses Tab until the control has the focus. */
async function tabTo(page: Page, control: Locator): Promise<void> {
  await control.waitFor();
  for (let n = 0; n < TABS_MAX; n += 1) {
    if ((await control.and(page.locator(':focus')).count()) > 0) return;
    await page.keyboard.press('Tab');
  }
  throw new Error(`${TABS_MAX} tabs do not reach ${control}`);
}

type Board = { traders: { profile: { address: string; name: string } }[] };
type Held = { positions: { market: { question: string; end_date: string } }[] };

export function journeyTests(stage: Stage): void {
  describe('finds a whale by name, sees what they hold, opens a market, watches its tape, follows, is alerted', () => {
    test.each(Object.keys(WAYS))('%s', async (name) => {
      const way = WAYS[name] as Way;
      const { address, whale, question } = await findWhale();
      const watched = await stage.at('/', way.context);
      const { page } = watched;
      await way.find(page);
      await page.getByRole('combobox').fill(whale);
      const found = page.getByRole('group', { name: 'Traders' }).getByRole('option');
      if (name === 'with the keyboard alone') {
        await found.filter({ hasText: whale }).first().waitFor();
        const chosen = page.locator('[role=option][aria-selected=true]');
        while (!(await chosen.innerText()).includes(whale)) await page.keyboard.press('ArrowDown');
        await page.keyboard.press('Enter');
      } else {
        await way.use(page, found.filter({ hasText: whale }).first());
      }
      await expect.poll(() => page.url()).toBe(`${stage.url}/trader/${address}`);

      const position = page
        .locator('.positions tbody tr')
        .getByRole('link', { name: question, exact: true });
      await agree(async () => {
        const { positions } = watched.answer<Held>(`/v2/traders/${address}/positions`);
        const held = positions.map(({ market }) => market.question);
        expect(held).toContain((await position.innerText()).trim());
      });
      await way.use(page, page.getByRole('button', { name: 'Follow', exact: true }).first());
      await way.use(page, position);
      await expect.poll(() => page.url()).toContain('/market/');

      // Its tape, and in the chart what the whale traded.
      await page.locator('.market-tape [data-stream=live]').waitFor();
      await page.locator('[data-match]').first().waitFor();
      if (name === 'with the keyboard alone') await page.keyboard.press('6');
      else await way.use(page, page.locator('.segments label').filter({ hasText: 'All' }));
      await expectText(page.locator('.chart-marks'), whale);

      await way.go(page, 'Following');
      await way.use(page, page.getByRole('button', { name: 'Alert me' }));
      await way.go(page, 'Markets');
      const alert = page.locator('.alert');
      await alert.waitFor({ timeout: 240_000 });
      expect(await faults(page)).toEqual([]);
      await screenshot(page, `alert-${name.replaceAll(' ', '-')}`);
      await expect
        .poll(() => alert.innerText())
        .toMatch(new RegExp(`^${whale} (bought|sold) .+ at .+¢ for [\\d.,]+ USDC`));
      await way.use(page, alert.getByRole('link').first());
      await expect.poll(() => page.url()).toContain('/market/');
      await page.locator('.price-now').first().waitFor();
    });
  });

  test('compares three traders on a phone', async () => {
    const addresses = await stage.leaders();
    const { page } = await stage.at(`/trader/${addresses[0]}`, { ...PHONE, hasTouch: true });
    await page.getByRole('link', { name: 'Compare', exact: true }).tap();
    const rows = page.locator('.compare tbody tr');
    for (const [number, address] of addresses.entries()) {
      if (number > 0) {
        await page.getByLabel('Add a trader').tap();
        await page.keyboard.insertText(address.slice(0, 14));
        await page.locator('.offers button').first().tap();
      }
      await rows.nth(number).waitFor();
    }
    expect(new URL(page.url()).searchParams.get('traders')).toBe(addresses.join(','));
    await page.locator('.plot[aria-valuenow]:not([aria-valuenow="0"])').waitFor();
    expect(await faults(page)).toEqual([]);
  });

  /** Who trades most just now, holds something that lasts, and is found by a name of their own. */
  async function findWhale() {
    const path = '/v2/analytics/leaderboard?sort_by=volume&time_frame=1H&limit=20';
    return await until(async () => {
      const { traders } = await stage.service.get<Board>(path);
      for (const { profile } of traders) {
        if (profile.name === '') continue;
        const [{ positions }, found] = await Promise.all([
          stage.service.get<Held>(`/v2/traders/${profile.address}/positions`),
          stage.service.get<Board>(`/v2/search?q=${encodeURIComponent(profile.name)}`),
        ]);
        const lasting = positions
          .slice(0, LARGEST)
          .find(({ market }) => Date.parse(market.end_date) > Date.now() + LEFT_MS_MIN);
        if (lasting === undefined || found.traders.length === 0) continue;
        const { question } = lasting.market;
        return { address: profile.address.toLowerCase(), whale: profile.name, question };
      }
      return undefined;
    });
  }
}
