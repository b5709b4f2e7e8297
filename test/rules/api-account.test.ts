/** The endpoints of an account: keys, limits and usage. */
import { setTimeout as delay } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { TIERS } from '../../api/auth/tiers.ts';
import { openUsage, USAGE_TTL_MS } from '../../api/auth/usage.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { get, issueKey, silent, type startApi, startStores } from '../support/api-harness.ts';
import { forFile } from '../support/for-file.ts';

const stores = forFile(startStores);
let api: Awaited<ReturnType<typeof startApi>>;
let other: typeof api;

beforeAll(async () => {
  api = await stores.serve();
  other = await stores.serve();
});

afterAll(async () => {
  await api?.stop();
  await other?.stop();
});

function send(method: string, path: string, key: string, body?: unknown) {
  return get(`${api.url}${path}`, key, {
    method,
    ...(body !== undefined && { body: JSON.stringify(body) }),
    headers: { 'Content-Type': 'application/json' },
  });
}

/** Resolves when the other process responds with this status. */
async function elsewhere(key: string, status: number): Promise<void> {
  while ((await get(`${other.url}/v2/user/me`, key)).status !== status) await delay(20);
}

describe('/v2/user/keys', () => {
  test('a key is created, used everywhere, changed, and revoked everywhere', async () => {
    const first = await issueKey(stores.nats.bucket, 'pro', { account: 'acme' });
    const made = await send('POST', '/v2/user/keys', first, { label: 'second' });
    expect(made.status).toBe(201);
    const { key, id } = made.body;
    expect(made.body).toMatchObject({ label: 'second', tier: 'pro', status: 'valid' });
    expect(made.headers.get('cache-control')).toBe('no-store');
    expect(made.headers.get('location')).toBe(`/v2/user/keys/${id}`);
    await elsewhere(key, 200);

    const list = await get(`${api.url}/v2/user/keys`, key);
    expect(list.body.total_count).toBe(2);
    expect(list.body.keys[0]).toMatchObject({ id, is_current: true });
    expect(list.text).not.toContain(key.slice(8));

    const renamed = await send('PATCH', `/v2/user/keys/${id}`, first, { label: 'third' });
    expect(renamed.body).toMatchObject({ id, label: 'third', expires_at: '' });
    const ends = '2090-01-01T00:00:00.000Z';
    const ended = await send('PATCH', `/v2/user/keys/${id}`, first, { expires_at: ends });
    expect(ended.body).toMatchObject({ label: 'third', expires_at: ends });

    expect((await send('DELETE', `/v2/user/keys/${id}`, first)).body).toEqual({ id });
    expect((await get(`${api.url}/v2/user/me`, key)).status).toBe(401);
    await elsewhere(key, 401);
    // As for a stream: a deleted key cannot be deleted again.
    expect((await send('DELETE', `/v2/user/keys/${id}`, first)).status).toBe(404);
    const late = await send('PATCH', `/v2/user/keys/${id}`, first, { expires_at: null });
    expect([late.status, late.body.issues[0].path]).toEqual([400, 'id']);
    await elsewhere(key, 401);
  });

  test('creates no key that outlives the key of the request', async () => {
    const expires_at = '2090-01-01T00:00:00.000Z';
    const trial = await issueKey(stores.nats.bucket, 'pro', { account: 'trial', expires_at });
    const wanted = '2099-01-01T00:00:00Z';
    for (const body of [{}, { expires_at: wanted }, { expires_at: null }]) {
      const made = await send('POST', '/v2/user/keys', trial, body);
      expect(made.body.expires_at).toBe(expires_at);
      const { id } = made.body;
      const path = `/v2/user/keys/${id}`;
      const longer = await send('PATCH', path, trial, { expires_at: wanted });
      expect(longer.body.expires_at).toBe(expires_at);
      await send('DELETE', path, trial);
    }
  });

  test('creates no more valid keys than the tier allows', async () => {
    const demo = await issueKey(stores.nats.bucket, 'demo', { account: 'small' });
    expect((await send('POST', '/v2/user/keys', demo, {})).status).toBe(201);
    const full = await send('POST', '/v2/user/keys', demo, {});
    expect([full.status, full.body.error]).toEqual([403, 'quota_exceeded']);
    expect(full.body.detail).toContain(`max_keys: tier demo allows ${TIERS.demo.keysMax}`);
    const { keysMax } = TIERS.demo;
    expect(full.body.quota).toEqual({ name: 'max_keys', limit: keysMax, used: keysMax });
  });

  test('revives no expired key beyond that number', async () => {
    const demo = await issueKey(stores.nats.bucket, 'demo', { account: 'expired' });
    const past = '2026-01-01T00:00:00.000Z';
    const late = await send('POST', '/v2/user/keys', demo, { label: 'late', expires_at: past });
    expect(late.body).toMatchObject({ status: 'expired' });
    const path = `/v2/user/keys/${late.body.id}`;
    const revive = () => send('PATCH', path, demo, { expires_at: null });
    const other = await send('POST', '/v2/user/keys', demo, {});
    expect(other.status).toBe(201);
    const full = await revive();
    expect([full.status, full.body.error]).toEqual([403, 'quota_exceeded']);
    expect((await send('PATCH', path, demo, { label: 'later' })).status).toBe(200);
    await send('DELETE', `/v2/user/keys/${other.body.id}`, demo);
    // The sixth request of a second is one too many.
    await expect
      .poll(async () => (await revive()).body)
      .toMatchObject({ label: 'later', status: 'valid' });
  });

  test('allows no more for concurrent requests either', async () => {
    const demo = await issueKey(stores.nats.bucket, 'demo', { account: 'hasty' });
    const made = await Promise.all(
      Array.from({ length: 4 }, () => send('POST', '/v2/user/keys', demo, {})),
    );
    expect(made.map(({ status }) => status).toSorted()).toEqual([201, 403, 403, 403]);
  });

  test('hides the keys of other accounts', async () => {
    const ours = await issueKey(stores.nats.bucket, 'pro', { account: 'ours' });
    const theirs = await issueKey(stores.nats.bucket, 'pro', { account: 'theirs' });
    const [own] = (await get(`${api.url}/v2/user/keys`, theirs)).body.keys;
    for (const method of ['PATCH', 'DELETE']) {
      const answer = await send(method, `/v2/user/keys/${own.id}`, ours, {});
      expect([answer.status, answer.body.error]).toEqual([404, 'not_found']);
    }
    expect((await get(`${api.url}/v2/user/keys`, ours)).body.keys).toHaveLength(1);
    await elsewhere(theirs, 200);
  });

  test('a repeated request with the same Idempotency-Key creates one key, in any process', async () => {
    const first = await issueKey(stores.nats.bucket, 'individual', { account: 'repeating' });
    const post = (url: string, idempotencyKey: string, body: object) =>
      get(`${url}/v2/user/keys`, first, {
        method: 'POST',
        body: JSON.stringify(body),
        headers: { 'Content-Type': 'application/json', 'Idempotency-Key': idempotencyKey },
      });
    const answers = await Promise.all(
      [api, other, api, other].map(({ url }) => post(url, 'a7f3', { label: 'x' })),
    );
    answers.push(await post(api.url, 'a7f3', { label: 'x' }));
    const [one] = answers;
    for (const { status, body } of answers) expect([status, body]).toEqual([201, one?.body]);
    expect((await get(`${other.url}/v2/user/me`, one?.body.key)).body.key.id).toBe(one?.body.id);
    const list = (await get(`${api.url}/v2/user/keys`, first)).body.keys;
    expect(list).toHaveLength(2);

    const changed = await post(other.url, 'a7f3', { label: 'y' });
    const issue = { path: 'Idempotency-Key', message: expect.stringContaining('another body') };
    expect([changed.status, changed.body.issues]).toEqual([400, [issue]]);
    expect((await post(api.url, 'x'.repeat(256), {})).status).toBe(400);
    // Repetitions of another key of the account are separate.
    const apart = await get(`${api.url}/v2/user/keys`, one?.body.key, {
      method: 'POST',
      body: JSON.stringify({ label: 'x' }),
      headers: { 'Content-Type': 'application/json', 'Idempotency-Key': 'a7f3' },
    });
    expect([apart.status, apart.body.id === one?.body.id]).toEqual([201, false]);
  });

  test.each([
    [{ label: 'x'.repeat(201) }, 'label'],
    [{ label: 'red \x1b[31m' }, 'label'],
    [{ label: 'clear \x9b2J' }, 'label'],
    [{ label: 'two\nlines' }, 'label'],
    [{ labels: 'x' }, 'labels'],
    [{ label: 7 }, 'label'],
    [{ expires_at: 'tomorrow' }, 'expires_at'],
  ])('rejects the body %j by %s', async (body, path) => {
    const key = await issueKey(stores.nats.bucket, 'pro');
    const answer = await send('POST', '/v2/user/keys', key, body);
    expect([answer.status, answer.body.issues[0].path]).toEqual([400, path]);
  });

  test.each(['/v2/user/keys', '/mcp'])('rejects compressed bodies: %s', async (path) => {
    const key = await issueKey(stores.nats.bucket, 'pro');
    const answer = await get(api.url + path, key, {
      method: 'POST',
      body: gzipSync('{}'),
      headers: { 'Content-Type': 'application/json', 'Content-Encoding': 'gzip' },
    });
    expect([answer.status, answer.body.error]).toEqual([415, 'unsupported_media_type']);
  });
});

