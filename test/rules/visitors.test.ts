/** Requests without a key if the operator allows them: their permissions and limits. */
import { execFile } from 'node:child_process';
import { request } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ANALYTICS_ENDPOINTS } from '../../api/analytics/endpoints.ts';
import { generateKey } from '../../api/auth/keys.ts';
import { ACCOUNT_ENDPOINTS } from '../../api/service/account.ts';
import { STATUS_ENDPOINTS } from '../../api/service/status.ts';
import { STREAMS_ENDPOINTS } from '../../api/streams/endpoints.ts';
import {
  ADDRESS,
  get,
  issueKey,
  type Stores,
  startApi,
  startStores,
} from '../support/api-harness.ts';

const run = promisify(execFile);

/** After this time, revoked keys have lost their streams. */
const REVOKED_MS = 1_100;

type Described = { readonly method?: string; readonly path: string };

let stores: Stores;
let clickhouse: Stores['clickhouse'];
let nats: Stores['nats'];
let api: Awaited<ReturnType<typeof startApi>>;
let addresses = 0;

beforeAll(async () => {
  stores = await startStores();
  ({ clickhouse, nats } = stores);
  const options = { clickhouseUrl: clickhouse.url, nats };
  api = await startApi({ ...options, publicTier: 'demo', trustedProxies: ['127.0.0.1'] });
});

afterAll(async () => {
  await api?.stop();
  await stores?.stop();
});

/** A request from a new address, or from `ip`. */
function ask(path: string, { method = 'GET', ip = freshAddress(), key = '' } = {}) {
  const headers = {
    'X-Forwarded-For': ip,
    ...(key === '' ? {} : { 'X-Service-Key': key }),
    ...(['GET', 'HEAD', 'DELETE'].includes(method) ? {} : { 'Content-Type': 'application/json' }),
  };
  const body = 'Content-Type' in headers ? { body: '{}' } : {};
  return get(api.url + path, undefined, { method, headers, ...body });
}

function freshAddress(): string {
  addresses += 1;
  return `10.1.${Math.floor(addresses / 250)}.${(addresses % 250) + 1}`;
}

function pathOf({ path }: Described): string {
  return path.replace(':address', ADDRESS).replace(':id', '1');
}

const READ = [ANALYTICS_ENDPOINTS, STATUS_ENDPOINTS].flat() as Described[];
const OWN = [ACCOUNT_ENDPOINTS, STREAMS_ENDPOINTS].flat() as Described[];

describe('without a key', () => {
  test.each(READ.map((one) => [(one.method ?? 'get').toUpperCase(), pathOf(one)]))(
    '%s %s is answered',
    async (method = '', path = '') => {
      const { status } = await ask(path, { method });
      // 403: the demo tier does not include it; 400 and 404: there is no such entry.
      expect([200, 400, 403, 404]).toContain(status);
    },
  );

  test.each(
    [...OWN, { method: 'get', path: '/streams/1' }, { method: 'post', path: '/mcp' }].map(
      ({ method = 'get', path }) => [method.toUpperCase(), pathOf({ path })],
    ),
  )('%s %s needs one', async (method = '', path = '') => {
    expect((await ask(path, { method })).status).toBe(401);
  });

  test('a key that is wrong or revoked is refused, not ignored', async () => {
    const revoked = await issueKey(nats.bucket, 'pro', { revoked_at: '2026-01-01T00:00:00Z' });
    for (const key of ['x', generateKey('pro'), revoked]) {
      expect((await ask('/v2/status', { key })).status).toBe(401);
    }
  });

  test('fillstream reads public data, and explains how to provide a key for the rest', async () => {
    const env = { ...process.env, FILLSTREAM_URL: api.url, FILLSTREAM_KEY: '' };
    const fillstream = (...args: string[]) =>
      run(process.execPath, ['apps/cli/fillstream.mjs', ...args], { env });
    await expect(fillstream('top')).resolves.toMatchObject({ stderr: '' });
    await expect(fillstream('keys')).rejects.toMatchObject({
      stderr: expect.stringMatching(/401 unauthorized.*set FILLSTREAM_KEY or use --key-file FILE/),
    });
  });

  test('a response is that of the demo tier', async () => {
    const { status, body } = await ask('/v1/analytics/leaderboard?limit=21');
    expect([status, body.error]).toEqual([403, 'tier_required']);
  });
});

describe('limits of an address', () => {
  test('10 requests a second, and its neighbours in IPv6 share them', async () => {
    const statuses = async (ipOf: (n: number) => string) => {
      const all = Array.from({ length: 18 }, (_, n) => ask('/v2/status', { ip: ipOf(n) }));
      return (await Promise.all(all)).map(({ status }) => status);
    };
    // On a slow machine, 18 requests may take more than a second.
    const refused = async (ipOf: (n: number) => string) => {
      while (!(await statuses(ipOf)).includes(429));
    };
    const one = freshAddress();
    await refused(() => one);
    await refused((n) => `2001:db8:0:1:${n}::1`);
    expect(await statuses((n) => `2001:db8:1:${n}::1`)).not.toContain(429);
    const { headers } = await ask('/v2/status');
    expect(headers.get('ratelimit-policy')).toBe('"public";q=10;w=1');
  });

  test('two event streams of the order feed', async () => {
    const ip = freshAddress();
    const open = () => fetch(`${api.url}/v1/stream/orders`, { headers: { 'X-Forwarded-For': ip } });
    const first = [await open(), await open()];
    expect(first.map(({ status }) => status)).toEqual([200, 200]);
    // Nothing ends them, because there is no key that could be revoked.
    await delay(REVOKED_MS);
    const third = await open();
    expect(third.status).toBe(403);
    expect(await third.json()).toMatchObject({
      quota: { name: 'max_sessions', limit: 2, used: 2 },
    });
    expect((await ask('/v1/stream/orders', { method: 'HEAD' })).status).toBe(200);
    await first[0]?.body?.cancel();
    await expect.poll(async () => (await open()).status).toBe(200);
    await first[1]?.body?.cancel();
  });
});

describe('from loopback', () => {
  /** Without a proxy; fetch cannot set these headers. */
  function status(headers: Readonly<Record<string, string>>): Promise<number | undefined> {
    return new Promise((resolve, reject) => {
      const sent = request(`${api.url}/v2/status`, { headers }, (response) => {
        response.resume().once('end', () => resolve(response.statusCode));
      });
      sent.once('error', reject).end();
    });
  }

  test('the page of the service gets responses, pages of other sites and other names do not', async () => {
    expect(await status({})).toBe(200);
    expect(await status({ 'Sec-Fetch-Site': 'same-origin' })).toBe(200);
    expect(await status({ 'Sec-Fetch-Site': 'cross-site' })).toBe(401);
    expect(await status({ Origin: 'https://evil.example' })).toBe(401);
    expect(await status({ Host: 'evil.example' })).toBe(401);
  });
});

test('without PUBLIC_TIER a request without a key is refused', async () => {
  const closed = await startApi({ clickhouseUrl: clickhouse.url, nats });
  expect((await get(`${closed.url}/v2/status`, undefined)).status).toBe(401);
  const html = await (await fetch(closed.url)).text();
  expect(html).toContain('<meta name="public-tier" content="none">');
  expect(await (await fetch(api.url)).text()).toContain('<meta name="public-tier" content="demo">');
  await closed.stop();
});
