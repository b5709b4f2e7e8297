/** The tape shows the events of the feed, and does not move while the user reads it. */
import { expect, test } from 'vitest';
import type {
  LeaderboardV1,
  Markets,
  RecentMatches,
  TraderTrades,
} from '../../apps/client/index.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  FEED_STREAM,
  type FeedEvent,
  type FeedMatch,
  feedMessageId,
  feedSequelId,
} from '../../ingest/contract.ts';
import { hash, match } from '../unit/feed-matches.ts';
import { faults } from './browser.ts';
import { cents, money } from './figures.ts';
import { expectText, positions, rowCount, scrollTo, struck, texts } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();

/** A match of a trader who trades nowhere else. */
const ownMatch = match(1, { txHash: hash(77), detectedAtMs: Date.now() });

test('strikes a void match through, shows the reason, and undoes both if it is restored', async () => {
  const { page } = await stage.at(`/tape?traders=${ownMatch.taker.trader.address}`);
  await page.locator('[data-stream=live]').waitFor();
  const row = page.locator('tr[data-cursor]');
  const state = () => texts(row).then(([cells]) => cells?.[1]);
  await publish(ownMatch);
  await expect.poll(state).toBe('◌ pending');
  await publish({ kind: 'void', reason: 'never_mined', ...about(ownMatch) });
  await expect.poll(state).toBe('✕ void');
  expect((await struck(row))[0]).toBe(true);
  await row.locator('button').click();
  await expectText(page.locator('.detail'), 'Void: never mined');
  await publish({ kind: 'restored', ...about(ownMatch) });
  await expect.poll(state).toBe('✓ final');
  expect((await struck(row))[0]).toBe(false);
});

test('holds still while it is paused or scrolled, and then continues with the missed matches', async () => {
  const { page } = await stage.at('/tape');
  await page.locator('tr[data-cursor]').nth(30).waitFor();
  await page.keyboard.press(' ');
  const shown = await positions(page);
  const before = await rowCount(page);
  await expect.poll(() => rowCount(page)).toBeGreaterThan(before + 10);
  expect(await positions(page)).toEqual(shown);
  await page.keyboard.press(' ');
  await expect.poll(() => positions(page)).not.toEqual(shown);

  await scrollTo(page, 90);
  await expect.poll(() => page.locator('button.fresh').count()).toBe(1);
  const still = await positions(page);
  expect(await positions(page)).toEqual(still);
  await page.locator('button.fresh').click();
  await expect.poll(() => page.locator('button.fresh').count()).toBe(0);
});

test('shows only matches that pass the filters at the server, and the details of a match', async () => {
  const watched = await stage.at('/tape?min_usdc=50&min_price=50');
  const { page } = watched;
  await page.locator('tr[data-cursor]').nth(4).waitFor();
  const asked = watched.urls.find((one) => one.includes('/v2/recent_matches')) ?? '';
  expect(new URL(asked).searchParams.get('limit')).toBe('200');
  for (const [, , side, , price = '', usdc = ''] of await texts(page.locator('tr[data-cursor]'))) {
    expect(side).toMatch(/^(BUY|SELL)$/);
    expect(Number.parseFloat(price)).toBeGreaterThanOrEqual(50);
    expect(Number(usdc.replaceAll(',', ''))).toBeGreaterThanOrEqual(50);
  }
  await page.keyboard.press(' ');
  await page.locator('tr[data-cursor] button').nth(3).click();
  await page.locator('.detail tbody tr').nth(1).waitFor();
  const [taker, ...makers] = await texts(page.locator('.detail tbody tr'));
  expect([taker?.[0], makers[0]?.[0]]).toEqual(['Taker', 'Maker']);
  await page.goto(`${stage.url}/tape?min_price=101`);
  await expectText(page.getByRole('alert'), 'min_price: must be from 0 to 100');
});

test('says that no match passes the filters, and which one was the last that did', async () => {
  const { address, last } = await findOldRecord();
  const { page } = await stage.at(`/tape?traders=${address}&min_usdc=${last.usdc / 1e6}`);
  await page.locator('[data-stream=live]').waitFor();
  const empty = page.locator('.tape .empty');
  await expectText(empty, 'No new match passes these filters yet.');
  const price = cents(String(last.usdc), String(last.shares));
  await expectText(
    empty,
    `${last.outcome} at ${price} for ${money(last.usdc, 2, 'negative')} USDC`,
  );
  await page.getByRole('button', { name: 'All', exact: true }).click();
  await page.locator('tr[data-cursor]').first().waitFor();
  expect(await empty.count()).toBe(0);
});

