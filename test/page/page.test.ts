/**
 * The page in Debian's Chromium on the embedded service with a trading devnet: its figures are the
 * API's, its controls do what they say, its tape outlives the api process, and nobody is shut out.
 */
import { describe, expect, test } from 'vitest';
import { CHROMIUM, faults, MISSING, screenshot } from './browser.ts';
import { count } from './figures.ts';
import { journeyTests, PHONE } from './journey-tests.ts';
import { leaderboardTests } from './leaderboard-tests.ts';
import { findTests, homeTests, marketTests } from './market-tests.ts';
import { agree, expectText } from './seen.ts';
import { useStage } from './stage.ts';
import { tapeTests } from './tape-tests.ts';
import { traderTests } from './trader-tests.ts';

if (CHROMIUM === undefined) console.warn(MISSING);

describe.skipIf(CHROMIUM === undefined)(`the page (${CHROMIUM ?? MISSING})`, () => {
  const stage = useStage();

  describe('the key', () => {
    test('comes from the link, leaves the address at once, and stays in the tab', async () => {
      const { page } = await stage.at('/leaderboard?time_frame=7D');
      await page.locator('tbody tr').first().waitFor();
      expect(page.url()).toBe(`${stage.url}/leaderboard?time_frame=7D`);
      await page.reload();
      await page.locator('tbody tr').first().waitFor();
      expect(await page.evaluate('JSON.stringify(localStorage) + document.cookie')).toBe('{}');
    });

    test('is asked for, refused in the words of the server, and taken when it is right', async () => {
      const { page } = await stage.at('/manage/streams', { key: '' });
      // As copied from the field's own placeholder; a header cannot contain it.
      await page.getByLabel('Key', { exact: true }).fill('fs_pro_…');
      await page.getByRole('button', { name: 'Open' }).click();
      await expectText(page.getByRole('alert'), 'This is not a key');
      await page.getByLabel('Key', { exact: true }).fill('fs_pro_wrong');
      await page.getByRole('button', { name: 'Open' }).click();
      await expectText(
        page.getByRole('alert'),
        'the X-Service-Key header is not a key of this service',
      );
      expect(await faults(page)).toEqual([]);
      await page.getByLabel('Key', { exact: true }).fill(stage.key);
      await page.getByRole('button', { name: 'Open' }).click();
      await page.locator('.quotas').waitFor();
    });

    test('without one everything is shown that the demo tier may read, from a shared link too', async () => {
      const watched = await stage.at('/?time_frame=7D', { key: '' });
      const { page } = watched;
      type Board = { traders: { profile: { address: string } }[] };
      let traders: Board['traders'] = [];
      await agree(async () => {
        ({ traders } = watched.answer<Board>('/v1/analytics/leaderboard'));
        expect(traders.length).toBeGreaterThan(0);
        expect(await page.locator('tbody tr').count()).toBe(traders.length);
      });
      await expectText(page.locator('main'), `${traders.length} of `);
      await expectText(page.locator('.strip'), 'simulated data');
      await page.goto(`${stage.url}/trader/${traders[0]?.profile.address}`);
      await page.locator('.full-address').waitFor();
      await page.goto(`${stage.url}/tape`);
      await page.locator('tr[data-cursor]').nth(10).waitFor();
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('button', { name: 'Continue without a key' }).click();
      await page.locator('tr[data-cursor]').first().waitFor();
    });

    test('is in a tab that is opened from another, and forgotten in both', async () => {
      const { page } = await stage.at('/manage/streams');
      await page.locator('.quotas').waitFor();
      const [other] = await Promise.all([
        page.context().waitForEvent('page'),
        page.getByRole('link', { name: 'Streams' }).click({ modifiers: ['ControlOrMeta'] }),
      ]);
      await other.locator('.quotas').waitFor();
      await other.getByRole('button', { name: 'Sign out' }).click();
      await page.getByLabel('Key', { exact: true }).waitFor();
      expect(await other.evaluate('sessionStorage.length + localStorage.length')).toBe(0);
    });

    test('is forgotten by the live tape as well', async () => {
      const { page } = await stage.at('/tape');
      await page.locator('tr[data-cursor]').first().waitFor();
      type Sessions = { data: { ended_at: string | null }[] };
      const open = async () => (await stage.service.get<Sessions>('/sessions')).data.length;
      await expect.poll(open).toBeGreaterThan(0);
      await page.getByRole('button', { name: 'Sign out' }).click();
      await expect.poll(open).toBe(0);
      await page.locator('tr[data-cursor]').first().waitFor();
    });

    test('is remembered on the device if the user chooses so', async () => {
      const { page } = await stage.at('/manage/streams', { key: '' });
      const context = page.context();
      await page.getByLabel('Key', { exact: true }).fill(stage.key);
      await page.getByLabel('Remember on this device').check();
      await page.getByRole('button', { name: 'Open' }).click();
      await page.locator('.quotas').waitFor();
      await page.close();
      const later = await context.newPage();
      await later.goto(`${stage.url}/manage/streams`);
      await later.locator('.quotas').waitFor();
      await later.getByRole('button', { name: 'Sign out' }).click();
      expect(await later.evaluate('localStorage.length')).toBe(0);
    });
  });

  test('opens in a browser that blocks site data', async () => {
    const { page } = await stage.at('/llms.txt', { key: '' });
    await page.addInitScript(`
      const refuse = () => {
        throw new DOMException('blocked', 'SecurityError');
      };
      for (const area of ['localStorage', 'sessionStorage'])
        Object.defineProperty(globalThis, area, { get: refuse });
      globalThis.BroadcastChannel = function () {
        refuse();
      };`);
    await page.goto(`${stage.url}/leaderboard`);
    await page.locator('tbody tr').first().waitFor();
  });

  findTests(stage);
  homeTests(stage);
  leaderboardTests(stage);
  traderTests(stage);
  marketTests(stage);
  tapeTests(stage);

  journeyTests(stage);

  type Stream = { id: string; name: string; tags: string[]; series: string[]; addresses: string[] };

  test('streams: created, changed, watched, disabled and deleted, as the API has them', async () => {
    const { page } = await stage.at('/manage/streams');
    const streams = async () => (await stage.service.get<{ data: Stream[] }>('/streams')).data;
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
    await expectText(page.locator('.stream .tags'), 'every match');

    const { markets } = await stage.service.get<{ markets: { market: { id: number } }[] }>(
      '/v2/markets?limit=1',
    );
    const id = String(markets[0]?.market.id);
    await page.locator('.stream').getByRole('button', { name: 'Edit' }).click();
    await page.locator('.stream').getByLabel('Markets').fill(id);
    await page.getByRole('button', { name: 'Save' }).click();
    await expectText(page.locator('.stream .tags'), 'markets');
    expect(await page.locator('.stream .tags').innerText()).not.toContain('every match');
    await page.locator('.stream').getByRole('button', { name: 'Edit' }).click();
    await page.locator('.stream').getByLabel('Markets').fill('');
    await page.getByRole('button', { name: 'Save' }).click();
    await expectText(page.locator('.stream .tags'), 'every match');

    // What another program changes while the form is open stays, and only the name is sent.
    await page.locator('.stream').getByRole('button', { name: 'Edit' }).click();
    const [{ id: stream } = { id: '' }] = await streams();
    const changed = await fetch(`${stage.url}/streams/${stream}/subscription`, {
      method: 'PUT',
      headers: { 'X-Service-Key': stage.key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ tags: ['sports'] }),
    });
    expect(changed.status).toBe(200);
    await page.locator('.stream').getByLabel('Name').fill('sports only');
    await page.getByRole('button', { name: 'Save' }).click();
    await expectText(page.locator('.stream h2'), 'sports only');
    expect(await streams()).toMatchObject([{ name: 'sports only', tags: ['sports'] }]);

    await page.getByRole('button', { name: 'Watch' }).click();
    await page.locator('tr[data-cursor]').nth(5).waitFor();
    await expectText(page.locator('h1'), 'sports only');
    await page.getByRole('button', { name: 'Edit' }).click();
    await page.getByLabel('Tags').fill('crypto');
    await page.getByRole('button', { name: 'Save' }).click();
    await expect.poll(streams).toMatchObject([{ tags: ['crypto'], active_sessions: 1 }]);
    expect(await page.locator('[data-stream]').getAttribute('data-stream')).toBe('live');
    await page.getByRole('button', { name: 'Back to the list' }).click();
    await page.locator('.stream').getByRole('button', { name: 'Disable' }).click();
    await expectText(page.locator('.stream .badge'), 'disabled');
    await page.locator('.stream').getByRole('button', { name: 'Delete' }).click();
    await page.getByRole('button', { name: 'Delete permanently' }).click();
    await page.locator('.stream').waitFor({ state: 'detached' });
    expect(await streams()).toEqual([]);

    // A service that hangs is reported, although the page asks again more often than that.
    await page.route(`${stage.url}/streams`, () => undefined);
    await expectText(page.getByRole('alert'), 'has not answered within 8 s');
    await page.unroute(`${stage.url}/streams`);
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });

  test('the status strip: how old everything is, and what is wrong in words', async () => {
    const watched = await stage.at('/manage/streams');
    const { page } = watched;
    const strip = page.locator('.strip');
    await agree(async () => {
      type Status = { chain: { final_block: number }; boards: { time_frame: string }[] };
      const { chain, boards } = watched.answer<Status>('/v2/status');
      const shown = await strip.innerText();
      for (const { time_frame } of boards) expect(shown).toContain(time_frame);
      expect(shown).toContain(count(chain.final_block));
      expect(shown).toMatch(/feed\s.*projection\s/s);
    });
    await expectText(strip, '● live');
    // That the page asked too often is no fault of the service.
    await page.route('**/v2/status', (route) =>
      route.fulfill({ status: 429, json: { message: 'too many requests' } }),
    );
    // The page has dealt with an answer before it asks again.
    for (let n = 0; n < 2; n += 1) await page.waitForResponse('**/v2/status');
    expect(await strip.innerText()).toContain('● live');
    await page.unroute('**/v2/status');
    await page.route('**/v2/status', (route) => route.abort());
    await expectText(strip, 'the service cannot be reached');
    await page.unroute('**/v2/status');
    await expectText(strip, '● live');
  });

  describe('the API reference', () => {
    /** Shows an operation, which the viewer renders only when it comes into view. */
    async function reference(colorScheme: 'light' | 'dark') {
      const watched = await stage.at('/docs', { key: '', colorScheme });
      const name = 'Traders by PnL, ROI, win rate or markets';
      await watched.page.getByText(name).first().click();
      await watched.page.getByRole('heading', { name }).waitFor();
      await screenshot(watched.page, `docs-${colorScheme}`);
      expect([watched.foreign, watched.errors]).toEqual([[], []]);
      return watched;
    }

    test('in dark: every operation, from this host alone', async () => {
      await reference('dark');
    });

    test('in light: a request is tried with the key of the visitor', async () => {
      const { page, foreign } = await reference('light');
      const path = '/v1/analytics/leaderboard';
      // The viewer's own sample stands where the key belongs.
      await page.getByPlaceholder('QUxM').fill(stage.key);
      await page.getByRole('button', { name: `Test Request (get ${path})` }).click();
      const answer = page.waitForResponse(stage.url + path);
      await page.getByRole('button', { name: 'Send' }).first().click();
      expect((await answer).status()).toBe(200);
      await expectText(page.getByRole('dialog'), '200 OK');
      expect(foreign).toEqual([]);
    });
  });

  describe('every view', () => {
    const views = [
      'home',
      'markets',
      'leaderboard',
      'trader',
      'market',
      'compare',
      'tape',
      'following',
      'streams',
    ] as const;

    async function pathOf(view: (typeof views)[number]): Promise<string> {
      const address = await stage.leader();
      const { history } = await stage.service.get<{ history: { market: { id: number } }[] }>(
        `/v2/traders/${address}/markets?is_active=false&limit=1`,
      );
      const paths = {
        home: '/',
        markets: '/markets?status=all',
        leaderboard: '/leaderboard?time_frame=7D',
        trader: `/trader/${address}`,
        market: `/market/${history[0]?.market.id}`,
        compare: `/compare?traders=${(await stage.leaders()).join(',')}`,
        tape: '/tape',
        following: '/following',
        streams: '/manage/streams',
      };
      return paths[view];
    }

    /** A browser that follows three traders. */
    async function storageState() {
      const traders = (await stage.leaders()).map((id) => ({ id, name: '' }));
      const localStorage = [
        { name: 'fillstream.followed.traders', value: JSON.stringify(traders) },
      ];
      return { cookies: [], origins: [{ origin: stage.url, localStorage }] };
    }

    const ready = {
      home: '.leaders tbody tr',
      markets: '.market-table tbody tr',
      leaderboard: 'svg.spark',
      trader: '.history tbody tr',
      market: '.plot canvas',
      compare: '.plot[aria-valuenow]:not([aria-valuenow="0"])',
      tape: 'tr[data-cursor]:nth-child(15)',
      following: '.followed tbody td.strong span',
      streams: '.quotas',
    };

    test.each(views)('%s has no fault of accessibility, light or dark', async (view) => {
      const options = { storageState: await storageState(), colorScheme: 'light' } as const;
      const { page } = await stage.at(await pathOf(view), options);
      await page.locator(ready[view]).first().waitFor();
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        await screenshot(page, `${view}-${colorScheme}`);
        expect(await faults(page), colorScheme).toEqual([]);
      }
      await page.emulateMedia({ colorScheme: 'light' });
      await page.setViewportSize({ width: 2560, height: 1440 });
      await screenshot(page, `${view}-wide`);
    });

    test.each(views)('%s fits a phone', async (view) => {
      const state = { storageState: await storageState(), ...PHONE };
      const { page } = await stage.at(await pathOf(view), state);
      await page.locator(ready[view]).first().waitFor({ state: 'attached' });
      await screenshot(page, `${view}-phone`);
      const width = await page.evaluate('document.documentElement.scrollWidth');
      expect(width).toBeLessThanOrEqual(PHONE.viewport.width);
      expect(await faults(page)).toEqual([]);
    });
  });
});
