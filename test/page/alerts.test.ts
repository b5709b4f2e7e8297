/** Alerts: destinations, alerts in two clicks, what they send, and what the page shows of it. */
import { expect, test } from 'vitest';
import type {
  AlertEvent,
  Alerts,
  Destinations,
  LeaderboardV1,
  Markets,
} from '../../apps/client/index.ts';
import { startReceiver } from '../support/alerts-harness.ts';
import { newSubscription, signedClaims, startPushService } from '../support/push-service.ts';
import { faults, PHONE, screenshot } from './browser.ts';
import { expectText, texts } from './seen.ts';
import { useStage } from './stage.ts';

const stage = useStage();

const alerts = async () => (await stage.get<Alerts>('/v2/alerts')).data;
const destinations = async () => (await stage.get<Destinations>('/v2/destinations')).data;

test('a webhook gets the test and the matches of an alert that a trader’s page created in two clicks', async () => {
  let status = 200;
  using receiver = await startReceiver((response) => {
    response.statusCode = status;
    response.end('noted');
  });
  const { page } = await stage.at('/manage/alerts');
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  await expectText(page.locator('main'), 'No alerts yet.');
  await expectText(page.locator('main'), 'No destinations yet.');
  await expectText(page.locator('main'), 'No events yet.');

  await page.getByLabel('Name', { exact: true }).fill('my bot');
  await page.getByLabel('URL').fill('http://10.0.0.1/refused');
  await button('Add destination').click();
  await page.getByRole('alert').waitFor();
  await page.getByLabel('URL').fill(`${receiver.url}/fillstream`);
  await button('Add destination').click();
  await expectText(page.locator('.new-key'), 'not shown again');
  expect(await page.locator('.new-key code').innerText()).toMatch(/^whsec_/);
  const destination = page.locator('.stream', { hasText: `${receiver.url}/fillstream` });
  await expectText(destination, 'Working');
  await expectText(destination, '0 waiting');

  const { traders } = await stage.get<LeaderboardV1>(
    '/v2/analytics/leaderboard?sort_by=volume&time_frame=1H&limit=1',
  );
  const address = traders[0]?.profile.address.toLowerCase() ?? '';
  await page.goto(`${stage.url}/trader/${address}`);
  await button('Alert me').click();
  await page.getByLabel('my bot').waitFor();
  expect(await page.getByLabel('my bot').isChecked()).toBe(true);
  expect(await faults(page)).toEqual([]);
  await screenshot(page, 'alert-me');
  await button('Create').click();
  await page.getByRole('dialog').getByRole('link', { name: 'Alerts' }).click();
  const [{ id } = { id: '' }] = await destinations();
  expect(await alerts()).toMatchObject([
    { rule: { type: 'position', traders: [address] }, destinations: [id], enabled: true },
  ]);

  // The trader trades all the time.
  const events = page.locator('.events tbody');
  await expect
    .poll(async () => String(await events.allInnerTexts()))
    .toMatch(/opened|added to|reduced|closed/);
  await expect.poll(() => receiver.events().map(({ type }) => type)).toContain('position');
  const alert = page.locator('.stream', { hasText: 'opens, adds to' });
  await alert.getByRole('button', { name: 'Pause' }).click();
  await expectText(alert.locator('.badge'), 'Paused');
  expect(await alerts()).toMatchObject([{ enabled: false }]);

  const tests = () => receiver.events().filter(({ type }) => type === 'test').length;
  await alert.getByRole('button', { name: 'Test' }).click();
  await expectText(alert, 'Test sent');
  await expectText(events, 'This is a test of the alert');
  await expect.poll(tests).toBe(1);
  await destination.getByRole('button', { name: 'Deliveries' }).click();
  const delivery = destination.locator('tr', { hasText: 'This is a test' }).first();
  await expectText(delivery, 'Delivered 200');
  await expectText(delivery, 'noted');
  await delivery.getByRole('button', { name: 'Deliver again' }).click();
  await expect.poll(tests).toBe(2);

  status = 500;
  await alert.getByRole('button', { name: 'Test' }).click();
  await expectText(destination, 'Failing since');
  await expectText(destination, 'Failed 500');
  await destination.getByRole('button', { name: 'Rotate secret' }).click();
  await expectText(destination, 'not shown again');
  await destination.getByRole('button', { name: 'Pause' }).click();
  await expectText(destination, 'Paused');
  for (const [device, size] of [
    ['desktop', page.viewportSize()],
    ['phone', { width: 360, height: 780 }],
  ] as const) {
    await page.setViewportSize(size ?? PHONE.viewport);
    for (const colorScheme of ['dark', 'light'] as const) {
      await page.emulateMedia({ colorScheme });
      expect(await faults(page), colorScheme).toEqual([]);
      await screenshot(page, `alerts-full-${device}-${colorScheme}`);
    }
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true);
  }
  await destination.getByRole('button', { name: 'Enable' }).click();
  await destination.getByRole('button', { name: 'Pause' }).waitFor();

  await alert.getByLabel('my bot').uncheck();
  await expect.poll(alerts).toMatchObject([{ destinations: [] }]);
  for (const one of [alert, destination]) {
    await one.getByRole('button', { name: 'Delete' }).click();
    await one.getByRole('button', { name: 'Delete permanently' }).click();
    await one.waitFor({ state: 'detached' });
  }
  expect([await alerts(), await destinations()]).toEqual([[], []]);
});