test.each([
  ['a filter by trader', (traders: readonly string[]) => `/tape?traders=${traders.join(',')}`],
  [
    'a managed stream of traders',
    async (addresses: readonly string[]) => {
      const { status, headers } = await fetch(`${stage.url}/streams`, {
        method: 'POST',
        headers: { 'X-Service-Key': stage.key, 'Content-Type': 'application/json' },
        body: JSON.stringify({ name: 'leaders', addresses }),
      });
      expect(status).toBe(201);
      return `/manage/streams?watch=${headers.get('location')?.split('/').at(-1)}`;
    },
  ],
])('%s shows the trades of those traders, as the API has them', async (_, pathOf) => {
  const { traders } = await stage.get<LeaderboardV1>('/v1/analytics/leaderboard?limit=20');
  const addresses = traders.map(({ profile }) => profile.address);
  // High, because only rows in view exist.
  const viewport = { width: 1_280, height: 3_000 };
  const { page } = await stage.at(await pathOf(addresses), { viewport });
  await page.getByRole('button', { name: 'Final only' }).click();
  await page.locator('tr[data-cursor]').nth(30).waitFor();
  await page.getByRole('button', { name: 'Pause' }).click();
  const rows = await page.locator('tr[data-cursor]').all();
  const recent = `/v2/recent_matches?traders=${addresses.join(',')}&limit=200`;
  const { events } = await stage.get<RecentMatches>(recent);
  const matches = events.flatMap((event) => (event.type === 'order' ? [event] : []));
  // Trades do not contain which match of a transaction they belong to.
  const alone = [...Map.groupBy(matches, ({ data }) => data.tx_hash)].flatMap(([txHash, own]) =>
    own.length === 1 ? own.map(({ cursor, data }) => [cursor, { txHash, data }] as const) : [],
  );
  const matchOf = new Map(alone);
  const trades: (TraderTrades['trades'][number] & { readonly of: string })[] = [];
  for (const of of addresses) {
    const own = await stage.get<TraderTrades>(`/v2/traders/${of}/trades?limit=1000`);
    trades.push(...own.trades.map((trade) => ({ ...trade, of })));
  }
  let [compared, makers] = [0, 0];
  for (const row of rows) {
    const match = matchOf.get((await row.getAttribute('data-cursor')) ?? '');
    if (match === undefined) continue;
    const own = trades.filter(({ tx_hash }) => tx_hash === match.txHash);
    const orders = [match.data.taker_order, ...match.data.maker_orders];
    const shownTraders = orders.flatMap(({ trader }) =>
      addresses.filter((a) => a === trader.address),
    );
    // The feed may be ahead of the analytics, for the traders whose trades were read first.
    if (!shownTraders.every((address) => own.some((trade) => trade.of === address))) continue;
    const fills = Map.groupBy(own, (one) => `${one.of} ${one.side} ${one.outcome} ${one.is_taker}`);
    const sums = [...fills.values()].map((group) => ({
      ...(group[0] as (typeof own)[number]),
      usdc: group.reduce((sum, { usdc }) => sum + usdc, 0),
      shares: group.reduce((sum, { shares }) => sum + shares, 0),
    }));
    // Of equal ones the taker's.
    const [most, next] = sums.toSorted(
      (a, b) => b.usdc - a.usdc || Number(b.is_taker) - Number(a.is_taker),
    );
    if (most === undefined) throw new Error('no trade of this match');
    // Of two makers with equal amounts the page shows the first of the match, which trades do not contain.
    if (next?.usdc === most.usdc && next.is_taker === most.is_taker) continue;
    const cells = await row.locator('td').allTextContents();
    const [, , side, outcome, shownPrice] = cells;
    expect([side, shownPrice]).toEqual([most.side, cents(String(most.usdc), String(most.shares))]);
    // A market may have been without a listing when its match was shown.
    if (outcome !== '') expect(outcome).toBe(most.outcome);
    expect(await row.locator('.c-usdc').getAttribute('title')).toContain(
      money(most.usdc, 6, 'negative'),
    );
    expect(await row.locator('.c-taker a').getAttribute('href')).toBe(`/trader/${most.of}`);
    expect(cells[7]?.endsWith(' maker')).toBe(!most.is_taker);
    compared += 1;
    if (!most.is_taker) makers += 1;
  }
  expect(compared).toBeGreaterThan(10);
  expect(makers).toBeGreaterThan(0);
});

