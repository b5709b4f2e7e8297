import { setTimeout as delay } from 'node:timers/promises';
import { beforeAll, describe, expect, test, vi } from 'vitest';
import { z } from 'zod';
import { EVENT_SCHEMAS } from '../../api/feed/event-schemas.ts';
import { openKv } from '../../infra/nats/kv.ts';
import type { Hash } from '../../ingest/contract.ts';
import { type Api, publish } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Client } from '../support/raw-client.ts';
import { eventually, newAccount, startPair } from '../support/session-clients.ts';
import { address, fill, hash, market, match } from '../unit/feed-matches.ts';

const FEED = 'streams';

const pair = forFile(() => startPair(FEED));
let one: Api;
let other: Api;
let published = 0;

beforeAll(() => {
  ({ one, other } = pair);
});

async function call(api: Api, account: string, method: string, path: string, body?: unknown) {
  const response = await fetch(`http://127.0.0.1:${api.port}${path}`, {
    method,
    headers: { 'X-Account': account, 'Content-Type': 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
  const text = await response.text();
  return { status: response.status, body: JSON.parse(text) };
}

async function create(account: string, lists: object = {}, api = one): Promise<string> {
  const { status, body } = await call(api, account, 'POST', '/streams', { name: 'test', ...lists });
  expect([status, body.error]).toEqual([201, undefined]);
  return body.id;
}

function listen(api: Api, account: string, id: string, lastEventId?: string): Client {
  const position = lastEventId === undefined ? {} : { 'Last-Event-ID': lastEventId };
  return new Client(api.port, {
    path: `/streams/${id}`,
    headers: { 'X-Account': account, ...position },
  });
}

/** Publishes a match of this trader with these tags and series; returns its hash. */
async function trade(trader: number, tags: string[] = [], seriesSlug = ''): Promise<string> {
  published += 1;
  const taker = fill(trader, { order: null });
  const one = match(published, { taker, market: market({ tags, seriesSlug }) });
  await publish(pair.broker.nats, FEED, [one]);
  return one.txHash;
}

function hashesOf(client: Client): string[] {
  return client.blocks
    .filter(({ event }) => event === 'tx')
    .map(({ data }) => JSON.parse(data ?? '').tx_hash);
}

describe('streams', () => {
  test('are created, listed, changed and deleted, and seen by every process', async () => {
    const account = newAccount();
    const made = await call(one, account, 'POST', '/streams', {
      name: ' whales ',
      addresses: [address(1).toUpperCase(), address(1)],
      tags: ['Crypto', 'crypto', ' 5M '],
    });
    expect(made.status).toBe(201);
    const stream = made.body;
    expect(stream).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      name: 'whales',
      addresses: [address(1)],
      tags: ['crypto', '5m'],
      series: [],
      markets: [],
      enabled: true,
      active_sessions: 0,
      created_at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updated_at: stream.created_at,
    });
    const list = () => call(other, account, 'GET', '/streams');
    const listed = await eventually(list, ({ body }) => body.total_count === 1);
    expect(listed.body).toEqual({ data: [stream], total_count: 1 });
    const path = `/streams/${stream.id}`;
    const changed = await call(other, account, 'PUT', `${path}/subscription`, { tags: [] });
    expect(changed.body).toEqual({ ...stream, tags: [], updated_at: expect.any(String) });
    expect(changed.body.updated_at > stream.updated_at).toBe(true);
    const renamed = await call(one, account, 'PUT', `${path}/meta`, { name: 'sharks' });
    expect(renamed.body).toMatchObject({ name: 'sharks', tags: [], addresses: [address(1)] });
    expect((await call(one, account, 'GET', `${path}/meta`)).body).toEqual(renamed.body);
    expect(await call(other, account, 'DELETE', path)).toEqual({
      status: 200,
      body: { id: stream.id },
    });
    for (const api of [one, other]) {
      await eventually(
        () => call(api, account, 'GET', `${path}/meta`),
        ({ status }) => status === 404,
      );
      expect((await call(api, account, 'DELETE', path)).status).toBe(404);
      expect((await call(api, account, 'GET', path)).status).toBe(404);
    }
  });

  test('of another account do not exist', async () => {
    const id = await create(newAccount(), { tags: ['crypto'] });
    const stranger = newAccount();
    expect((await call(one, stranger, 'GET', '/streams')).body.total_count).toBe(0);
    for (const [method, path] of [
      ['GET', `/streams/${id}`],
      ['GET', `/streams/${id}/meta`],
      ['PUT', `/streams/${id}/meta`],
      ['PUT', `/streams/${id}/subscription`],
      ['DELETE', `/streams/${id}`],
    ] as const) {
      const body = method === 'PUT' ? {} : undefined;
      const answer = await call(one, stranger, method, path, body);
      expect([method, path, answer.status]).toEqual([method, path, 404]);
    }
  });

  test('of a version without markets have none', async () => {
    const account = newAccount();
    const id = await create(account, { tags: ['a'], markets: [hash(1)] });
    const { bucket, value } = await storedStream(id);
    await bucket.put(`stream.${id}`, JSON.stringify({ ...value, markets: undefined }));
    const read = () => call(other, account, 'GET', `/streams/${id}/meta`);
    const { body } = await eventually(read, (answer) => answer.body.markets.length === 0);
    expect(body).toMatchObject({ tags: ['a'], markets: [] });
  });

  test('of a repeated request with the same Idempotency-Key are one, in any process', async () => {
    const account = newAccount();
    const post = async (api: Api, name: string, idempotencyKey = '"8e03978e"') => {
      const response = await fetch(`http://127.0.0.1:${api.port}/streams`, {
        method: 'POST',
        headers: {
          'X-Account': account,
          'Content-Type': 'application/json',
          'Idempotency-Key': idempotencyKey,
        },
        body: JSON.stringify({ name, tags: ['crypto'] }),
      });
      const body = JSON.parse(await response.text());
      return { status: response.status, location: response.headers.get('location'), body };
    };
    const answers = await Promise.all([one, other, one, other].map((api) => post(api, 'a')));
    answers.push(await post(other, 'a'));
    const [first] = answers;
    expect(first?.status).toBe(201);
    expect(first?.location).toBe(`/streams/${first?.body.id}`);
    for (const answer of answers) expect(answer).toEqual(first);
    const { body } = await call(one, account, 'GET', '/streams');
    expect(body.data).toEqual([first?.body]);
    const changed = await post(one, 'b');
    const issue = { path: 'Idempotency-Key', message: expect.stringContaining('another body') };
    expect([changed.status, changed.body.issues]).toEqual([400, [issue]]);
    const another = await post(one, 'b', 'another');
    expect([another.status, another.body.id === first?.body.id]).toEqual([201, false]);
  });

  test('that were deleted do not reappear through an older read', async () => {
    const account = newAccount();
    const listed = async (api: Api) =>
      (await call(api, account, 'GET', '/streams')).body.total_count;
    const path = `/streams/${await create(account)}`;
    const { connection } = pair.broker.nats;
    const request = connection.request.bind(connection);
    const isRead = Promise.withResolvers<void>();
    const isDeleted = Promise.withResolvers<void>();
    const spy = vi.spyOn(connection, 'request').mockImplementation(async (...given) => {
      const answer = await request(...given);
      if (given[0].endsWith('MSG.GET.KV_streams')) {
        isRead.resolve();
        await isDeleted.promise;
      }
      return answer;
    });
    const late = call(other, account, 'DELETE', path);
    await isRead.promise;
    spy.mockRestore();
    await call(one, account, 'DELETE', path);
    while ((await listed(other)) > 0) await delay(10);
    isDeleted.resolve();
    expect((await late).status).toBe(404);
    expect(await listed(other)).toBe(0);
  });

  test.each([
    [{}, ['name']],
    [{ name: '' }, ['name']],
    [{ name: 'x'.repeat(65) }, ['name']],
    [{ name: 'a', addresses: ['0x12'] }, ['addresses.0']],
    [{ name: 'a', tags: 'crypto' }, ['tags']],
    [{ name: 'a', tags: [''], series: [1] }, ['tags.0', 'series.0']],
    [{ name: 'a', markets: ['1', 'no market', 2] }, ['markets.1', 'markets.2']],
    [{ name: 'a', markets: Array(101).fill('1') }, ['markets']],
    [[], ['body']],
    [{ name: 'a', tag: ['x'], enabled: false }, ['tag', 'enabled']],
  ])('refuse %j with an issue each', async (body, paths) => {
    const answer = await call(one, newAccount(), 'POST', '/streams', body);
    expect(answer.status).toBe(400);
    expect(answer.body.issues.map((issue: { path: string }) => issue.path)).toEqual(paths);
    for (const path of paths) expect(answer.body.detail).toContain(`${path}: `);
  });
});

describe('quotas', () => {
  test.each([
    ['max_filter_addrs', { addresses: Array.from({ length: 11 }, (_, n) => address(n)) }, 10, 11],
    ['max_filter_tags', { tags: ['a', 'b', 'c', 'd', 'e', 'f'] }, 5, 6],
    ['max_filter_series', { series: ['a', 'b', 'c', 'd', 'e', 'f'] }, 5, 6],
    ['max_naked_streams', {}, 0, 0],
    ['max_naked_streams', { tags: ['all'] }, 0, 0],
  ])('%s names limit and use', async (name, lists, limit, used) => {
    const account = newAccount('demo');
    const refused = await call(one, account, 'POST', '/streams', { name: 'x', ...lists });
    expect([refused.status, refused.body.error]).toEqual([403, 'quota_exceeded']);
    expect(refused.body.quota).toEqual({ name, limit, used });
    expect(refused.body.message).toContain(name);
    const id = await create(account, { tags: ['a'] });
    const path = `/streams/${id}/subscription`;
    const update = await call(one, account, 'PUT', path, { tags: [], ...lists });
    expect([update.status, update.body.quota?.name]).toEqual([403, name]);
    expect((await call(one, account, 'GET', `/streams/${id}/meta`)).body.tags).toEqual(['a']);
  });

  test('of lists do not block other changes of a stream from a higher tier', async () => {
    const account = newAccount('demo');
    const id = await create(account, { tags: ['a'] });
    const addresses = Array.from({ length: 11 }, (_, n) => address(n));
    const { bucket, value } = await storedStream(id);
    await bucket.put(`stream.${id}`, JSON.stringify({ ...value, addresses }));
    const meta = await call(one, account, 'PUT', `/streams/${id}/meta`, { enabled: false });
    expect([meta.status, meta.body.addresses?.length]).toEqual([200, 11]);
    const path = `/streams/${id}/subscription`;
    const shorter = await call(one, account, 'PUT', path, { tags: ['b'] });
    expect([shorter.status, shorter.body.tags]).toEqual([200, ['b']]);
    expect((await call(one, account, 'PUT', path, { addresses })).status).toBe(403);
  });

  test('hold for concurrent requests at two processes', async () => {
    const account = newAccount('individual');
    const ask = async (n: number) => {
      for (;;) {
        const answer = await call(n % 2 === 0 ? one : other, account, 'POST', '/streams', {
          name: `${n}`,
          // One in three is naked, of which two are allowed.
          ...(n % 3 === 0 ? {} : { tags: ['a'] }),
        });
        // A process that learns of the other's streams late refuses to count them.
        if (answer.status !== 503) return answer;
      }
    };
    const seen = await Promise.all(Array.from({ length: 30 }, (_, n) => ask(n)));
    const statuses = seen.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([201, 403]));
    const made = seen.filter(({ status }) => status === 201).map(({ body }) => body);
    expect(made).toHaveLength(20);
    expect(made.filter(({ tags }) => tags.length === 0)).toHaveLength(2);
    await eventually(
      () => call(other, account, 'GET', '/streams'),
      ({ body }) => body.total_count === 20,
    );
    for (const { id } of made) await call(one, account, 'DELETE', `/streams/${id}`);
    await create(account);
    await create(account);
  });
});

