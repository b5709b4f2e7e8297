/**
 * The short way to a kept answer: it is taken, it gives what the ordinary way gives, and what it must
 * not answer goes the ordinary way. Which way an answer came is seen by the order of its fields only:
 * the short way writes the rate behind the rest.
 */
import { once } from 'node:events';
import { get as getRaw, type IncomingMessage } from 'node:http';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { hashKey } from '../../api/auth/keys.ts';
import { issueKey, startApi } from './api-harness.ts';
import { startSeeded } from './api-seeded.ts';

const PAGE = 'https://page.example';
const TRIES_MAX = 3;
const BOARD = '/v1/analytics/leaderboard?limit=4';

type Answered = { readonly route: string; readonly status: number; readonly account: string };

let seeded: Awaited<ReturnType<typeof startSeeded>>;
let api: Awaited<ReturnType<typeof startApi>>;
let open: Awaited<ReturnType<typeof startApi>>;
const answered: Answered[] = [];

beforeAll(async () => {
  seeded = await startSeeded();
  const common = { clickhouseUrl: seeded.clickhouse.url, nats: seeded.nats };
  api = await startApi({
    ...common,
    metrics: {
      answered: ({ route }, { statusCode: status, locals }) =>
        answered.push({ route: route?.path, status, account: locals.caller?.account }),
    },
  });
  open = await startApi({ ...common, corsOrigins: [PAGE] });
});

afterAll(async () => {
  await open?.stop();
  await api?.stop();
  await seeded?.stop();
});

type Fields = Readonly<Record<string, string>>;

/** An answer as it is on the wire. */
async function ask(path: string, key: string, headers: Fields = {}, method = 'GET', of = api) {
  const sent = { 'X-Service-Key': key, ...headers };
  const request = getRaw(of.url + path, { headers: sent, method, agent: false });
  const [response] = (await once(request.end(), 'response')) as [IncomingMessage];
  const body = Buffer.concat(await response.toArray());
  const names = response.rawHeaders.filter((_, i) => i % 2 === 0);
  const isShort = names.indexOf('RateLimit') > names.indexOf('Content-Type');
  return { status: response.statusCode, fields: response.headers, isShort, body };
}

/** What is of the moment: another in each answer. */
function lasting({ date, ratelimit, 'x-request-id': id, ...rest }: IncomingMessage['headers']) {
  expect(id).toMatch(/^[\w.-]{1,64}$/);
  expect(ratelimit).toMatch(/^"\w+";r=\d+;t=\d+$/);
  expect(date).toBeDefined();
  return rest;
}

/**
 * The answers of both ways: the first with a condition that never holds, which has no short way. After
 * each second the first one has none either, because the board is asked for its refresh.
 */
async function bothWays(path: string, key: string, headers: Fields = {}, of = api) {
  const ordinary = await ask(path, key, { ...headers, 'If-None-Match': '"none"' }, 'GET', of);
  expect([ordinary.status, ordinary.isShort]).toEqual([200, false]);
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const short = await ask(path, key, headers, 'GET', of);
    expect(short.status).toBe(200);
    if (short.isShort) return { ordinary, short };
  }
  throw new Error(`${path} has no short way`);
}