test('alerts from a form, a market and the tape have the rules that their sentences say', async () => {
  const key = await stage.issue('individual');
  const { page } = await stage.at('/manage/alerts', { key });
  const button = (name: string) => page.getByRole('button', { name, exact: true });
  await page.getByLabel('Name of the alert').fill('crypto');
  await button('Create alert').click();
  await expectText(page.getByRole('alert'), 'must restrict something');
  await page.getByLabel('Tags').fill('crypto, economy');
  await page.getByLabel('Min size').fill('2500');
  await button('Create alert').click();
  const sentences = page.locator('.rule');
  await expectText(
    sentences,
    'A match in markets tagged crypto or economy, of 2,500 USDC or more.',
  );

  const { markets } = await stage.get<Markets>('/v2/markets?limit=1');
  const [{ market } = { market: { condition_id: '', question: '' } }] = markets;
  await page.goto(`${stage.url}/market/${market.condition_id}`);
  const dialog = page.getByRole('dialog');
  for (const choice of ['Price moves', 'Large trades']) {
    await button('Alert me').click();
    await dialog.getByLabel(choice).check();
    await expectText(dialog, 'Events will be in the list');
    await button('Create').click();
    await expectText(dialog, 'Created.');
    await dialog.getByRole('button', { name: 'Close' }).click();
  }

  await page.goto(`${stage.url}/tape`);
  expect(await button('Alert me').isDisabled()).toBe(true);
  await button('Whales: 1,000 or more').click();
  await button('Alert me').click();
  await expectText(dialog, 'A match, of 1,000 USDC or more.');
  await dialog.getByLabel('Name').fill('whales');
  await button('Create').click();
  await dialog.getByRole('link', { name: 'Alerts' }).click();
  await expectText(sentences, `The price of ${market.question} moves by 10¢ within 10 minutes.`);
  await expectText(sentences, `A match in ${market.question}, of 1,000 USDC or more.`);
  await expectText(page.locator('h2'), 'whales');
});