test('takes names of traders, and says which are similar to one that nobody has', async () => {
  const { traders } = await stage.get<LeaderboardV1>('/v1/analytics/leaderboard?limit=50');
  const { address = '', name = '' } =
    traders.find(({ profile }) => profile.name !== '')?.profile ?? {};
  const { page } = await stage.at(`/tape?traders=${name}`);
  await expect.poll(() => page.url()).toContain(`traders=${address}`);
  await page.locator('[data-stream=live]').waitFor();
  await page.goto(`${stage.url}/tape?traders=${name}x`);
  await expectText(page.getByRole('alert'), name);
});

test('opens with the newest matches that pass, and keeps the row under the pointer in place', async () => {
  const { page } = await stage.at('/tape');
  // All that have arrived, which is more than a moment of live trading.
  await expect.poll(() => rowCount(page)).toBeGreaterThanOrEqual(50);
  const rows = page.locator('tr[data-cursor]');
  const scroller = await page.locator('.tape-scroll').boundingBox();
  if (scroller === null) throw new Error('no tape');
  for (const n of [1, 5]) {
    const [x, y] = [scroller.x + 120 + n * 90, scroller.y + 60 + n * 37];
    await page.mouse.move(scroller.x - 40, scroller.y - 30);
    await expect.poll(() => page.locator('.held').count()).toBe(0);
    await page.mouse.move(x, y);
    await expectText(page.locator('.held'), 'Paused while you point at it');
    const aimed = await page.evaluate<string>(
      `document.elementFromPoint(${x}, ${y}).closest('tr').dataset.cursor`,
    );
    await expect.poll(() => page.locator('.held').innerText()).toMatch(/· [\d,]+ new/);
    await page.mouse.click(x, y);
    await expectText(page.locator('.detail'), `cursor ${aimed}`);
    await page.keyboard.press('Escape');
    await expect.poll(() => page.locator('.detail').count()).toBe(0);
  }
  // Held rows still settle: pending ones become final or void in place.
  const held = await positions(page);
  await page.getByRole('button', { name: 'Pause' }).focus();
  await page.mouse.move(scroller.x - 40, scroller.y - 30);
  await expect.poll(() => positions(page)).not.toEqual(held);
  await page.getByRole('button', { name: 'Pause' }).click();
  const still = await positions(page);
  const pending = async () =>
    (await texts(rows)).slice(0, 20).filter(([, state]) => state === '◌ pending');
  await expect.poll(pending).toEqual([]);
  expect(await positions(page)).toEqual(still);
});

test('names the markets in windows of 760, 800 and 1,000 pixels', async () => {
  const { page } = await stage.at('/tape');
  const market = page.locator('tr[data-cursor] .c-market').first();
  for (const pixels of [760, 800, 1_000]) {
    await page.setViewportSize({ width: pixels, height: 700 });
    // The newest row moves, and a resize is drawn later.
    const width = async () => (await market.boundingBox())?.width;
    await expect.poll(width, { message: `${pixels} pixels` }).toBeGreaterThan(180);
  }
});

test('a row by Ctrl-click on its market opens that in a new tab, by keyboard the drawer', async () => {
  const { page } = await stage.at('/tape');
  const row = page.locator('tr[data-cursor]').nth(8);
  await row.waitFor();
  await page.keyboard.press(' ');
  const market = row.locator('.c-market a');
  const href = await market.getAttribute('href');
  const [other] = await Promise.all([
    page.context().waitForEvent('page'),
    market.click({ modifiers: ['ControlOrMeta'] }),
  ]);
  await other.locator('h1').waitFor();
  expect(other.url()).toBe(stage.url + href);
  expect(await other.getByLabel('Key', { exact: true }).count()).toBe(0);
  await other.close();
  await row.locator('button').focus();
  await page.keyboard.press('Enter');
  await page.locator('.detail').waitFor();
  expect(await faults(page)).toEqual([]);
});

