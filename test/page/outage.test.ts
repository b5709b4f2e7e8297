/**
 * On a service that no other file disturbs, and whose page has a key of its own: the tape outlives the api process and the
 * sleep of the machine, all tabs share a session, and the reference has the key.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { createEventSource } from 'eventsource-client';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LabelledMatch, Markets, Sessions, Void } from '../../apps/client/index.ts';
import { type Service, startService, temporaryDirectory, until } from '../support/service.ts';
import { CHROMIUM } from './browser.ts';
import { cents, money } from './figures.ts';
import { expectText, position, rowCount, scrollTo, texts } from './seen.ts';
import { ARGS } from './service.ts';
import { useStage } from './stage.ts';

/** Longer than the page accepts silence on a connection. */
const SLEPT_MS = 120_000;
const SETTLED_ROWS = 21;

const directory = temporaryDirectory();
let service: Service;

beforeAll(async () => {
  if (CHROMIUM === undefined) return;
  service = await startService(`${directory.path}/data`, { args: ARGS });
});

afterAll(async () => {
  await service?.up.stop();
  directory.remove();
});

const stage = useStage(() => service);

test('outlives the api process: no row is lost or doubled, and it says what happened', async () => {
  const { page } = await stage.at('/tape');
  await page.locator('tr[data-cursor]').nth(25).waitFor();
  process.kill(service.pidOf('api'), 'SIGKILL');
  await expectText(page.locator('[data-stream]'), 'retrying');
  await expectText(page.locator('.stream-notice.resumed'), 'none is missing');
  const rowsAfter = await rowCount(page);
  await expect.poll(() => rowCount(page), { timeout: 40_000 }).toBeGreaterThan(rowsAfter + 20);
  await expectWhole(page);
});

test('the reference tries an operation with the key of the page', async () => {
  const { page } = await stage.at('/docs', { key: '' });
  const path = '/v1/analytics/leaderboard';
  await page.getByText('Leaderboard (v1)').first().click();
  await page.getByRole('button', { name: `Test Request (get ${path})` }).click();
  const answer = page.waitForResponse(stage.url + path);
  await page.getByRole('button', { name: 'Send' }).first().click();
  expect((await answer).status()).toBe(200);
});

test('ten tabs share one session, and lose nothing when the tab that has the stream is closed', async () => {
  // The key of the page and the printed one have the same account.
  const { page } = await stage.at('/tape', { key: '' });
  await page.locator('tr[data-cursor]').nth(5).waitFor();
  const open = async () => (await service.get<Sessions>('/sessions')).data.length;
  const { markets } = await stage.get<Markets>('/v2/markets?limit=3');
  const [trader = ''] = await stage.leaders();
  const paths = [
    ...['/tape', '/tape?min_usdc=5', `/tape?traders=${trader}`, '/tape?tags=sports,crypto'],
    ...['/tape?min_price=50', '/tape?markets='.concat(String(markets[0]?.market.id))],
    ...markets.map(({ market }) => `/market/${market.id}`),
  ];
  const tabs = await Promise.all(
    paths.map(async (path) => {
      const tab = await page.context().newPage();
      await tab.goto(stage.url + path);
      await tab.locator('.head [data-stream=live], .market-tape .state.ok').waitFor();
      return tab;
    }),
  );
  await expect.poll(open).toBe(1);
  const [whole, large] = tabs as [Page, Page];
  await page.close();
  const before = await rowCount(whole);
  await expect.poll(() => rowCount(whole), { timeout: 40_000 }).toBeGreaterThan(before + 20);
  await expect.poll(open).toBe(1);
  await whole.bringToFront();
  await expectWhole(whole);
  for (const [, , , , , usdc = ''] of await texts(large.locator('tr[data-cursor]'))) {
    expect(Number(usdc.replaceAll(',', ''))).toBeGreaterThanOrEqual(5);
  }
});

test('continues where it was after the machine slept, and says so', async () => {
  const { page } = await stage.at('/tape', { clock: true });
  await page.locator('tr[data-cursor]').nth(5).waitFor();
  await asleep(page, () => page.clock.fastForward(SLEPT_MS));
  await expectText(page.locator('.stream-notice.resumed'), `cut for ${SLEPT_MS / 60_000} min`);
  await page.getByRole('button', { name: 'Dismiss' }).click();
  // The number of missed matches is shown for some seconds.
  await page.clock.runFor(2_000);
  expect(await page.locator('.stream-notice').count()).toBe(0);
  await expect.poll(() => rowCount(page), { timeout: 40_000 }).toBeGreaterThan(SETTLED_ROWS);
  await expectWhole(page);
});

/** Nothing reaches a machine that sleeps, so pause the api while the clock continues. */
async function asleep(page: Page, elapse: () => Promise<void>): Promise<void> {
  const api = service.pidOf('api');
  process.kill(api, 'SIGSTOP');
  try {
    // If nothing arrives for a second, nothing is in flight.
    await until(async () => {
      const latest = await position(page);
      await delay(1_000);
      return latest === (await position(page)) || undefined;
    });
    await elapse();
  } finally {
    process.kill(api, 'SIGCONT');
  }
}