test('an event that was retracted is struck through in its own row; a disabled destination says why', async () => {
  const key = await stage.issue('individual');
  const { page } = await stage.at('/llms.txt', { key: '' });
  const event = (id: string, state: AlertEvent['state'], refers_to: string | null) => ({
    ...{ id, type: 'match', state, refers_to, timestamp: new Date().toISOString() },
    ...{ alert: { id: 'a', name: 'whales' }, text: `match ${id}`, data: {} },
  });
  const events = [event('1', 'pending', null), event('2', 'pending', null)];
  await page.route('**/v2/alerts/events?*', (route) =>
    route.fulfill({ json: { events: events.splice(0), next_cursor: '7' } }),
  );
  const gone = {
    ...{ id: 'd', name: 'old bot', kind: 'slack', target: 'https://hooks.slack.com/…' },
    ...{ enabled: false, disabled_because: 'gone', failing_since: null, waiting: 3 },
  };
  await page.route('**/v2/destinations', (route) =>
    route.fulfill({ json: { data: [gone], total_count: 1 } }),
  );
  await page.goto(`${stage.url}/manage/alerts#key=${key}`);
  const rows = page.locator('.events tbody tr');
  await expect.poll(() => rows.count()).toBe(2);
  // The next page has the sequel of an event that is shown.
  events.push(event('3', 'retracted', '1'));
  await expectText(page.locator('.events tr.void'), 'Retracted');
  expect((await texts(rows)).map((cells) => cells.slice(2))).toEqual([
    ['match 2', 'Pending'],
    ['match 1', 'Retracted'],
  ]);
  const isStruck = `getComputedStyle(document.querySelector('.events tr.void .wrap')).textDecorationLine`;
  expect(await page.evaluate(isStruck)).toBe('line-through');
  const destination = page.locator('.stream', { hasText: 'old bot' });
  for (const text of ['Disabled', 'It no longer exists', '3 waiting']) {
    await expectText(destination, text);
  }
  await destination.getByRole('button', { name: 'Enable' }).waitFor();
  expect(await destination.getByRole('button', { name: 'Rotate secret' }).count()).toBe(0);
  expect(await faults(page)).toEqual([]);
});

test('without a key, alerts ask for one', async () => {
  const { page } = await stage.at('/manage/alerts', { key: '' });
  await expectText(page.locator('.prompt'), 'Alerts belong to an account');
  await page.goto(`${stage.url}/tape?min_usdc=100`);
  await page.getByRole('button', { name: 'Alert me' }).click();
  await page.getByRole('dialog').getByRole('button', { name: 'Sign in' }).click();
  await page.getByLabel('Key', { exact: true }).fill(stage.key);
  await page.getByRole('button', { name: 'Open' }).click();
  await page.getByRole('button', { name: 'Alert me' }).waitFor();
});

/** In place of the desktop's notifications, which Chromium has only with a window. */
const NOTIFICATIONS = `{
  const shown = new Map();
  registration.showNotification = async (title, options) => {
    shown.set(options.tag, { title, ...options });
  };
  registration.getNotifications = async ({ tag } = {}) =>
    [...shown.values()].filter((one) => tag === undefined || one.tag === tag);
}`;

/** What a click on a notification with this path does. */
const clicked = (path: string) => `new Promise((resolve) => {
  const done = [];
  clients.openWindow = async (path) => void done.push('opens ' + path);
  WindowClient.prototype.focus = async function () {
    done.push('focuses ' + new URL(this.url).pathname);
  };
  const notification = { data: { path: '${path}' }, close: () => void done.push('closes') };
  const waitUntil = (end) => void end.then(() => resolve(done));
  dispatchEvent(Object.assign(new Event('notificationclick'), { notification, waitUntil }));
})`;

test('the service worker shows an event as a notification, and its retraction in the place of it', async () => {
  const { page } = await stage.at('/manage/alerts');
  const [worker] = await Promise.all([
    page.context().waitForEvent('serviceworker'),
    page.evaluate(`navigator.serviceWorker.register('/push-worker.js').then(() => undefined)`),
  ]);
  await worker.evaluate(NOTIFICATIONS);
  const devtools = await page.context().newCDPSession(page);
  const registered = Promise.withResolvers<string>();
  devtools.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
    const [one] = registrations;
    if (one !== undefined) registered.resolve(one.registrationId);
  });
  await devtools.send('ServiceWorker.enable');
  const registrationId = await registered.promise;
  const push = (message: object) =>
    devtools.send('ServiceWorker.deliverPushMessage', {
      ...{ origin: stage.url, registrationId },
      data: JSON.stringify({ title: 'whales', path: '/manage/alerts', ...message }),
    });
  const notifications = () =>
    worker.evaluate(
      `registration.getNotifications().then((all) => all.map(({ body, tag, renotify }) => [tag, body, renotify]))`,
    );
  const event = { id: 'evt_1', refers_to: null, state: 'pending', text: 'a bought Yes' };
  await push(event);
  await expect.poll(notifications).toEqual([['evt_1', 'Pending: a bought Yes', false]]);
  await push({ ...event, id: 'evt_2', refers_to: 'evt_1', state: 'retracted' });
  await expect.poll(notifications).toEqual([['evt_1', 'Did not happen: a bought Yes', true]]);
  // The event again, which must not replace its retraction.
  await push(event);
  await expect.poll(notifications).toEqual([['evt_1', 'Did not happen: a bought Yes', false]]);
  await push({ ...event, id: 'evt_3', state: 'final', text: 'b sold No' });
  await expect.poll(notifications).toEqual([
    ['evt_1', 'Did not happen: a bought Yes', false],
    ['evt_3', 'b sold No', false],
  ]);
  expect(await worker.evaluate(clicked('/tape'))).toEqual(['closes', 'opens /tape']);
  expect(await worker.evaluate(clicked('/manage/alerts'))).toEqual([
    'closes',
    'focuses /manage/alerts',
  ]);
});

