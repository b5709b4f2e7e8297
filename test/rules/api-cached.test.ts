/** Cached leaderboards and shared responses: their headers, conditions, tiers and counts. */
import { once } from 'node:events';
import { get as getRaw, type IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Select } from '../../infra/clickhouse.ts';
import { addressOf } from '../support/api-bookings.ts';
import { get, issueKey, revokeKey, startApi } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';

const PAGE = 'https://page.example';
const BOARD = '/v1/analytics/leaderboard?limit=4';

type Answered = { readonly route: string; readonly status: number; readonly account: string };

const seeded = forFile(startSeeded);
let api: Awaited<ReturnType<typeof startApi>>;
let open: Awaited<ReturnType<typeof startApi>>;
const answered: Answered[] = [];

beforeAll(async () => {
  const common = { clickhouseUrl: seeded.clickhouse.url, nats: seeded.nats };
  api = await startApi({
    ...common,
    metrics: {
      answered: ({ route }, { statusCode: status, locals }) =>
        answered.push({ route: route?.path, status, account: locals.caller?.account }),
      countLive: () => undefined,
    },
  });
  open = await startApi({ ...common, corsOrigins: [PAGE] });
});

afterAll(async () => {
  await open?.stop();
  await api?.stop();
});

type Headers = Readonly<Record<string, string>>;

/** A response as sent. */
async function ask(path: string, key: string, headers: Headers = {}, method = 'GET', of = api) {
  const sent = { 'X-Service-Key': key, ...headers };
  const request = getRaw(of.url + path, { headers: sent, method, agent: false });
  const [response] = (await once(request.end(), 'response')) as [IncomingMessage];
  const body = Buffer.concat(await response.toArray());
  return { status: response.statusCode, headers: response.headers, body };
}

/** The headers that do not differ from one response to the next. */
function lasting({
  age,
  date,
  ratelimit,
  'x-request-id': id,
  ...rest
}: IncomingMessage['headers']) {
  expect(age).toMatch(/^\d+$/);
  expect(id).toMatch(/^[\w.-]{1,64}$/);
  expect(ratelimit).toMatch(/^"\w+";r=\d+;t=\d+$/);
  expect(date).toBeDefined();
  return rest;
}