/** Compares the rows of a tape with the feed, read again: none is missing, repeated or wrongly struck through. */
async function expectWhole(page: Page): Promise<void> {
  await page.getByRole('button', { name: 'Pause' }).click();
  // Until the first rows are settled: final blocks follow some seconds behind.
  await expect.poll(() => pendingAmongOldest(page), { timeout: 60_000 }).toBe(0);
  const rows = await allRows(page);
  // Everything that the page received before it was read completely comes before its next match.
  const latest = await position(page);
  await expect.poll(() => position(page)).not.toBe(latest);
  const [after = '', last = ''] = [rows.at(-1)?.position, rows[0]?.position];
  const end = await position(page);
  const { replayed, voided } = await replay({ after, last, end });
  const newer = rows.slice(0, -1);
  expect(newer.map(({ position, price, usdc }) => [position, price, usdc])).toEqual(
    replayed
      .map(({ position, taker_order: { usdc, shares } }) => [
        position,
        cents(usdc, shares),
        money(usdc, 2, 'negative'),
      ])
      .reverse(),
  );
  const hashes = new Map(replayed.map((match) => [match.position, match.tx_hash]));
  for (const row of newer) {
    const voidedAt = voided.get(hashes.get(row.position) ?? '');
    expect(row.struck, row.position).toBe(row.state === '✕ void');
    // The rest may have arrived while the page was read.
    if (voidedAt === undefined) expect(row.struck, row.position).toBe(false);
    else if (voidedAt < BigInt(last)) expect(row.struck, row.position).toBe(true);
  }
  expect(rows.some(({ state }) => state === '✓ final')).toBe(true);
}

/** The order feed read again from the API, after one position up to another. */
async function replay({ after, last, end }: Readonly<Record<'after' | 'last' | 'end', string>>) {
  const source = createEventSource({
    url: `${stage.url}/v1/stream/orders?format=json`,
    headers: { 'X-Service-Key': stage.key },
    initialLastEventId: after,
  });
  const replayed: (LabelledMatch & { position: string })[] = [];
  /** Transactions with a match that was voided up to the end, with the position of the first void event. */
  const voided = new Map<string, bigint>();
  for await (const { id: position = '', event, data } of source) {
    if (position === '') continue;
    // Positions grow with the feed.
    if (BigInt(position) > BigInt(end)) break;
    if (event === 'gap') throw new Error(`the feed has lost history: ${data}`);
    const about = JSON.parse(data) as LabelledMatch | Void;
    if (event === 'void') voided.set(about.tx_hash, voided.get(about.tx_hash) ?? BigInt(position));
    if (event === 'restored') voided.delete(about.tx_hash);
    if (event !== 'order' || BigInt(position) > BigInt(last)) continue;
    replayed.push({ ...(about as LabelledMatch), position });
  }
  source.close();
  return { replayed, voided };
}

/** How many of the oldest rows of the tape are neither final nor void. */
async function pendingAmongOldest(page: Page): Promise<number> {
  await scrollTo(page, 1e9);
  const rows = (await texts(page.locator('tr[data-cursor]'))).slice(-SETTLED_ROWS);
  return SETTLED_ROWS - rows.filter(([, state = '']) => /final|void/.test(state)).length;
}

type Shown = {
  readonly position: string;
  readonly state: string;
  readonly price: string;
  readonly usdc: string;
  readonly struck: boolean;
};

/** Whether a row is rendered in the middle of the visible part of the tape, not only its space. */
const IS_BUILT = `(() => {
  const { x, y, width, height } = document.querySelector('.tape-scroll').getBoundingClientRect();
  const there = document.elementFromPoint(x + width / 2, y + height / 2);
  return there?.closest('tr[data-cursor]') !== null;
})()`;

/** Read at once: rows may be built between two readings. */
const BUILT_ROWS = `[...document.querySelectorAll('tr[data-cursor]')].map((row) => {
  const [, state, , , price, usdc] = [...row.cells].map((cell) => cell.innerText);
  const { textDecorationLine } = getComputedStyle(row.querySelector('.c-market'));
  const struck = textDecorationLine === 'line-through';
  return { position: row.dataset.cursor, state, price, usdc, struck };
})`;

/** Every row of a paused tape, newest first, by scrolling through it. */
async function allRows(page: Page): Promise<Shown[]> {
  const found = new Map<string, Shown>();
  const height = await page
    .locator('.tape-scroll')
    .evaluate((element) => (element as unknown as { scrollHeight: number }).scrollHeight);
  for (let top = 0; top <= height; top += 300) {
    await scrollTo(page, top);
    // Its rows are built after it is scrolled. Frames do not show when: a test may hold the page's clock.
    await expect.poll(() => page.evaluate(IS_BUILT)).toBe(true);
    for (const row of await page.evaluate<Shown[]>(BUILT_ROWS)) found.set(row.position, row);
  }
  return [...found.values()].sort((a, b) => Number(BigInt(b.position) - BigInt(a.position)));
}