test('has presets, saved filters, and a switch for final matches only', async () => {
  const { page } = await stage.at('/tape');
  await page.getByRole('button', { name: 'Final only' }).click();
  await page.locator('tr[data-cursor]').nth(5).waitFor();
  const states = (await texts(page.locator('tr[data-cursor]'))).map(([, state]) => state);
  expect(new Set(states)).toEqual(new Set(['✓ final']));
  // Matches that become final while the tape is paused do not move rows.
  await page.getByRole('button', { name: 'Pause' }).click();
  const shown = await positions(page);
  const before = await rowCount(page);
  await expect.poll(() => rowCount(page)).toBeGreaterThan(before + 10);
  expect(await positions(page)).toEqual(shown);
  // A change of filters fills the list once; then it holds still again.
  await page.getByRole('button', { name: 'Large' }).click();
  await page.locator('tr[data-cursor]').first().waitFor();
  await page.getByRole('button', { name: 'All' }).click();
  await page.locator('tr[data-cursor]').nth(5).waitFor();
  const still = await positions(page);
  await page.getByRole('button', { name: 'Resume' }).click();
  await expect.poll(() => positions(page)).not.toEqual(still);

  // Other filters change the rows alone: the field keeps the focus, and the buttons stay pressed.
  await page.getByRole('button', { name: /^Filters/ }).click();
  await page.getByLabel('Min size, USDC').focus();
  await page.keyboard.type('2');
  await expect.poll(() => page.url()).toContain('min_usdc=2');
  await page.keyboard.type('5');
  await expect.poll(() => page.url()).toContain('min_usdc=25');
  await page.getByRole('button', { name: 'Large' }).click();
  await expect.poll(() => page.url()).toContain('min_usdc=100');
  const isPressed = page.getByRole('button', { name: 'Final only' }).getAttribute('aria-pressed');
  expect(await isPressed).toBe('true');
  await page.goto(`${stage.url}/tape?min_usdc=25&max_price=60`);
  await page.getByRole('button', { name: 'Save these filters' }).click();
  await page.getByRole('button', { name: 'All' }).click();
  await expect.poll(() => page.url()).toBe(`${stage.url}/tape`);
  await page.getByRole('button', { name: 'USDC ≥ 25, price ≤ 60', exact: true }).click();
  await expect.poll(() => page.url()).toContain('min_usdc=25&max_price=60');
  await page.reload();
  await page.getByRole('button', { name: 'Forget USDC ≥ 25, price ≤ 60' }).click();
  await page.getByRole('button', { name: 'Save these filters' }).waitFor();
  // The same title, because long values are shortened.
  const long = ['1', '2'].map((last) => `${'0x'.padEnd(41, '3')}${last}`);
  for (const address of long) {
    await page.goto(`${stage.url}/tape?traders=${address}`);
    await page.getByRole('button', { name: 'Save these filters' }).click();
  }
  await page.getByRole('button', { name: /^traders 0x3+…$/ }).click();
  await expect.poll(() => page.url()).toContain(`traders=${long[0]}`);
  await page.getByRole('button', { name: /^traders 0x3+… \(2\)$/ }).click();
  await expect.poll(() => page.url()).toContain(`traders=${long[1]}`);
  await page.getByRole('button', { name: 'Sound' }).click();
  expect(await page.getByRole('button', { name: 'Sound' }).getAttribute('aria-pressed')).toBe(
    'true',
  );
});

test('counts new matches by the clock of the server, if that of the visitor is an hour ahead', async () => {
  const { page } = await stage.at('/llms.txt', { key: '', clock: true });
  await page.clock.setSystemTime(Date.now() + 3_600_000);
  await page.goto(`${stage.url}/tape#key=${stage.key}`);
  await expect.poll(() => page.locator('[data-stream]').innerText()).toMatch(/[1-9]\.\d events\/s/);
});

test('is no longer held once the row that had the focus is gone', async () => {
  const { page } = await stage.at('/tape');
  await expect.poll(() => rowCount(page)).toBeGreaterThanOrEqual(150);
  // Other browsers than Chromium do not send an event.
  await page.evaluate(
    `addEventListener('focusout', (event) => event.stopImmediatePropagation(), true)`,
  );
  await page.keyboard.press('j');
  await expectText(page.locator('.held'), 'Paused while you are in it');
  await scrollTo(page, 3_000);
  await expect.poll(() => page.evaluate('document.activeElement === document.body')).toBe(true);
  await scrollTo(page, 0);
  await page.locator('.held').waitFor({ state: 'detached' });
});

