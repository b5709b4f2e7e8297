/**
 * Responses while ClickHouse or NATS is slow or unavailable: 503 within the time limit if a response
 * needs them, otherwise as before.
 */

import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { beforeAll, describe, expect, test } from 'vitest';
import { generateKey } from '../../api/auth/keys.ts';
import { get, issueKey, ROUTES, startStores } from '../support/api-harness.ts';
import { flipBytes } from '../support/damage.ts';
import { forFile } from '../support/for-file.ts';
import { serve } from '../support/http-server.ts';
import { until } from '../support/service.ts';
import { startClickHouse, startNats } from '../support/stack.ts';

const QUERY_MS_MAX = 700;

const stores = forFile(startStores);
let key: string;

beforeAll(async () => {
  key = await issueKey(stores.nats.bucket, 'pro');
});

describe('503 unavailable', () => {
  test('is the response when ClickHouse is down, and /readyz reports it', async () => {
    const closed = await stores.serve({ clickhouseUrl: 'http://127.0.0.1:9' });
    await expectUnavailable(closed.url);
    await closed.stop();
  });

  test('is the response when ClickHouse accepts connections and never responds', async () => {
    using silent = await serve(() => undefined);
    const slow = await stores.serve({ clickhouseUrl: silent.url, queryMsMax: QUERY_MS_MAX });
    await expectUnavailable(slow.url);
    await slow.stop();
  });

  test('is the response to more requests than there are connections to ClickHouse', async () => {
    using silent = await serve(() => undefined);
    const slow = await stores.serve({ clickhouseUrl: silent.url, queryMsMax: QUERY_MS_MAX });
    const answers = await Promise.all(
      Array.from({ length: 60 }, () => get(`${slow.url}/v1/markets/1`, key)),
    );
    expect(new Set(answers.map((answer) => answer.status))).toEqual(new Set([503]));
    await slow.stop();
  });

  test('is the response to a query that takes too long', async () => {
    const hurried = await stores.serve({ queryMsMax: 1 });
    const { status, body } = await get(`${hurried.url}/v1/analytics/leaderboard`, key);
    expect([status, body.error]).toEqual([503, 'unavailable']);
    await hurried.stop();
  });

  test('is the response while ClickHouse shuts down', async () => {
    const own = await startClickHouse(`${stores.path}/clickhouse-2`);
    const ending = await stores.serve({ clickhouseUrl: own.url });
    const statuses = new Set<number>();
    const isOver = new AbortController();
    const askUntilItIsOver = async () => {
      while (!isOver.signal.aborted) {
        const { status } = await get(`${ending.url}/v1/traders/0x${'5f'.repeat(20)}`, key);
        // A fast machine would exceed the rate of the key.
        if (status !== 429) statuses.add(status);
      }
    };
    const asking = Array.from({ length: 20 }, askUntilItIsOver);
    await until(async () => (statuses.has(404) ? true : undefined));
    await own.stop();
    await until(async () => (statuses.has(503) ? true : undefined));
    isOver.abort();
    await Promise.all(asking);
    expect([...statuses].toSorted()).toEqual([404, 503]);
    await ending.stop();
  });

  test('is the response to an unknown key while NATS is down; known keys keep working', async () => {
    const own = await startNats(`${stores.path}/nats-2`);
    const known = await issueKey(own.bucket, 'pro');
    const cut = await stores.serve({ nats: own });
    await own.server.stop();
    const { status, body, headers } = await get(`${cut.url}/v1/markets/1`, generateKey('pro'));
    expect([status, body.error, headers.get('retry-after')]).toEqual([503, 'unavailable', '2']);
    expect((await get(`${cut.url}/v1/markets/1`, known)).status).toBe(404);
    const ready = await get(`${cut.url}/readyz`, undefined);
    expect([ready.status, ready.body.checks.nats.ready]).toEqual([503, false]);
    await cut.stop();
    await own.nats.close();
  });

  test('does not affect cached leaderboards, the feed and the documents', async () => {
    const own = await startClickHouse(`${stores.path}/clickhouse-2`);
    const api = await stores.serve({ clickhouseUrl: own.url });
    const path = `${api.url}/v1/analytics/leaderboard?limit=7`;
    const before = await get(path, key);
    expect(before.status).toBe(200);
    await own.stop();
    await expectUnavailable(api.url);
    const after = await get(path, key);
    expect([after.status, after.text]).toEqual([200, before.text]);
    expect((await get(`${path}&offset=1`, key)).status).toBe(503);
    const gone = new AbortController();
    const feed = await fetch(`${api.url}/v1/stream/orders`, {
      headers: { 'X-Service-Key': key },
      signal: gone.signal,
    });
    expect([feed.status, feed.headers.get('content-type')]).toEqual([200, 'text/event-stream']);
    const first = await feed.body?.getReader().read();
    expect(new TextDecoder().decode(first?.value)).toContain('retry: 2000');
    gone.abort();
    expect((await get(`${api.url}/openapi.json`, undefined)).status).toBe(200);
    expect((await get(`${api.url}/healthz`, undefined)).status).toBe(200);
    await api.stop();
  });

  test('is the response while data is damaged, and /readyz names the table', async () => {
    const data = `${stores.path}/clickhouse-3`;
    const own = await startClickHouse(data);
    const rows = 'SELECT number, unhex(hex(MD5(toString(number)))) FROM numbers(5000)';
    await own.client.command({ query: `INSERT INTO balances (block_number, trader) ${rows}` });
    await own.client.command({ query: 'OPTIMIZE TABLE balances FINAL' });
    const parts = await own.client.query({
      query: "SELECT path FROM system.parts WHERE table = 'balances' AND active",
      format: 'JSONEachRow',
    });
    const [part] = await parts.json<{ path: string }>();
    flipBytes(join(data, part?.path ?? ''), /\.bin$/);
    const api = await stores.serve({ clickhouseUrl: own.url });
    const check = async () => (await get(`${api.url}/readyz`, undefined)).body.checks.clickhouse;
    expect(await check()).toEqual({ ready: true, detail: 'responds' });
    const read = own.client.query({ query: 'SELECT sum(cityHash64(*)) FROM balances' });
    await expect(read).rejects.toThrow('Checksum');
    const addresses = Array.from({ length: 100 }, (_, n) => {
      return `0x${createHash('md5')
        .update(String(n * 50))
        .digest('hex')}00000000`;
    });
    const response = await get(`${api.url}/v2/traders/batch`, key, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ addresses }),
    });
    expect([response.status, response.body.error]).toEqual([503, 'unavailable']);
    await until(async () => ((await check()).ready ? undefined : true));
    expect((await check()).detail).toMatch(
      /^damaged data: table fillstream\.balances\..*"Damaged data"/,
    );
    await api.stop();
    await own.stop();
  });

  test('makes /readyz 503 when the feed is not ready, while /healthz stays 200', async () => {
    const feed = {
      handler: () => () => undefined,
      status: () => ({ ready: false, detail: 'cannot be read' }),
      endSessionsOf: () => undefined,
      recent: () => Promise.reject(new Error('nobody asks')),
    };
    const unready = await stores.serve({ feed });
    const { status, body } = await get(`${unready.url}/readyz`, undefined);
    expect(status).toBe(503);
    expect(body.checks.feed).toEqual({ ready: false, detail: 'cannot be read' });
    expect(body.checks.clickhouse.ready).toBe(true);
    expect((await get(`${unready.url}/healthz`, undefined)).status).toBe(200);
    await unready.stop();
  });
});

/** All at once: each may take its whole time. */
async function expectUnavailable(url: string) {
  const paths = ROUTES.filter((route) => !route.includes('stream'));
  // Requests that read several things at once must not leave unhandled rejections.
  paths.push(
    ...paths.filter((path) => /traders\/\w+$/.test(path)).map((path) => `${path}?tag=crypto`),
    // A word, which may also be a slug; a number, which may also be a word; several words.
    ...['rain', '2026', 'rain paris'].map((q) => `/v2/search?q=${encodeURIComponent(q)}`),
  );
  await Promise.all(
    paths.map(async (path) => {
      const { status, body, headers, text } = await get(url + path, key);
      expect([path, status, body.error]).toEqual([path, 503, 'unavailable']);
      expect(headers.get('retry-after')).toBe('2');
      expect(text).not.toMatch(/ECONN|at .*\.ts/);
    }),
  );
  const ready = await get(`${url}/readyz`, undefined);
  expect([ready.status, ready.body.checks.clickhouse.ready]).toEqual([503, false]);
}
