/** The leaderboard shows the API's figures, and its controls do what their labels say. */
import { describe, expect, onTestFinished, test } from 'vitest';
import type { Leaderboard } from '../../apps/client/index.ts';
import type { Watched } from './browser.ts';
import { count, money, percent } from './figures.ts';
import { agree, compareRows, expectText } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();

describe('the leaderboard', () => {
  test('shows the response of the API for each setting, and keeps settings in the URL', async () => {
    const watched = await stage.at('/leaderboard?time_frame=7D');
    const { page } = watched;
    await expectBoard(watched, 'time_frame=7D&sort_by=pnl&order=desc&tag=all&offset=0');

    await page.getByLabel('Tag').selectOption('crypto');
    await page.getByRole('button', { name: 'Win rate' }).click();
    const asked = 'time_frame=7D&sort_by=win_rate&order=desc&tag=crypto&offset=0';
    await expectBoard(watched, `${asked}&min_market_count=10`);
    await page.getByRole('button', { name: /^Filters/ }).click();
    await page.getByLabel('Min markets').fill('3');
    await page.getByLabel('Min ROI, %').fill('-50.5');
    await expectBoard(watched, `${asked}&min_roi=-50.5&min_market_count=3`);
    expect(new URL(page.url()).searchParams.toString()).toBe(
      'time_frame=7D&tag=crypto&sort_by=win_rate&order=desc&min_market_count=3&min_roi=-50.5',
    );
    await page.getByRole('button', { name: 'markets ≥ 3' }).click();
    await expectBoard(watched, `${asked}&min_roi=-50.5`);

    await page.goBack();
    await expectBoard(watched, `${asked}&min_roi=-50.5&min_market_count=3`);
  });

  test('begins a ranking by a rate with ten markets, until another order is chosen', async () => {
    const watched = await stage.at('/leaderboard?time_frame=30D');
    const { page } = watched;
    const asked = (sort: string) => `time_frame=30D&sort_by=${sort}&order=desc&tag=all&offset=0`;
    await page.getByRole('button', { name: 'ROI' }).click();
    await expectBoard(watched, `${asked('roi')}&min_market_count=10`);
    await page.getByRole('button', { name: 'Volume' }).click();
    await expectBoard(watched, asked('volume'));
  });

  test('goes through all pages without losing or repeating a trader', async () => {
    // A refresh between two pages moves traders.
    await stage.query('SYSTEM STOP VIEW leaderboard_30d_mv');
    onTestFinished(async () => {
      await stage.query('SYSTEM START VIEW leaderboard_30d_mv');
    });
    const watched = await stage.at('/leaderboard?time_frame=30D&limit=20');
    const next = watched.page.getByRole('button', { name: 'Next' });
    const seen: string[] = [];
    for (let offset = 0; ; offset += 20) {
      const query = `time_frame=30D&sort_by=pnl&order=desc&tag=all&offset=${offset}`;
      const { traders, total_count } = await expectBoard(watched, `${query}&limit=20`);
      seen.push(...traders.map((entry) => entry.profile.address));
      if (await next.isEnabled()) await next.click();
      else {
        expect(seen).toHaveLength(total_count);
        break;
      }
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBeGreaterThan(60);
  });

  test('opens with one request, even if the status arrives before its response', async () => {
    const { page, urls } = await stage.at('/llms.txt', { key: '' });
    const asked = Promise.withResolvers<void>();
    await page.route('**/v2/analytics/leaderboard?*', async (route) => {
      await asked.promise;
      await route.continue();
    });
    await page.goto(`${stage.url}/leaderboard`);
    await page.locator('.age').waitFor();
    asked.resolve();
    await page.locator('tbody tr').first().waitFor();
    expect(urls.filter((one) => one.includes('/v2/analytics/leaderboard'))).toHaveLength(1);
  });

  test('does not turn pages while it waits for the response to other settings', async () => {
    const { page } = await stage.at('/leaderboard?time_frame=30D&limit=20');
    const isStale = () => page.getByRole('button', { name: 'Next' }).getAttribute('aria-disabled');
    await expect.poll(isStale).toBe('false');
    const asked = Promise.withResolvers<void>();
    await page.route('**/v2/analytics/leaderboard?*', async (route) => {
      await asked.promise;
      await route.continue();
    });
    await page.getByRole('radio', { name: '7D' }).check();
    await expect.poll(isStale).toBe('true');
    await page.getByRole('button', { name: 'Next' }).click({ force: true });
    expect(page.url()).not.toContain('offset');
    asked.resolve();
    await expect.poll(isStale).toBe('false');
  });

  test('has one page for a key of the demo tier', async () => {
    const { page } = await stage.at('/leaderboard', { key: await stage.issue('demo') });
    await expectText(page.locator('main'), '; a key above the demo tier shows them all.');
  });

  test('shows the error of the server for a rejected setting, and that no trader matches', async () => {
    const { page } = await stage.at('/leaderboard?time_frame=1H&min_win_rate=101');
    await expectText(page.getByRole('alert'), 'min_win_rate: got "101"');
    await page.goto(`${stage.url}/leaderboard?time_frame=1H&min_market_count=100000`);
    await expectText(page.locator('.empty'), 'No traders match');
  });

  test('works by keyboard alone', async () => {
    const watched = await stage.at('/leaderboard?time_frame=7D');
    const { page } = watched;
    await page.locator('tbody tr').nth(2).waitFor();
    await page.keyboard.press('2');
    await expect.poll(() => page.url()).toContain('time_frame=4H');
    await page.keyboard.press('6');
    await expect.poll(() => page.url()).toContain('time_frame=30D');
    await expectBoard(watched, 'time_frame=30D&sort_by=pnl&order=desc&tag=all&offset=0');
    for (const one of ['j', 'j', 'k', 'j']) await page.keyboard.press(one);
    const second = await page.locator('tbody tr').nth(1).locator('a').getAttribute('href');
    await page.keyboard.press('Enter');
    await expect.poll(() => page.url()).toBe(stage.url + second);
    await page.keyboard.press('/');
    await expect.poll(() => page.getByRole('combobox', { name: 'Market, trader' }).count()).toBe(1);
  });
});

function expectBoard(watched: Watched, query: string): Promise<Leaderboard> {
  const path = `/v2/analytics/leaderboard?${query}`;
  return agree(async () => {
    const board = await compareRows(
      watched,
      path,
      '.board-table',
      [0, 1, 3, 4, 5, 6, 7, 8],
      ({ traders }: Leaderboard) =>
        traders.map((entry) => [
          String(entry.rank),
          entry.profile.name || short(entry.profile.address),
          money(entry.total_pnl, 2, 'always'),
          percent(entry.roi, 'always'),
          percent(entry.win_rate, 'negative'),
          percent(entry.closed_win_rate, 'negative'),
          count(entry.markets_count),
          money(entry.total_volume, 0, 'negative'),
        ]),
    );
    const pager = await watched.page.locator('.pager span').first().innerText();
    expect(pager).toContain(`of ${count(board.total_count)}`);
    return board;
  });
}

function short(address: string): string {
  return `${address.slice(0, 6)}…${address.slice(-4)}`.toLowerCase();
}
