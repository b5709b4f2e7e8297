// A newcomer's first steps: `npm start`, the leaderboard, the live feed and its resumption, the page, and Ctrl-C.
import { readFileSync } from 'node:fs';
import { get, type IncomingMessage, type RequestOptions } from 'node:http';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CHROMIUM, launch, MISSING, open } from '../page/browser.ts';
import { FeedClient } from '../support/feed-client.ts';
import {
  rpc,
  type Service,
  start,
  startService,
  temporaryDirectory,
  until,
} from '../support/service.ts';

const ARGS = ['--history-days', '1', '--demo-rate', '10'];

type Leaderboard = { traders: { profile: { address: string; name: string } }[] };

if (CHROMIUM === undefined) console.warn(MISSING);

const directory = temporaryDirectory();
let service: Service;

beforeAll(async () => {
  service = await startService(`${directory.path}/data`, { args: ARGS });
});

afterAll(async () => {
  await service?.up.stop();
  directory.remove();
});

test('the leaderboard has traders, and each has a profile', async () => {
  const { traders } = await service.get<Leaderboard>('/v1/analytics/leaderboard?time_frame=7D');
  expect(traders.length).toBeGreaterThan(0);
  const address = String(traders[0]?.profile.address);
  const { profile } = await service.get<Leaderboard['traders'][0]>(`/v2/traders/${address}`);
  // v2 has checksums in its addresses.
  expect(profile.address.toLowerCase()).toBe(address);
  const named = traders.find((one) => one.profile.name !== '')?.profile.name ?? '';
  const found = await service.get<Leaderboard['traders'][0]>(`/v2/traders/@${named}`);
  expect(found.profile.name).toBe(named);
});

test('every endpoint needs a key, which the command line finds in the data directory', async () => {
  const { url } = service.ready;
  for (const path of ['/v1/analytics/leaderboard', '/v2/markets', '/v1/stream/orders']) {
    const response = await fetch(url + path);
    expect(response.status, path).toBe(401);
    expect(await response.text()).toContain('npm start prints a key');
  }
  const env = { FILLSTREAM_URL: url, DATA_DIRECTORY: `${directory.path}/data`, FILLSTREAM_KEY: '' };
  const cli = start('apps/cli/main.ts', ['top'], env);
  expect(await cli.exit, cli.errors()).toBe(0);
});

test('the feed shows a match before its block, and resumes after any event', async () => {
  const { url, key, rpc_url } = service.ready;
  const client = new FeedClient(url, key);
  let looked = 0;
  await until(async () => {
    for (const { txHash } of client.events.slice(looked)) {
      looked += 1;
      const receipt = await rpc<unknown>(rpc_url, 'eth_getTransactionReceipt', [txHash]);
      if (receipt === null) return true;
    }
    return undefined;
  });
  await until(async () => (client.events.length >= 5 ? true : undefined));
  await client.stop();
  const ids = client.events.map(({ id }) => id);
  const resumed = new FeedClient(url, key, '', ids[0]);
  await until(async () => (resumed.events.length >= ids.length - 1 ? true : undefined));
  await resumed.stop();
  expect(resumed.events.slice(0, ids.length - 1).map(({ id }) => id)).toEqual(ids.slice(1));
  expect(resumed.gaps).toBe(0);
});

test.skipIf(CHROMIUM === undefined)(
  'the page needs no key on this machine, ranks traders, and shows the live tape',
  async () => {
    const { url } = service.ready;
    const browser = await launch();
    onTestFinished(() => browser.close());
    const tab = await open(browser, url, { path: '/leaderboard?time_frame=7D' });
    await tab.page.locator('tbody tr').first().waitFor();
    expect(tab.page.url()).toBe(`${url}/leaderboard?time_frame=7D`);
    await tab.page.getByRole('link', { name: 'Tape' }).click();
    await tab.page.locator('tr[data-cursor]').first().waitFor();
    expect([tab.errors, tab.foreign]).toEqual([[], []]);
  },
);

test.each([
  ['another host name', { Host: 'attacker.example' }],
  ['another site', { 'Sec-Fetch-Site': 'cross-site' }],
  ['another origin', { Origin: 'http://127.0.0.1:9' }],
  ['a proxy', { 'X-Forwarded-For': '203.0.113.7' }],
])('the page has no key for a request of %s', async (_, headers) => {
  const { hostname, port } = new URL(service.ready.url);
  const keyOf = async (given: Record<string, string>) => {
    const response = await rawGet({ hostname, port, headers: { Accept: 'text/html', ...given } });
    const [, key = ''] = /name="page-key" content="([^"]*)"/.exec(response.text) ?? [];
    return { key, cache: response.cache };
  };
  const own = await keyOf({});
  expect(own).toEqual({ key: expect.stringMatching(/^fs_pro_\w{44}$/), cache: 'no-store' });
  const answer = await fetch(`${service.ready.url}/v2/user/me`, {
    headers: { 'X-Service-Key': own.key },
  });
  expect(answer.status).toBe(200);
  expect(await keyOf(headers)).toEqual({ key: '', cache: 'no-cache' });
});

/** fetch cannot set these headers. */
async function rawGet(options: RequestOptions) {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  get(options, resolve).on('error', reject);
  const response = await promise;
  return { text: await text(response), cache: response.headers['cache-control'] };
}

test('Ctrl-C stops every process', async () => {
  const pids = service.up.lines.filter(({ event }) => event === 'starting').map(({ pid }) => pid);
  service.up.kill('SIGINT');
  expect(await service.up.exit).toBe(0);
  const commandOf = (pid: unknown) => {
    try {
      return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
    } catch {
      return '';
    }
  };
  await expect.poll(() => pids.map(commandOf).filter((command) => command !== '')).toEqual([]);
});