test('a browser that subscribes becomes a destination, and unsubscribes when that is deleted', async () => {
  using pushService = await startPushService();
  const subscription = newSubscription(`${pushService.url}/send/of-a-browser`);
  const key = await stage.issue('individual');
  const { page } = await stage.at('/manage/alerts', { key });
  await page.getByLabel('Kind').selectOption('This browser');
  const form = page.locator('form', { has: page.getByLabel('Kind') });
  // Chromium without a window always says so.
  await expectText(form, 'Notifications of this page are blocked.');
  expect(await form.getByRole('button').count()).toBe(0);

  await page.context().grantPermissions(['notifications'], { origin: stage.url });
  // In place of the push service of the browser's vendor, which the test cannot reach.
  await page.addInitScript(`{
    Object.defineProperty(Notification, 'permission', { value: 'granted' });
    let subscription = null;
    PushManager.prototype.getSubscription = async () => subscription;
    PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
      if (!window.isReachable) throw new DOMException('push service error', 'AbortError');
      window.subscribedWith = applicationServerKey;
      subscription = {
        options: {},
        toJSON: () => (${JSON.stringify({ expirationTime: null, ...subscription.target })}),
        unsubscribe: async () => { subscription = null; },
      };
      return subscription;
    };
  }`);
  await page.reload();
  await page.getByLabel('Kind').selectOption('This browser');
  await page.getByLabel('Name', { exact: true }).fill('my laptop');
  const add = form.getByRole('button', { name: 'Add this browser' });
  await add.click();
  await expectText(form.getByRole('alert'), 'The browser did not subscribe: push service error');
  expect(await faults(page)).toEqual([]);
  await screenshot(page, 'alerts-this-browser');
  await page.evaluate('window.isReachable = true');
  await add.click();
  const heading = page.getByRole('heading', { name: 'my laptop' });
  const destination = page.locator('.stream', { has: heading });
  await expectText(destination, `Browser: ${pushService.url}`);
  expect(await form.getByRole('alert').count()).toBe(0);

  await page.getByLabel('Name of the alert').fill('crypto');
  await page.getByLabel('Tags').fill('crypto');
  await page.getByRole('button', { name: 'Create alert' }).click();
  const alert = page.locator('.stream', { hasText: 'tagged crypto' });
  await alert.getByRole('button', { name: 'Test' }).click();
  await expect.poll(() => pushService.received.length).toBeGreaterThan(0);
  const publicKey = String(await page.evaluate('window.subscribedWith'));
  for (const { body, headers } of pushService.received) {
    expect(signedClaims(headers.authorization, publicKey)?.aud).toBe(pushService.url);
    const message = JSON.parse(subscription.read(body));
    expect(message).toMatchObject({ title: 'crypto', path: '/manage/alerts' });
  }

  await destination.getByRole('button', { name: 'Delete' }).click();
  await destination.getByRole('button', { name: 'Delete permanently' }).click();
  await destination.waitFor({ state: 'detached' });
  const current = `navigator.serviceWorker.ready.then(({ pushManager }) => pushManager.getSubscription())`;
  await expect.poll(() => page.evaluate(current)).toBe(null);
});