test('the matches of a market: while they are held, new ones are counted, and states change', async () => {
  // One that no other file looks at.
  const { markets } = await stage.get<Markets>('/v2/markets?limit=9');
  const conditionId = (markets.at(-1)?.market.condition_id ?? '0x') as `0x${string}`;
  const { page } = await stage.at(`/market/${conditionId}`);
  await page.locator('.market-tape [data-stream=live]').waitFor();
  const numbered = (n: number) =>
    match(n, { txHash: hash(100 + n), conditionId, detectedAtMs: Date.now() });
  const held = numbered(0);
  await publish(held);
  const row = page.locator(`[data-name="${idOf(held)}"]`);
  await row.waitFor();
  await page.locator('.match-scroll').hover();
  const state = page.locator('.market-tape .state');
  await expectText(state, 'Paused');
  // More than the list has.
  await publish(...Array.from({ length: 60 }, (_, n) => numbered(n + 1)));
  await publish({ kind: 'restored', ...about(held) });
  await expect.poll(() => row.getAttribute('class')).toBe('final');
  expect(Number(/· (\d+) new/.exec(await state.innerText())?.[1])).toBeGreaterThanOrEqual(60);
});

test('alerts continue if the browser rejects a notification', async () => {
  const { address } = ownMatch.taker.trader;
  const localStorage = [
    { name: 'fillstream.alerts', value: 'on' },
    { name: 'fillstream.followed.traders', value: JSON.stringify([{ id: address, name: '' }]) },
  ];
  const storageState = { cookies: [], origins: [{ origin: stage.url, localStorage }] };
  const { page } = await stage.at('/llms.txt', { key: '', storageState });
  // Chrome for Android, in the background.
  await page.addInitScript(`
    globalThis.Notification = class {
      static permission = 'granted';
      constructor() {
        throw new TypeError('Illegal constructor');
      }
    };
    Object.defineProperty(document, 'hidden', { value: true });`);
  const opened = page.waitForResponse('**/v1/stream/orders?*');
  await page.goto(`${stage.url}/markets`);
  await opened;
  await publish({ ...ownMatch, txHash: hash(78) });
  await page.locator('.alert').waitFor();
  await publish({ ...ownMatch, txHash: hash(79) });
  await expectText(page.locator('.alert'), 'and 1 more');
});

/** The largest trade of a trader, from before the service, with which the feed began. */
async function findOldRecord() {
  const { traders } = await stage.get<LeaderboardV1>('/v1/analytics/leaderboard?limit=20');
  for (const { profile } of traders) {
    const path = `/v2/traders/${profile.address}/trades?limit=1000`;
    const { trades } = await stage.get<TraderTrades>(path);
    const [last] = trades.toSorted((a, b) => b.usdc - a.usdc);
    if (last === undefined || Date.parse(last.time) > Date.now() - 3_600_000) continue;
    // The trader may since have been a maker of a larger match.
    const filter = `traders=${profile.address}&min_usdc=${last.usdc / 1e6}`;
    const { events } = await stage.get<RecentMatches>(`/v2/recent_matches?limit=1&${filter}`);
    if (events.length === 0) return { address: profile.address, last };
  }
  throw new Error('every trader had the largest trade in the last hour');
}

/** Publishes to the service's feed, as ingest does. */
async function publish(...events: readonly FeedEvent[]): Promise<void> {
  const nats = await stage.nats();
  const writer = await openWriter(nats, { stream: FEED_STREAM });
  for (const event of events) {
    const matchId = event.kind === 'match' ? idOf(event) : event.matchId;
    const id = event.kind === 'match' ? matchId : feedSequelId(event.kind, matchId);
    await writer.append({ id, subject: `feed.${event.kind}`, data: encodeFeedEvent(event) });
  }
  await nats.close();
}

function idOf({ txHash, taker }: FeedMatch): string {
  return feedMessageId(txHash, taker.orderHash, 0);
}

function about(one: FeedMatch) {
  const { txHash, conditionId, detectedAtMs, market, taker, makers } = one;
  return {
    matchId: idOf(one),
    txHash,
    conditionId,
    detectedAtMs,
    traders: [taker, ...makers].map(({ trader }) => trader.address),
    tags: market.tags,
    seriesSlug: market.seriesSlug,
    usdc: taker.usdc,
    shares: taker.shares,
  };
}