describe('a cached response', () => {
  test.each<[string, Headers]>([
    [BOARD, {}],
    [BOARD, { 'Accept-Encoding': 'gzip' }],
    [BOARD, { 'Accept-Encoding': 'br, gzip' }],
    [BOARD, { Accept: 'text/csv' }],
    ['/v1/analytics/leaderboard?limit=4&offset=2&sort_by=roi&order=asc', {}],
    ['/v2/analytics/leaderboard?time_frame=7D', { 'Accept-Encoding': 'gzip' }],
  ])('is the same each time: %s, %j', async (path, headers) => {
    const [first, second] = [
      await ask(path, seeded.key, headers),
      await ask(path, seeded.key, headers),
    ];
    expect([first.status, second.status]).toEqual([200, 200]);
    expect(lasting(second.headers)).toEqual(lasting(first.headers));
    expect(second.body.equals(first.body)).toBe(true);
  });

  test('carries the request id of its own request', async () => {
    for (const id of ['one', 'another']) {
      const { headers } = await ask(BOARD, seeded.key, { 'X-Request-Id': id });
      expect(headers['x-request-id']).toBe(id);
    }
  });

  test('links to the next page by the URL of the request', async () => {
    const paths = [BOARD, '/v1/analytics/leaderboard?offset=0&limit=4&colour=red', BOARD];
    const links = [];
    for (const path of paths) links.push(String((await ask(path, seeded.key)).headers.link));
    expect(links[0]).toContain('limit=4&cursor=');
    expect(links[1]).toContain('limit=4&colour=red&cursor=');
    expect(links[2]).toBe(links[0]);
  });

  test('differs by tier', async () => {
    const path = '/v2/analytics/leaderboard';
    await ask(path, seeded.key);
    const demo = await ask(path, seeded.demoKey);
    expect(JSON.parse(demo.body.toString()).traders.length).toBeLessThanOrEqual(20);
    expect(demo.headers['ratelimit-policy']).toBe('"demo";q=5;w=1, "demo-account";q=10;w=1');
  });

  test('varies by origin if pages of other origins may read it', async () => {
    const own = await ask(BOARD, seeded.key, {}, 'GET', open);
    expect(own.headers.vary).toBe('Origin, Accept, Accept-Encoding, X-Service-Key');
    const page = await ask(BOARD, seeded.key, { Origin: PAGE }, 'GET', open);
    expect(page.headers['access-control-allow-origin']).toBe(PAGE);
  });

  test('is counted by route and account, against the rate, and in the requests of the day', async () => {
    const account = 'counted';
    const key = await issueKey(seeded.nats.bucket, 'demo', { account });
    await ask(BOARD, key);
    await ask(BOARD, key);
    const own = answered.filter((one) => one.account === account);
    expect(own).toEqual(
      Array.from({ length: 2 }, () => ({
        route: '/v1/analytics/leaderboard',
        status: 200,
        account,
      })),
    );
    const { body } = await ask('/v2/user/telemetry', key);
    expect(JSON.parse(body.toString()).requests.today).toBe(3);
    const more = () => Promise.all(Array.from({ length: 40 }, () => ask(BOARD, key)));
    // On a slow machine, forty requests may take many seconds.
    const seen = new Set<number | undefined>();
    while (!seen.has(429)) for (const { status } of await more()) seen.add(status);
    expect(seen).toEqual(new Set([200, 429]));
  });

  test('is 304 for a client that has it, and has no body for HEAD', async () => {
    const { headers } = await ask(BOARD, seeded.key);
    const again = await ask(BOARD, seeded.key, { 'If-None-Match': String(headers.etag) });
    expect([again.status, again.body.length]).toEqual([304, 0]);
    const head = await ask(BOARD, seeded.key, {}, 'HEAD');
    expect([head.status, head.body.length]).toEqual([200, 0]);
    expect(lasting(head.headers)).toEqual(lasting(headers));
  });

  test('is not sent to a revoked key, nor without one', async () => {
    const key = await issueKey(seeded.nats.bucket, 'individual');
    expect((await ask(BOARD, key)).status).toBe(200);
    await revokeKey(seeded.nats, key);
    for (let status: number | undefined = 200; status !== 401; await delay(60)) {
      ({ status } = await ask(BOARD, key));
    }
    const none = await ask(BOARD, '');
    expect([none.status, none.headers['x-content-type-options']]).toEqual([401, 'nosniff']);
  });

  test('does not hide a bad parameter', async () => {
    for (let n = 0; n < 2; n++) {
      expect((await ask(`${BOARD}&offset=x`, seeded.key)).status).toBe(400);
      expect((await ask('/v1/analytics/leaderboard?offset=1', seeded.demoKey)).status).toBe(403);
    }
  });
});