describe('/v2/user/me, /v2/user/telemetry, /v2/tiers', () => {
  test('show the account, its tier, and the requests of all processes today', async () => {
    const key = await issueKey(stores.nats.bucket, 'individual', { account: 'counted' });
    const me = (await get(`${api.url}/v2/user/me`, key)).body;
    expect(me).toMatchObject({ account: 'counted', key: { is_current: true, status: 'valid' } });
    expect(me.tier).toMatchObject({ name: 'individual', requests_per_second: 20, max_streams: 20 });
    const tiers = (await get(`${api.url}/v2/tiers`, key)).body.tiers;
    expect(tiers.map((one: { name: string }) => one.name)).toEqual(['demo', 'individual', 'pro']);
    expect(tiers[1]).toEqual(me.tier);

    const demo = await issueKey(stores.nats.bucket, 'demo', { account: 'watched' });
    const used = (await get(`${api.url}/v2/user/telemetry`, demo)).body;
    expect(used.stream_seconds).toEqual({ today: 0, quota: 10_800, left: 10_800 });
    expect(used.sessions).toEqual({ open: 0, quota: 2 });

    // Two so far; the third is counted before its response.
    expect((await get(`${api.url}/v2/user/telemetry`, key)).body.requests).toEqual({
      today: 3,
      per_second: 20,
    });
    let asked = 3;
    for (;;) {
      asked += 1;
      const { today } = (await get(`${other.url}/v2/user/telemetry`, key)).body.requests;
      if (today === asked) break;
      await delay(200);
    }
  });

  test('the requests of many accounts reach other processes, the last ones when a process ends', async () => {
    const bucket = await openKv(stores.nats.nats, 'usage_of_many', { ttlMs: USAGE_TTL_MS });
    const [own, others] = [
      await openUsage({ bucket, logger: silent }),
      await openUsage({ bucket, logger: silent }),
    ];
    const accounts = Array.from({ length: 120 }, (_, n) => `one of many ${n}`);
    const counted = async (count: number) => {
      while (accounts.some((account) => others.today(account) !== count)) await delay(20);
    };
    for (const account of accounts) own.count(account);
    await counted(1);
    for (const account of accounts) own.count(account);
    await own.close();
    await counted(2);
    await others.close();
  });
});