describe('a kept answer that is at hand', () => {
  test.each<[string, Fields]>([
    [BOARD, {}],
    [BOARD, { 'Accept-Encoding': 'gzip' }],
    [BOARD, { 'Accept-Encoding': 'br, gzip' }],
    [BOARD, { Accept: 'text/csv' }],
    [BOARD, { 'X-Request-Id': 'my-own-id' }],
    ['/v1/analytics/leaderboard?limit=4&offset=2&sort_by=roi&order=asc', {}],
    ['/v2/analytics/leaderboard?time_frame=7D', { 'Accept-Encoding': 'gzip' }],
  ])('is the answer of the ordinary way: %s, %j', async (path, headers) => {
    const { ordinary, short } = await bothWays(path, seeded.key, headers);
    expect(lasting(short.fields)).toEqual(lasting(ordinary.fields));
    expect(short.body.equals(ordinary.body)).toBe(true);
    const given = headers['X-Request-Id'];
    if (given !== undefined) expect(short.fields['x-request-id']).toBe(given);
  });

  test('links to the next page by the URL that it was asked for by', async () => {
    const paths = [BOARD, '/v1/analytics/leaderboard?limit=4&offset=0', BOARD];
    for (const path of paths) await bothWays(path, seeded.key);
    const links = [];
    for (const path of paths) links.push((await ask(path, seeded.key)).fields.link);
    expect(links[0]).toContain('limit=4&cursor=');
    expect(new Set(links).size).toBe(1);
  });

  test('differs by tier', async () => {
    const path = '/v2/analytics/leaderboard';
    await bothWays(path, seeded.key);
    const { short } = await bothWays(path, seeded.demoKey);
    expect(JSON.parse(short.body.toString()).traders.length).toBeLessThanOrEqual(20);
    expect(short.fields['ratelimit-policy']).toBe('"demo";q=5;w=1');
  });

  test('has the fields for pages of other origins, and is not given to them itself', async () => {
    const { ordinary, short } = await bothWays(BOARD, seeded.key, {}, open);
    expect(lasting(short.fields)).toEqual(lasting(ordinary.fields));
    expect(short.fields.vary).toBe('Origin, Accept, Accept-Encoding');
    const page = await ask(BOARD, seeded.key, { Origin: PAGE }, 'GET', open);
    expect(page.isShort).toBe(false);
    expect(page.fields['access-control-allow-origin']).toBe(PAGE);
  });

  test('is counted: by route and account, against the rate, and in the requests of the day', async () => {
    const account = 'counted';
    const key = await issueKey(seeded.nats.bucket, 'individual', { account });
    await bothWays(BOARD, key);
    const own = answered.filter((one) => one.account === account);
    expect(own.length).toBeGreaterThanOrEqual(2);
    for (const one of own) {
      expect(one).toEqual({ route: '/v1/analytics/leaderboard', status: 200, account });
    }
    const { body } = await ask('/v2/user/telemetry', key);
    expect(JSON.parse(body.toString()).requests.today).toBe(own.length + 1);
    const statuses = [];
    for (let n = 0; n < 40; n++) statuses.push((await ask(BOARD, key)).status);
    expect(new Set(statuses)).toEqual(new Set([200, 429]));
  });
});

describe('what has no short way', () => {
  test('a client that has the answer gets 304, and HEAD no body', async () => {
    const { short } = await bothWays(BOARD, seeded.key);
    const condition = { 'If-None-Match': String(short.fields.etag) };
    const again = await ask(BOARD, seeded.key, condition);
    expect([again.status, again.body.length]).toEqual([304, 0]);
    const head = await ask(BOARD, seeded.key, {}, 'HEAD');
    expect([head.status, head.body.length]).toEqual([200, 0]);
    expect(lasting(head.fields)).toEqual(lasting(short.fields));
  });

  test('a key that is revoked, and none', async () => {
    const { bucket } = seeded.nats;
    const key = await issueKey(bucket, 'individual');
    await bothWays(BOARD, key);
    const entry = await bucket.get(hashKey(key));
    const record = JSON.parse(new TextDecoder().decode(entry?.value));
    await bucket.put(
      hashKey(key),
      JSON.stringify({ ...record, revoked_at: new Date().toISOString() }),
    );
    for (let status: number | undefined = 200; status !== 401; await delay(20)) {
      ({ status } = await ask(BOARD, key));
    }
    const none = await ask(BOARD, '');
    expect([none.status, none.fields['x-content-type-options']]).toEqual([401, 'nosniff']);
  });

  test('a URL that is not right stays so', async () => {
    for (let n = 0; n < 2; n++) {
      expect((await ask(`${BOARD}&offset=x`, seeded.key)).status).toBe(400);
      expect((await ask('/v1/analytics/leaderboard?offset=1', seeded.demoKey)).status).toBe(403);
    }
  });
});
