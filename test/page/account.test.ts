/**
 * The visitor's account: the key, streams, the status of the service, the API reference, and addresses that
 * do not exist.
 */
import { describe, expect, test } from 'vitest';
import type {
  Leaderboard,
  Markets,
  Sessions,
  Status,
  Streams,
  Telemetry,
} from '../../apps/client/index.ts';
import { faults, PHONE, screenshot } from './browser.ts';
import { count } from './figures.ts';
import { agree, expectText } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();
const API = /\/v[12]\//;
/** What the browser keeps, apart from the time of the visit. */
const STORED = "Object.keys(localStorage).filter((name) => !name.startsWith('fillstream.seen'))";

describe('the key', () => {
  test('comes from the link, leaves the address at once, and stays in the tab', async () => {
    const { page } = await stage.at('/leaderboard?time_frame=7D');
    await page.locator('tbody tr').first().waitFor();
    expect(page.url()).toBe(`${stage.url}/leaderboard?time_frame=7D`);
    await page.reload();
    await page.locator('tbody tr').first().waitFor();
    expect(await page.evaluate(STORED)).toEqual([]);
    expect(await page.evaluate('document.cookie')).toBe('');
  });

  test('is requested; a wrong one shows the error of the server, a valid one opens the page', async () => {
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

  test('without one, shows everything that the demo tier may read, also from a shared link', async () => {
    const watched = await stage.at('/?time_frame=7D', { key: '' });
    const { page } = watched;
    const traders = await agree(async () => {
      const board = watched.answer<Leaderboard>('/v2/analytics/leaderboard');
      expect(board.traders.length).toBeGreaterThan(0);
      expect(await page.locator('tbody tr').count()).toBe(board.traders.length);
      return board.traders;
    });
    await expectText(page.locator('main'), `${traders.length} of `);
    await expectText(page.locator('.strip'), 'Simulated data');
    await page.goto(`${stage.url}/trader/${traders[0]?.profile.address}`);
    await page.locator('.full-address').waitFor();
    await page.goto(`${stage.url}/tape`);
    await page.locator('tr[data-cursor]').nth(10).waitFor();
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page.getByRole('button', { name: 'Continue without a key' }).click();
    await page.locator('tr[data-cursor]').first().waitFor();
  });

  test('is available in a tab opened from another one, and removed from both', async () => {
    const { page } = await stage.at('/manage/streams');
    await page.locator('.quotas').waitFor();
    const [other] = await Promise.all([
      page.context().waitForEvent('page'),
      page.getByRole('link', { name: 'Streams' }).click({ modifiers: ['ControlOrMeta'] }),
    ]);
    await other.locator('.quotas').waitFor();
    await other.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('Key', { exact: true }).waitFor();
    expect(await other.evaluate('sessionStorage.length')).toBe(0);
    expect(await other.evaluate(STORED)).toEqual([]);
  });

  test('is forgotten by the live tape as well', async () => {
    const { page } = await stage.at('/tape');
    await page.locator('tr[data-cursor]').first().waitFor();
    const open = async () => (await stage.get<Sessions>('/sessions')).data.length;
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
    expect(await later.evaluate(STORED)).toEqual([]);
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

test('streams: created, changed, watched, disabled and deleted, as the API has them', async () => {
  const { page } = await stage.at('/manage/streams');
  const stream = page.locator('.stream');
  const streams = async () => (await stage.get<Streams>('/streams')).data;
  const fill = (label: string, text: string) => stream.getByLabel(label).fill(text);
  const edit = () => stream.getByRole('button', { name: 'Edit' }).click();
  const save = () => page.getByRole('button', { name: 'Save' }).click();
  await page.getByLabel('Name').fill('crypto only');
  await page.getByLabel('Tags').fill('crypto, CRYPTO');
  await page.getByRole('button', { name: 'Create stream' }).click();
  await stream.waitFor();
  expect(await streams()).toMatchObject([{ name: 'crypto only', tags: ['crypto'] }]);
  await expectText(page.locator('.quotas'), '1 of 200');

  await edit();
  await fill('Tags', '');
  await fill('Traders', '0x12');
  await save();
  await expectText(stream.getByRole('alert'), 'must be a wallet address');
  await fill('Traders', '');
  await fill('Name', 'all of it');
  await save();
  await expectText(stream.locator('h2'), 'all of it');
  expect(await streams()).toMatchObject([{ name: 'all of it', tags: [] }]);
  await expectText(stream.locator('.tags'), 'Every match');

  const { markets } = await stage.get<Markets>('/v2/markets?limit=1');
  await edit();
  await fill('Markets', String(markets[0]?.market.id));
  await save();
  await expectText(stream.locator('.tags'), 'markets');
  expect(await stream.locator('.tags').innerText()).not.toContain('Every match');
  await edit();
  await fill('Markets', '');
  await save();
  await expectText(stream.locator('.tags'), 'Every match');

  // Only the name is sent, so changes by another program while the form is open are kept.
  await edit();
  const [{ id } = { id: '' }] = await streams();
  const changed = await fetch(`${stage.url}/streams/${id}/subscription`, {
    method: 'PUT',
    headers: { 'X-Service-Key': stage.key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ tags: ['sports'] }),
  });
  expect(changed.status).toBe(200);
  await fill('Name', 'sports only');
  await save();
  await expectText(stream.locator('h2'), 'sports only');
  expect(await streams()).toMatchObject([{ name: 'sports only', tags: ['sports'] }]);

  await page.getByRole('button', { name: 'Watch' }).click();
  await page.locator('tr[data-cursor]').nth(5).waitFor();
  await expectText(page.locator('h1'), 'sports only');
  await page.getByRole('button', { name: 'Edit' }).click();
  await page.getByLabel('Tags').fill('crypto');
  await save();
  await expect.poll(streams).toMatchObject([{ tags: ['crypto'], active_sessions: 1 }]);
  expect(await page.locator('[data-stream]').getAttribute('data-stream')).toBe('live');
  await page.getByRole('button', { name: 'Back to the list' }).click();
  await stream.getByRole('button', { name: 'Disable' }).click();
  await expectText(stream.locator('.badge'), 'Disabled');
  await stream.getByRole('button', { name: 'Delete' }).click();
  await page.getByRole('button', { name: 'Delete permanently' }).click();
  await stream.waitFor({ state: 'detached' });
  expect(await streams()).toEqual([]);

  // A service that hangs is reported, although the page sends requests more often than that.
  await page.route(`${stage.url}/streams`, () => undefined);
  await expectText(page.getByRole('alert'), 'has not answered within 8 s');
  await page.unroute(`${stage.url}/streams`);
  await page.getByRole('alert').waitFor({ state: 'detached' });
});

test('the account: usage as the API has it; a key is created, shown once, used and revoked', async () => {
  const watched = await stage.at('/account');
  const { page } = watched;
  await agree(async () => {
    const { requests, sessions } = watched.answer<Telemetry>('/v2/user/telemetry');
    const tiles = await page.locator('.tiles dd').allInnerTexts();
    expect(tiles[1]).toBe(count(requests.today));
    expect(tiles[3]).toBe(`${sessions.open} of ${sessions.quota}`);
  });
  await page.getByLabel('Label').fill('from the page');
  await page.getByLabel('Expires').selectOption('in 7 days');
  await page.getByRole('button', { name: 'Create a key' }).click();
  const made = await page.locator('.new-key code').innerText();
  const statusOf = async () => {
    const answer = await fetch(`${stage.url}/v2/user/me`, { headers: { 'X-Service-Key': made } });
    return answer.status;
  };
  await expect.poll(statusOf).toBe(200);
  const row = page.locator('tr', { hasText: 'from the page' });
  await expectText(row, 'Valid');
  expect(await faults(page)).toEqual([]);
  await row.getByRole('button', { name: 'Revoke' }).click();
  await row.getByRole('button', { name: 'Revoke permanently' }).click();
  await expectText(row, 'Revoked');
  await expect.poll(statusOf).toBe(401);
});

test('the status strip says one age, with the others behind it', async () => {
  const watched = await stage.at('/manage/streams');
  const { page } = watched;
  const strip = page.locator('.strip');
  await expectText(strip, '● Live');
  await expect.poll(() => strip.innerText()).toMatch(/Figures \d+ (s|min) old/);
  expect(await strip.innerText()).not.toContain('30D');
  await strip.locator('summary').click();
  await agree(async () => {
    const { chain, boards } = watched.answer<Status>('/v2/status');
    const shown = await strip.innerText();
    for (const { time_frame } of boards) expect(shown).toContain(time_frame);
    expect(shown).toContain(count(chain.final_block));
    expect(shown).toMatch(/Order feed\s.*Analytics\s/s);
  });
  // Too many requests by the page are not a fault of the service.
  await page.route('**/v2/status', (route) =>
    route.fulfill({ status: 429, json: { message: 'too many requests' } }),
  );
  // The page processes a response before it sends the next request.
  for (let n = 0; n < 2; n += 1) await page.waitForResponse('**/v2/status');
  expect(await strip.innerText()).toContain('● Live');
});

test('a service that cannot be reached is said once, and views load again when it is back', async () => {
  const { page } = await stage.at('/');
  await page.locator('.home .market-table tbody tr').first().waitFor();
  await page.route(API, (route) => route.abort());
  await page.reload();
  await expectText(page.locator('.trouble'), 'cannot be reached');
  expect(await page.getByRole('alert').count()).toBe(0);
  await expectText(page.locator('.strip'), 'Not live');
  await page.unroute(API);
  await page.locator('.home .market-table tbody tr').first().waitFor();
  await expect.poll(() => page.locator('.trouble').count()).toBe(0);
});

test('a service that is behind says how far, in place of empty lists and huge ages', async () => {
  const { page } = await stage.at('/llms.txt', { key: '' });
  let age = 400_068;
  await page.route('**/v2/status', async (route) => {
    const response = await route.fetch();
    const status = (await response.json()) as Status;
    // Nearer to the present at each poll.
    age -= 60;
    const projection = { ...status.projection, age_seconds: age };
    await route.fulfill({ response, json: { ...status, projection } });
  });
  await page.route('**/v2/markets?*', (route) =>
    route.fulfill({ json: { as_of: '', markets: [], next_cursor: '' } }),
  );
  await page.goto(`${stage.url}/#key=${stage.key}`);
  await expectText(page.locator('.trouble'), 'Catching up: 5 days behind.');
  await expectText(page.locator('.home .empty').first(), '–');
  const shown = await page.locator('body').innerText();
  expect(shown).not.toMatch(/No open markets|\d{6} s/);
  await page.unroute('**/v2/status');
  await expectText(page.locator('.home .empty').first(), 'No open markets.');
  expect(await page.locator('.trouble').count()).toBe(0);
});

test('the API reference, light and dark: every operation, from this host alone, tried with the key of the visitor', async () => {
  const { page, errors } = await stage.at('/docs', { key: '', colorScheme: 'dark' });
  // The viewer renders an operation only when it comes into view.
  const name = 'Leaderboard (v1)';
  await page.getByText(name).first().click();
  await page.getByRole('heading', { name }).waitFor();
  for (const colorScheme of ['dark', 'light'] as const) {
    await page.emulateMedia({ colorScheme });
    await screenshot(page, `docs-${colorScheme}`);
  }
  expect(errors).toEqual([]);
  for (const address of ['/', '/docs/quick-start#guides', '/openapi.json']) {
    await page.locator(`header a[href="${address}"]`).first().waitFor();
  }
  // Samples and servers show this host.
  await page.getByText(`'${stage.url}/v1/analytics/leaderboard'`).first().waitFor();
  await page.getByText(stage.url, { exact: true }).first().waitFor();
  expect(await page.getByText('api.example.com').count()).toBe(0);
  const path = '/v1/analytics/leaderboard';
  // The viewer shows its own sample in place of the key.
  await page.getByPlaceholder('QUxM').fill(stage.key);
  await page.getByRole('button', { name: `Test Request (get ${path})` }).click();
  const answer = page.waitForResponse(stage.url + path);
  await page.getByRole('button', { name: 'Send' }).first().click();
  expect((await answer).status()).toBe(200);
  await expectText(page.getByRole('dialog'), '200 OK');
});

test('a guide can be read, light and dark, and on a phone', async () => {
  for (const options of [{}, PHONE]) {
    const { page, errors } = await stage.at('/docs/operations.md', { key: '', ...options });
    expect(page.url()).toBe(`${stage.url}/docs/operations`);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await faults(page)).toEqual([]);
    }
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
    await screenshot(page, `guide${page.viewportSize()?.width}`);
    await page.locator('#guides').getByRole('link', { name: 'Event streams' }).click();
    await expectText(page.locator('h1'), 'Event streams');
    await page.getByRole('link', { name: 'API guide' }).first().click();
    await expectText(page.locator('h1'), 'API guide');
    expect(errors).toEqual([]);
    await page.close();
  }
});

test('a trader and a market also have the addresses of the API', async () => {
  const address = await stage.leader();
  const { page } = await stage.at(`/traders/${address}`);
  await page.locator('.full-address').waitFor();
  const { markets } = await stage.get<Markets>('/v2/markets?limit=1');
  await page.goto(`${stage.url}/markets/${markets[0]?.market.id}`);
  await expectText(page.locator('h1'), markets[0]?.market.question ?? '');
});

test('an unknown address returns 404, with a message in the frame of the page that names the nearest', async () => {
  const { page } = await stage.at('/');
  const answer = await page.goto(`${stage.url}/no/such/view`);
  expect(answer?.status()).toBe(404);
  await expectText(page.locator('h1'), 'Page not found');
  await page.goto(`${stage.url}/leaderbord`);
  await page.getByRole('link', { name: '/leaderboard', exact: true }).click();
  await expectText(page.locator('h1'), 'Leaderboard');
  await page.getByRole('link', { name: 'Markets', exact: true }).click();
  await page.locator('.market-table tbody tr').first().waitFor();
  const program = await fetch(`${stage.url}/no/such/view`);
  expect([program.status, program.headers.get('content-type')]).toEqual([
    404,
    'application/problem+json; charset=utf-8',
  ]);
});
