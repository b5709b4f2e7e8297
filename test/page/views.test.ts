/**
 * Every view on a desktop and on a phone; and a trader's whole journey with a mouse, with the keyboard alone,
 * and on a phone.
 */
import type { Locator, Page } from 'playwright-core';
import { describe, expect, test } from 'vitest';
import type {
  Leaderboard,
  Markets,
  Search,
  TraderMarkets,
  TraderPositions,
} from '../../apps/client/index.ts';
import { until } from '../support/service.ts';
import { faults, PHONE, screenshot, type Watched } from './browser.ts';
import { agree, expectText } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();

/** An element that each view shows once it has loaded. */
const READY = {
  home: '.leaders tbody tr',
  markets: '.market-table tbody tr',
  leaderboard: 'svg.spark',
  trader: '.history tbody tr',
  market: '.plot canvas',
  resolved: '.plot canvas',
  event: '.plot canvas',
  compare: '.plot[aria-valuenow]:not([aria-valuenow="0"])',
  tape: 'tr[data-cursor]:nth-child(15)',
  following: '.followed tbody td.strong span',
  streams: '.quotas',
  alerts: '.empty',
  account: '.quotas',
};
type View = keyof typeof READY;
const VIEWS = Object.keys(READY) as View[];

/** Less than a line of text. */
const MOVED_PIXELS_MAX = 8;
/** Limit of the browser's sum of shifts, without rows of tables. */
const SHIFT_MAX = 0.05;
/** Their skeletons are as high as their content, and no late line moves their controls. */
const STILL: readonly View[] = ['home', 'markets', 'leaderboard'];

/** The page and its lists, if their content is wider than they are. */
const OVERFLOW = `[...document.querySelectorAll('html, .scroll:has(> .fills, > .two-line)')]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map(({ className, scrollWidth }) => className + ': ' + scrollWidth)`;
/** Figures, sides and titles that are cut in rows of two lines. */
const CUT = `[...document.querySelectorAll(
  ':is(.fills, .two-line, .tape) :is(thead th, td.figure, td.f-side)',
)]
  .filter(({ scrollWidth, clientWidth }) => scrollWidth > clientWidth)
  .map(({ className, textContent }) => className + ': ' + textContent)`;

/** Runs in a page before its own scripts: records what moves up or down, and by what share of the screen. */
const WATCH = `
  globalThis.shift = 0;
  globalThis.moved = [];
  new PerformanceObserver((list) => {
    for (const { hadRecentInput, sources, value } of list.getEntries()) {
      const others = sources
        .map(({ node, previousRect, currentRect }) => {
          const element = node?.nodeType === 1 ? node : node?.parentElement;
          return { element, from: previousRect.y, to: currentRect.y };
        })
        .filter(({ element }) => !element?.closest('tbody'));
      if (hadRecentInput || others.length === 0) continue;
      shift += value;
      for (const { element, from, to } of others)
        if (Math.abs(from - to) >= ${MOVED_PIXELS_MAX})
          moved.push(element?.tagName + ' ' + element?.className + ': ' + from + ' to ' + to);
    }
  }).observe({ type: 'layout-shift', buffered: true });`;

describe.each([
  { device: 'desktop', context: {}, schemes: ['light', 'dark'] as const },
  { device: 'phone', context: PHONE, schemes: ['light'] as const },
])('on a $device', ({ device, context, schemes }) => {
  test.each(VIEWS)(
    '%s does not shift while it loads, fits the screen, and has no accessibility faults',
    async (view) => {
      const { page } = await visit(view, context);
      expect(await page.evaluate(OVERFLOW)).toEqual([]);
      for (const colorScheme of schemes) {
        await page.emulateMedia({ colorScheme });
        await screenshot(page, `${view}-${device}-${colorScheme}`);
        expect(await faults(page), colorScheme).toEqual([]);
      }
      if (context !== PHONE) return;
      await page.setViewportSize({ width: 360, height: 780 });
      // Charts are drawn again later.
      await expect.poll(() => page.evaluate(OVERFLOW)).toEqual([]);
      expect(await page.evaluate(CUT)).toEqual([]);
    },
  );
});