describe('a shared response', () => {
  const TRADER = `/v2/traders/${addressOf(1)}`;
  const clock = { nowMs: 1_000 };
  /** Reads of ClickHouse in order; while `held` is set, they wait for it. */
  const reads: { readonly signal: AbortSignal | null }[] = [];
  let held: Promise<void> | undefined;
  let onRead = () => {};
  /** Called when a request looks up a response that has expired. */
  let onLookup = () => {};
  let shared: Awaited<ReturnType<typeof startApi>>;

  beforeAll(async () => {
    const wrapSelect =
      (select: Select): Select =>
      async (statement) => {
        reads.push(statement);
        onRead();
        await held;
        return await select(statement);
      };
    const { clickhouse, nats } = seeded;
    const monotonicNow = () => {
      onLookup();
      return clock.nowMs;
    };
    shared = await startApi({ clickhouseUrl: clickhouse.url, nats, wrapSelect, monotonicNow });
  });

  afterAll(() => shared?.stop());

  /** The number of reads during `work`, without those of the metadata cache, which reads new rows every two seconds. */
  async function readsOf(work: () => Promise<unknown>): Promise<number> {
    const before = reads.length;
    await work();
    return reads.slice(before).filter(({ signal }) => signal !== null).length;
  }

  /** Holds reads: `begun` resolves with the first one, `release` lets all of them continue. */
  function hold() {
    const { promise, resolve: release } = Promise.withResolvers<void>();
    held = promise.then(() => {
      held = undefined;
    });
    const begun = new Promise<void>((resolve) => {
      onRead = resolve;
    });
    return { begun, release };
  }

  test.each([
    ...[TRADER, `/v1/traders/${addressOf(1)}`, '/v2/markets', '/v2/markets/1001'],
    ...[`${TRADER}/positions`, `${TRADER}/trades`, '/v2/markets/1001/holders', '/v2/search?q=1'],
  ])('of %s takes no read until it expires, for any account', async (path) => {
    const ok = async (key: string) => {
      const { status, text } = await get(shared.url + path, key);
      expect(status, text).toBe(200);
      return text;
    };
    clock.nowMs += 1_000;
    const first = await ok(seeded.key);
    clock.nowMs += 499;
    expect(await readsOf(async () => expect(await ok(seeded.individualKey)).toBe(first))).toBe(0);
    clock.nowMs += 501;
    expect(await readsOf(() => ok(seeded.key))).toBeGreaterThan(0);
  });

  test('has the headers of a private response that must be revalidated', async () => {
    const first = await ask(TRADER, seeded.key, {}, 'GET', shared);
    expect(first.headers).toMatchObject({ 'cache-control': 'private, no-cache', age: '0' });
    const etag = String(first.headers.etag);
    expect(etag).toMatch(/^W\/"[\w-]{22}"$/);
    const again = await ask(TRADER, seeded.key, { 'If-None-Match': etag }, 'GET', shared);
    expect([again.status, again.body.length, again.headers.etag]).toEqual([304, 0, etag]);
    const head = await ask(TRADER, seeded.key, {}, 'HEAD', shared);
    expect([head.status, head.body.length, head.headers.etag]).toEqual([200, 0, etag]);
  });

  test('is one for equal parameters, however they are written', async () => {
    clock.nowMs += 1_000;
    const [lower, upper] = [addressOf(2), `0X${addressOf(2).slice(2).toUpperCase()}`];
    const bodies = new Set<string>();
    const askAll = async () => {
      for (const path of [`${lower}/trades?limit=2&order=desc`, `${upper}/trades?x=1&limit=2`]) {
        const { body, headers } = await ask(`/v2/traders/${path}`, seeded.key, {}, 'GET', shared);
        bodies.add(body.toString());
        expect(headers.link).toContain(path.split('?')[0]);
      }
    };
    const both = await readsOf(askAll);
    expect(both).toBeGreaterThan(0);
    clock.nowMs += 1_000;
    expect(
      await readsOf(() => get(`${shared.url}/v2/traders/${lower}/trades?limit=2`, seeded.key)),
    ).toBe(both);
    expect(bodies.size).toBe(1);
  });

  test('is neither an error, a list as CSV nor a batch', async () => {
    clock.nowMs += 1_000;
    const unknown = () => get(`${shared.url}/v2/traders/0x${'9'.repeat(40)}`, seeded.key);
    expect((await unknown()).status).toBe(404);
    expect(await readsOf(unknown)).toBeGreaterThan(0);
    const csv = async () => {
      const { headers } = await ask(
        `${TRADER}/positions`,
        ...([seeded.key, { Accept: 'text/csv' }, 'GET', shared] as const),
      );
      expect([headers['cache-control'], headers.etag]).toEqual(['no-store', undefined]);
    };
    await csv();
    expect(await readsOf(csv)).toBeGreaterThan(0);
    const batch = async () => {
      const body = JSON.stringify({ addresses: [addressOf(1)] });
      const headers = { 'Content-Type': 'application/json' };
      const init = { method: 'POST', headers, body };
      expect((await get(`${shared.url}/v2/traders/batch`, seeded.key, init)).status).toBe(200);
    };
    await batch();
    expect(await readsOf(batch)).toBeGreaterThan(0);
  });

  test('is computed once for concurrent requests, even if one of them is cancelled', async () => {
    clock.nowMs += 1_000;
    const alone = await readsOf(() => get(shared.url + TRADER, seeded.key));
    expect(alone).toBeGreaterThan(0);
    clock.nowMs += 1_000;
    const { begun, release } = hold();
    const leaving = new AbortController();
    const sent = await readsOf(async () => {
      const gone = get(shared.url + TRADER, seeded.key, { signal: leaving.signal });
      await begun;
      const joined = new Promise<void>((resolve) => {
        onLookup = resolve;
      });
      const other = get(shared.url + TRADER, seeded.individualKey);
      await joined;
      leaving.abort();
      await expect(gone).rejects.toThrow();
      release();
      expect((await other).status).toBe(200);
    });
    expect(sent).toBe(alone);
  });

  test('is cancelled once every client has disconnected', async () => {
    clock.nowMs += 1_000;
    const { begun, release } = hold();
    const leaving = new AbortController();
    const gone = get(shared.url + TRADER, seeded.key, { signal: leaving.signal });
    await begun;
    const signal = reads.findLast((read) => read.signal !== null)?.signal;
    if (signal === null || signal === undefined) throw new Error('no read that can be aborted');
    const aborted = once(signal, 'abort');
    leaving.abort();
    await Promise.all([aborted, expect(gone).rejects.toThrow()]);
    release();
    await held;
    expect((await get(shared.url + TRADER, seeded.key)).status).toBe(200);
  });
});