async function storedStream(id: string) {
  const bucket = await openKv(pair.broker.nats, 'streams');
  const entry = await bucket.get(`stream.${id}`);
  return { bucket, value: JSON.parse(Buffer.from(entry?.value ?? []).toString()) };
}

describe('listening', () => {
  test('delivers matches of one of the markets, and after a change those of the others', async () => {
    const account = newAccount();
    const id = await create(account, { markets: [hash(31).toUpperCase().replace('X', 'x')] });
    const { body } = await call(one, account, 'GET', `/streams/${id}/meta`);
    expect(body.markets).toEqual([hash(31)]);
    const client = await listen(one, account, id).begun();
    const tradeIn = async (conditionId: Hash) => {
      published += 1;
      const traded = match(published, { conditionId });
      await publish(pair.broker.nats, FEED, [traded]);
      return traded.txHash;
    };
    // Before a match that is delivered, so that it was examined before the filter changes.
    await tradeIn(hash(32));
    const expected = [await tradeIn(hash(31))];
    await client.until(() => hashesOf(client).length === 1);
    await call(one, account, 'PUT', `/streams/${id}/subscription`, { markets: [hash(32)] });
    await tradeIn(hash(31));
    expected.push(await tradeIn(hash(32)));
    await client.until(() => hashesOf(client).length === 2);
    expect(hashesOf(client)).toEqual(expected);
    client.close();
  });

  test('delivers live transactions with every field', async () => {
    const account = newAccount();
    const id = await create(account, { addresses: [address(7)] });
    const client = await listen(other, account, id).begun();
    published += 1;
    const order = { shares: 30_000_000n, usdc: 15_000_000n, signatureType: 2 };
    const taker = fill(7, { fee: 12n, order: { ...order, timestampMs: 1_777_000_000_123 } });
    const makers = [fill(8, { side: 'SELL', outcomeIndex: 1, order: null })];
    const big = market({ marketId: '9223372036854775807', sportsMarketType: 'moneyline' });
    await publish(pair.broker.nats, FEED, [match(published, { taker, makers, market: big })]);
    await client.until(({ blocks }) => blocks.some(({ event }) => event === 'tx'));
    const block = client.blocks.find(({ event }) => event === 'tx');
    expect(block?.data).toContain('"id":9223372036854775807,');
    const { makers: shownMakers, taker: shownTaker, ...rest } = JSON.parse(block?.data ?? '');
    expect(rest).toEqual({
      market: {
        condition_id: hash(2_000_000),
        event_slug: 'rain',
        group_item_title: '',
        id: 2 ** 63,
        neg_risk: false,
        outcomes: ['Yes', 'No'],
        question: 'Will “it” rain\nin Zürich? 雨',
        series_slug: 'weather-daily',
        slug: 'will-it-rain',
        sports_market_type: 'moneyline',
        start_date: '2025-10-01T00:00:00Z',
        tags_slug: ['weather', '5M'],
        token_ids: ['1', '2'],
      },
      match_id: `${hash(published)}:${hash(1_000_007)}`,
      timestamp: new Date(1_760_000_000_000 + published).toISOString(),
      tx_hash: hash(published),
    });
    expect(shownTaker).toEqual({
      fee: '12',
      order: {
        order_hash: hash(1_000_007),
        shares: '30000000',
        signature_type: 2,
        timestamp: '2026-04-24T03:06:40.123Z',
        usdc: '15000000',
      },
      outcome: 'Yes',
      shares: '10000000',
      side: 'BUY',
      token_ids_index: 0,
      usdc: '4500000',
      user: { address: address(7), name: 'trader-7' },
    });
    expect(shownMakers).toMatchObject([
      {
        order: { shares: '0', signature_type: 0, timestamp: '', usdc: '0' },
        outcome: 'No',
        side: 'SELL',
        token_ids_index: 1,
      },
    ]);
    const described = z.fromJSONSchema(z.toJSONSchema(EVENT_SCHEMAS.LiveTransaction));
    expect(described.safeParse(JSON.parse(block?.data ?? '')).error?.issues).toBe(undefined);
    client.close();
  });

  test('follows a changed subscription on the open connection, in both processes', async () => {
    const account = newAccount();
    const id = await create(account, { addresses: [address(1)] });
    const clients = [
      await listen(one, account, id).begun(),
      await listen(other, account, id).begun(),
    ];
    const first = await trade(1);
    await trade(2);
    for (const client of clients) await client.until((seen) => hashesOf(seen).length === 1);
    await call(one, account, 'PUT', `/streams/${id}/subscription`, {
      addresses: [],
      series: ['nfl'],
    });
    // Events of the other kind show that the change has arrived; the first kind must end then.
    const later: string[] = [];
    for (const client of clients) {
      while (hashesOf(client).length === 1 + later.length) later.push(await trade(2, [], 'NFL'));
    }
    await trade(1);
    const last = await trade(3, [], 'nfl');
    for (const client of clients) {
      await client.until((seen) => hashesOf(seen).at(-1) === last);
      const [earliest, ...rest] = hashesOf(client);
      expect(earliest).toBe(first);
      expect([...later, last].slice(-rest.length)).toEqual(rest);
      expect(client.ended).toBe(false);
      client.close();
    }
  });

  test('resumes at another process after the last event seen', async () => {
    const account = newAccount();
    const id = await create(account, { addresses: [address(5)] });
    const client = await listen(one, account, id).begun();
    const seen = [await trade(5), await trade(6), await trade(5)];
    await client.until((now) => hashesOf(now).length === 2);
    client.close();
    const missed = [await trade(5), await trade(6), await trade(5)];
    const resumed = await listen(other, account, id, client.lastEventId).until(
      (now) => hashesOf(now).length === 2,
    );
    expect(hashesOf(client)).toEqual([seen[0], seen[2]]);
    expect(hashesOf(resumed)).toEqual([missed[0], missed[2]]);
    resumed.close();
  });

  test('counts its listeners in all processes, until they leave', async () => {
    const account = newAccount();
    const id = await create(account);
    const active = (count: number) =>
      eventually(
        () => call(other, account, 'GET', `/streams/${id}/meta`),
        ({ body }) => body.active_sessions === count,
      );
    const clients = [
      await listen(one, account, id).begun(),
      await listen(other, account, id).begun(),
    ];
    await active(2);
    clients[0]?.close();
    await active(1);
    clients[1]?.close();
    await active(0);
  });

  test('ends in every process when the stream is disabled or deleted', async () => {
    const account = newAccount();
    const id = await create(account, { addresses: [address(1)] });
    const path = `/streams/${id}`;
    const clients = [
      await listen(one, account, id).begun(),
      await listen(other, account, id).begun(),
    ];
    await call(one, account, 'PUT', `${path}/meta`, { enabled: false });
    for (const client of clients) {
      await client.until(({ ended }) => ended);
      expect(client.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"stream_disabled"}' });
    }
    for (const api of [one, other]) {
      const refused = await call(api, account, 'GET', path);
      expect([refused.status, refused.body.error]).toEqual([403, 'stream_disabled']);
    }
    await call(other, account, 'PUT', `${path}/meta`, { enabled: true });
    const again = await eventually(
      async () =>
        listen(one, account, id).until(({ body, ended }) => ended || body.includes('retry')),
      ({ status }) => status === 200,
    );
    await call(other, account, 'DELETE', path);
    await again.until(({ ended }) => ended);
    expect(again.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"stream_deleted"}' });
  });

  test('refuses an unknown parameter: a stream has its filters stored', async () => {
    const account = newAccount();
    const id = await create(account, { tags: ['crypto'] });
    const { status, body } = await call(
      one,
      account,
      'GET',
      `/streams/${id}?tags=nfl&lastEventId=0`,
    );
    expect([status, body.issues]).toEqual([400, [{ path: 'tags', message: expect.any(String) }]]);
  });
});