async function visit(view: View, context: Parameters<typeof stage.at>[1]): Promise<Watched> {
  const traders = (await stage.leaders()).map((id) => ({ id, name: '' }));
  const followed = { name: 'fillstream.followed.traders', value: JSON.stringify(traders) };
  const storageState = { cookies: [], origins: [{ origin: stage.url, localStorage: [followed] }] };
  // A document of the same origin without a script.
  const watched = await stage.at('/llms.txt', { key: '', storageState, ...context });
  const { page } = watched;
  await page.addInitScript(WATCH);
  // The last answer of a trader would move all that is below it.
  const isShown = Promise.withResolvers<void>();
  await page.route(/\/v2\/traders\/0x\w+$/, async (route) => {
    await isShown.promise;
    await route.continue();
  });
  await page.goto(`${stage.url}${await pathOf(view)}#key=${stage.key}`);
  await page.locator(READY[view]).first().waitFor({ state: 'attached' });
  await expect.poll(() => page.locator('.skeleton').count()).toBe(0);
  isShown.resolve();
  if (view === 'trader' || view === 'streams')
    await page.locator('.tiles', { hasText: '–' }).waitFor({ state: 'detached' });
  const [shift, moved] = await page.evaluate<[number, string[]]>('[shift, moved]');
  expect(shift, moved.join()).toBeLessThan(SHIFT_MAX);
  if (STILL.includes(view)) expect(moved).toEqual([]);
  return watched;
}

async function pathOf(view: View): Promise<string> {
  switch (view) {
    case 'home':
      return '/';
    case 'trader':
      return `/trader/${await stage.leader()}`;
    case 'market': {
      const { markets } = await stage.get<Markets>('/v2/markets?limit=1');
      return `/market/${markets[0]?.market.id}`;
    }
    case 'event': {
      const { markets } = await stage.get<Markets>('/v2/markets?limit=100');
      const ofEvent = Map.groupBy(markets, ({ market }) => market.event_slug);
      const [slug] = [...ofEvent].find(([slug, own]) => slug !== '' && own.length > 2) ?? [];
      return `/event/${slug}`;
    }
    case 'resolved': {
      const path = `/v2/traders/${await stage.leader()}/markets?is_active=false&limit=1`;
      const { history } = await stage.get<TraderMarkets>(path);
      return `/market/${history[0]?.market.id}`;
    }
    case 'compare':
      return `/compare?traders=${(await stage.leaders()).join(',')}`;
    case 'streams':
    case 'alerts':
      return `/manage/${view}`;
    case 'markets':
      return '/markets?status=all';
    case 'leaderboard':
      return '/leaderboard?time_frame=7D';
    case 'account':
    case 'tape':
    case 'following':
      return `/${view}`;
  }
}

type Way = {
  readonly context: Parameters<typeof stage.at>[1];
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
    context: PHONE,
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
      const { positions } = watched.answer<TraderPositions>(`/v2/traders/${address}/positions`);
      const held = positions.map(({ market }) => market.question);
      expect(held).toContain((await position.innerText()).trim());
    });
    await way.use(page, page.getByRole('button', { name: 'Follow', exact: true }).first());
    await way.use(page, position);
    await expect.poll(() => page.url()).toContain('/market/');

    // Its tape, and in the chart what the whale traded.
    await page.locator('.market-tape [data-stream=live]').waitFor();
    await page.locator('.matches [data-name]').first().waitFor();
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

/** The trader who trades most at present, has a position that lasts, and has a unique name. */
async function findWhale() {
  const path = '/v2/analytics/leaderboard?sort_by=volume&time_frame=1H&limit=20';
  return await until(async () => {
    const { traders } = await stage.get<Leaderboard>(path);
    for (const { profile } of traders) {
      if (profile.name === '') continue;
      const [{ positions }, found] = await Promise.all([
        stage.get<TraderPositions>(`/v2/traders/${profile.address}/positions`),
        stage.get<Search>(`/v2/search?q=${encodeURIComponent(profile.name)}`),
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
