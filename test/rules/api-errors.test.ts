/**
 * Every error response over real HTTP: the guarantees for clients with a bad request or key.
 * Unavailable stores: api-unavailable.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { generateKey } from '../../api/auth/keys.ts';
import {
  ADDRESS,
  get,
  issueKey,
  ROUTES,
  type startApi,
  startStores,
} from '../support/api-harness.ts';
import { forFile } from '../support/for-file.ts';
import { until } from '../support/service.ts';

const stores = forFile(startStores);
let api: Awaited<ReturnType<typeof startApi>>;
let key: string;

beforeAll(async () => {
  api = await stores.serve();
  key = await issueKey(stores.nats.bucket, 'pro');
});

afterAll(async () => {
  await api?.stop();
});

describe('a problem', () => {
  test('has the members of RFC 9457 and those of existing clients, and nothing else', async () => {
    const { status, headers, body } = await get(`${api.url}/v1/traders/0x1?x=secret`, key);
    expect(status).toBe(400);
    expect(headers.get('content-type')).toMatch(/^application\/problem\+json/);
    expect(body).toEqual({
      type: 'urn:fillstream:problem:invalid_request',
      title: 'The request is not valid',
      status: 400,
      detail: 'address: got "0x1", expected 0x and 40 hexadecimal digits',
      instance: '/v1/traders/0x1',
      error: 'invalid_request',
      message: body.detail,
      request_id: headers.get('x-request-id'),
      issues: [{ path: 'address', message: 'got "0x1", expected 0x and 40 hexadecimal digits' }],
    });
  });

  test('keeps the request id of the client, or generates one', async () => {
    const own = await get(`${api.url}/nope`, key, { headers: { 'X-Request-Id': 'trace-7.a' } });
    expect([own.headers.get('x-request-id'), own.body.request_id]).toEqual([
      'trace-7.a',
      'trace-7.a',
    ]);
    const bad = await get(`${api.url}/nope`, key, { headers: { 'X-Request-Id': 'a b"c' } });
    expect(bad.body.request_id).toMatch(/^[0-9a-f-]{36}$/);
  });
});

describe('400 invalid_request', () => {
  // The OpenAPI document's rules for each parameter: api-openapi.test.ts.
  test.each([
    [`/v1/traders/${ADDRESS}/hourly_stats?from=never`, 'from'],
    [`/v1/traders/${ADDRESS}/markets/9223372036854775808/orders`, 'id'],
    ['/v1/markets/9223372036854775808', 'id'],
    [`/v1/traders/${ADDRESS}/hourly_stats?order=asc&cursor=4294967295`, 'cursor'],
    ['/v1/markets/1%27%20OR%201=1', 'id'],
  ])('rejects %s by %s', async (path, name) => {
    const { status, body } = await get(api.url + path, key);
    expect([status, body.error, body.issues[0].path]).toEqual([400, 'invalid_request', name]);
  });

  test.each([
    ['/v1/analytics/leaderboard', 'min_win_rate=2&max_win_rate=1', 'min_win_rate', 'max_win_rate'],
    ['/v2/analytics/leaderboard', 'min_roi=0.1&max_roi=1e-7', 'min_roi', 'max_roi'],
    [
      '/v1/analytics/leaderboard',
      'min_market_count=2&max_market_count=1',
      'min_market_count',
      'max_market_count',
    ],
    [`/v1/traders/${ADDRESS}/hourly_stats`, 'from=2&to=1', 'from', 'to'],
    [`/v2/traders/${ADDRESS}/hourly_stats`, 'from=2&to=1', 'from', 'to'],
    ['/v1/stream/orders', 'min_usdc=2&max_usdc=1', 'min_usdc', 'max_usdc'],
  ])('rejects a minimum above its maximum: %s?%s', async (path, query, min, max) => {
    const { status, body } = await get(`${api.url}${path}?${query}`, key);
    expect([status, body.error]).toEqual([400, 'invalid_request']);
    expect(body.issues).toEqual([{ path: min, message: `must not be above ${max}` }]);
    expect(body.detail).toBe(`${min}: must not be above ${max}`);
  });

  test('lists every bad parameter at once', async () => {
    const { body } = await get(`${api.url}/v1/analytics/leaderboard?limit=x&offset=y&tag=z`, key);
    expect(body.issues.map((issue: { path: string }) => issue.path)).toEqual([
      ...['limit', 'offset', 'tag'],
    ]);
  });

  test('rejects a malformed path', async () => {
    const { status, body } = await get(`${api.url}/v1/traders/%E0%A4%A`, key);
    expect([status, body.error]).toEqual([400, 'invalid_request']);
  });

  test.each([
    [`/v2/trader/${ADDRESS}`, `; did you mean /v2/traders/${ADDRESS}?`],
    [`/v1/traders/${ADDRESS}/positions`, `; did you mean /v2/traders/${ADDRESS}/positions?`],
    ['/v1/stream/order', '; did you mean /v1/stream/orders?'],
    ['/v2/trader', ''],
    ['/v3/stream/order', ''],
    ['/nothing', ''],
  ])('names the path that %s was probably meant to be', async (path, hint) => {
    const { status, body } = await get(api.url + path, key);
    expect([status, body.detail]).toEqual([404, `no such route${hint}`]);
  });

  test.each([
    ['/leaderboards', '/leaderboard'],
    ['/events/some-event', '/event/some-event'],
    ['/events/a%26b', '/event/a%26b'],
    ['/reference', '/docs'],
  ])('%s leads to %s, without a key', async (path, location) => {
    const response = await fetch(api.url + path, { redirect: 'manual' });
    expect([response.status, response.headers.get('location')]).toEqual([302, location]);
  });

  test.each(['colour', 't', 'sort', 'tagged', '_'])(
    'ignores the unknown parameter %s',
    async (name) => {
      expect((await get(`${api.url}/v1/analytics/leaderboard?${name}=1`, key)).status).toBe(200);
    },
  );

  test.each([
    ['timeframe', 'time_frame'],
    ['timeFrame', 'time_frame'],
    ['TAG', 'tag'],
    ['ofset', 'offset'],
    ['limits', 'limit'],
    ['sort-by', 'sort_by'],
  ])('names the parameter that %s was probably meant to be', async (name, meant) => {
    const { status, body } = await get(`${api.url}/v1/analytics/leaderboard?${name}=1`, key);
    expect([status, body.issues]).toEqual([
      400,
      [{ path: name, message: `is unknown; did you mean ${meant}?` }],
    ]);
  });
});

describe('401 unauthorized', () => {
  test('is the response of every route without a key', async () => {
    const own = await stores.serve({ trustedProxies: ['127.0.0.0/8'] });
    for (const [n, path] of ROUTES.entries()) {
      // Without a key, requests are counted by address, so each comes from a different one.
      const from = { headers: { 'X-Forwarded-For': `10.0.0.${n}` } };
      const { status, body, headers } = await get(own.url + path, undefined, from);
      expect([path, status, body.error]).toEqual([path, 401, 'unauthorized']);
      expect(headers.get('www-authenticate')).toBe('ApiKey header="X-Service-Key"');
    }
    await own.stop();
  });

  test.each(['', 'x', 'fs_pro_0OIl', generateKey('pro')])('rejects the key %j', async (wrong) => {
    const { status, body, text } = await get(`${api.url}/v1/markets/1`, wrong);
    expect([status, body.error]).toEqual([401, 'unauthorized']);
    if (wrong.length > 1) expect(text).not.toContain(wrong);
  });

  test('comes before the parameters are checked', async () => {
    expect((await get(`${api.url}/v1/markets/-1`, undefined)).status).toBe(401);
  });

  test('rejects a key in the URL', async () => {
    for (const path of [`/v1/markets/1?key=${key}`, `/v1/traders/${key}`, `/${key}`]) {
      for (const caller of [undefined, key]) {
        const { status, body, text } = await get(api.url + path, caller);
        expect([status, body.error]).toEqual([400, 'invalid_request']);
        expect(body.detail).toContain('revoke this one');
        expect(text).not.toContain(key);
      }
    }
  });
});

describe('404 and 405', () => {
  // A separate address, because requests without a key are counted by address.
  let own: typeof api;

  beforeAll(async () => {
    own = await stores.serve();
  });

  afterAll(() => own?.stop());

  test.each(['/v1', '/v1/nope', '/v2/traders', `/v1/traders/${ADDRESS}/nope`])(
    '%s is no route, with or without a key',
    async (path) => {
      for (const caller of [key, undefined]) {
        const { status, body } = await get(own.url + path, caller);
        expect([status, body.error]).toEqual([404, 'not_found']);
      }
    },
  );

  test.each(ROUTES)('%s allows GET and HEAD only', async (path) => {
    // All routes together are more requests than one key may send in a second.
    const key = await issueKey(stores.nats.bucket, 'pro');
    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
      const { status, body, headers } = await get(own.url + path, key, { method });
      expect([method, status, body.error]).toEqual([method, 405, 'method_not_allowed']);
      expect(headers.get('allow')).toBe('GET, HEAD');
    }
  });

  test.each(['/healthz', '/readyz', '/openapi.json'])(
    '%s allows GET and HEAD only',
    async (path) => {
      const { status, body, headers } = await get(own.url + path, undefined, { method: 'POST' });
      expect([status, body.error]).toEqual([405, 'method_not_allowed']);
      expect(headers.get('allow')).toBe('GET, HEAD');
    },
  );

  test('HEAD has the headers of GET and no body', async () => {
    const url = `${own.url}/v1/analytics/leaderboard`;
    const head = await fetch(url, { method: 'HEAD', headers: { 'X-Service-Key': key } });
    expect([head.status, await head.text()]).toEqual([200, '']);
  });
});

describe('429 rate_limited', () => {
  test('limits clients that guess keys, by address', async () => {
    const seen = new Set<number>();
    await until(async () => {
      const answers = await Promise.all(
        Array.from({ length: 60 }, () => get(`${api.url}/v1/markets/1`, generateKey('pro'))),
      );
      for (const { status } of answers) seen.add(status);
      return seen.has(429) || undefined;
    });
    expect(seen).toEqual(new Set([401, 429]));
    expect((await get(`${api.url}/v1/analytics/leaderboard`, key)).status).toBe(200);
  });
});

describe('every response', () => {
  test('has the rate limit headers and a request id, and does not name its software', async () => {
    for (const path of [...ROUTES, '/healthz', '/readyz', '/nope']) {
      for (const caller of [key, undefined]) {
        // An event stream has no end to wait for.
        const method = path.includes('/stream/') ? 'HEAD' : 'GET';
        const { headers } = await get(api.url + path, caller, { method });
        const policy = headers.get('ratelimit-policy');
        expect(policy, path).toMatch(
          /^("pro";q=100;w=1, "pro-account";q=200;w=1|"anonymous";q=20;w=1)$/,
        );
        expect(headers.get('ratelimit'), path).toMatch(/^"(pro|anonymous)";r=\d+;t=1$/);
        expect(headers.get('x-request-id'), path).toMatch(/^[\w.-]+$/);
        expect(headers.get('x-powered-by')).toBeNull();
        expect(headers.get('x-content-type-options')).toBe('nosniff');
      }
    }
  });
});
