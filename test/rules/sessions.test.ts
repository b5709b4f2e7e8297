import { beforeAll, describe, expect, test } from 'vitest';
import { openKv } from '../../infra/nats/kv.ts';
import type { Api } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import {
  ask,
  caller,
  eventually,
  listed,
  listen,
  newAccount,
  startPair,
  used,
} from '../support/session-clients.ts';

const FEED = 'sessions-feed';

const pair = forFile(() => startPair(FEED, () => nowMs));
let one: Api;
let other: Api;
let nowMs = Date.parse('2026-05-01T12:00:00Z');

beforeAll(() => {
  ({ one, other } = pair);
});

describe('open streams of an account', () => {
  test('are counted and listed over all processes, and a refusal names the quota', async () => {
    const account = newAccount('demo');
    const clients = [await listen(one, account), await listen(other, account)];
    expect(clients.map(({ status }) => status)).toEqual([200, 200]);
    for (const api of [one, other]) {
      const { data, total_count } = await listed(api, account, 2);
      expect([data.length, total_count]).toEqual([2, 2]);
      const refused = await listen(api, account);
      expect(refused.status).toBe(403);
      expect(JSON.parse(refused.body)).toMatchObject({
        error: 'quota_exceeded',
        quota: { name: 'max_sessions', limit: 2, used: 2 },
      });
      expect(data[0]).toEqual({
        id: expect.any(String),
        stream_id: null,
        started_at: new Date(nowMs).toISOString(),
      });
    }
    clients[0]?.close();
    await listed(other, account, 1);
    const next = await listen(other, account);
    expect(next.status).toBe(200);
    next.close();
    clients[1]?.close();
  });

  test.each([
    ['an account', () => caller(newAccount('demo'), 'demo')],
    ['a visitor', () => caller('', 'demo')],
  ])('of %s may begin just before another one ends', async (_who, callerOf) => {
    const { sessions, crash } = await pair.process();
    const own = callerOf();
    const first = await sessions.open(own, null);
    await sessions.open(own, null);
    const next = sessions.open(own, null);
    first.close('client_left', 0);
    await next;
    await expect(sessions.open(own, null)).rejects.toThrow('max_sessions');
    await crash();
  });

  test('never exceed the quota of one process, even if many are opened at once', async () => {
    const account = newAccount('individual');
    const clients = await Promise.all(Array.from({ length: 30 }, () => listen(one, account)));
    expect(clients.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(clients.filter(({ status }) => status === 403)).toHaveLength(20);
    for (const client of clients) client.close();
  });

  // The quota is not exact at every instant: two processes may admit sessions at the same moment, before
  // either has the other's record. It holds again once the newest of them have ended.
  test('that two processes admit at once beyond the quota end, the newest first', async () => {
    const account = newAccount('individual');
    const open = async ({ sessions }: Api) => {
      const session = await sessions.open(caller(account, 'individual'), null);
      void session.overQuota.then(() => session.close('quota_used_up', 0));
    };
    // Nothing is awaited in between, so neither process can know of the other's sessions.
    await Promise.all([one, other].flatMap((api) => Array.from({ length: 10 }, () => open(api))));
    const { data } = await listed(one, account, 10, '/sessions/history');
    expect(data.every(({ end }: { end: string }) => end === 'quota_used_up')).toBe(true);
    for (const api of [one, other]) {
      await listed(api, account, 10);
    }
  });

  test('end with a reason when they exceed the quota', async () => {
    const account = newAccount('demo');
    const client = await listen(one, account);
    // Keys of higher tiers may open more for the same account, here two that are older.
    nowMs -= 1_000;
    const older = [
      await other.sessions.open(caller(account, 'pro'), null),
      await other.sessions.open(caller(account, 'pro'), null),
    ];
    nowMs += 1_000;
    await client.until(({ ended }) => ended);
    expect(client.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"quota_used_up"}' });
    for (const session of older) session.close('client_left', 0);
  });

  test('are all counted in the history, even if only a few are listed', async () => {
    const account = newAccount('pro');
    for (let n = 0; n < 3; n += 1) {
      const session = await one.sessions.open(caller(account, 'pro'), null);
      session.close('client_left', n);
    }
    const { data } = await listed(other, account, 3, '/sessions/history?limit=2');
    expect(data).toHaveLength(2);
  });

  test('are listed as history after they end', async () => {
    const account = newAccount('pro');
    const client = await listen(one, account);
    nowMs += 5_000;
    client.close();
    const { data } = await listed(other, account, 1, '/sessions/history');
    expect(data).toEqual([
      {
        id: expect.any(String),
        stream_id: null,
        started_at: new Date(nowMs - 5_000).toISOString(),
        ended_at: new Date(nowMs).toISOString(),
        end: 'client_left',
        events: 0,
      },
    ]);
    await used(other, account, 5);
  });
});

describe('the record of a process', () => {
  /** The entries of the bucket that `isOne` accepts. */
  async function entries(isOne: (key: string, value: string) => boolean) {
    const bucket = await openKv(pair.broker.nats, 'sessions');
    const found: { key: string; revision: number; bytes: number }[] = [];
    const stop = new AbortController();
    for await (const event of bucket.watch(stop.signal)) {
      if (event.type === 'initialised') stop.abort();
      if (event.type !== 'put') continue;
      const { key, revision, value } = event;
      if (isOne(key, new TextDecoder().decode(value)))
        found.push({ key, revision, bytes: value.length });
    }
    return { bucket, found };
  }

  test('is written in small parts, and only those that changed', async () => {
    const { sessions, crash } = await pair.process();
    const accounts = Array.from({ length: 2_000 }, (_, n) => `one of many ${n}`);
    const open = await Promise.all(accounts.map((one) => sessions.open(caller(one, 'pro'), null)));
    const allAt = (count: number) =>
      eventually(
        async () => accounts.every((one) => other.sessions.list(one).length === count),
        (all) => all,
      );
    await allAt(1);
    const { found } = await entries((_key, value) => value.includes(open[0]?.id ?? '-'));
    const [, process = ''] = found[0]?.key.split('.') ?? [];
    const ofProcess = (key: string) => key.startsWith(`part.${process}.`);
    const before = await entries(ofProcess);
    expect(before.found.length).toBeGreaterThan(50);
    // All in one message are 200 KB.
    expect(Math.max(...before.found.map(({ bytes }) => bytes))).toBeLessThan(10_000);
    const beat = async () => (await before.bucket.get(`heartbeat.${process}`))?.revision ?? 0;
    const since = await beat();
    await eventually(beat, (revision) => revision > since);
    open[0]?.close('client_left', 0);
    await eventually(
      async () => other.sessions.list(accounts[0] ?? '').length,
      (count) => count === 0,
    );
    const after = await entries(ofProcess);
    const written = after.found.filter(
      ({ key, revision }) => before.found.find((one) => one.key === key)?.revision !== revision,
    );
    expect(written.map(({ key }) => key)).toEqual([found[0]?.key]);
    for (const session of open.slice(1)) session.close('client_left', 0);
    await allAt(0);
    await crash();
  });

  test('is written again by a process that others considered dead', async () => {
    const account = newAccount('pro');
    const { sessions, crash } = await pair.process();
    const { id } = await sessions.open(caller(account, 'pro'), null);
    await listed(one, account, 1);
    const { bucket, found } = await entries((_key, value) => value.includes(id));
    const [part] = found;
    await bucket.put(part?.key ?? '', JSON.stringify({ used: { day: '', ms: {} }, open: {} }));
    await listed(one, account, 0);
    await bucket.delete(`heartbeat.${part?.key.split('.')[1]}`);
    await listed(one, account, 1);
    await crash();
  });
});

describe('seconds of a day', () => {
  test('end the streams that use them up, refuse new ones, and are available again at midnight', async () => {
    nowMs = Date.parse('2026-05-02T10:00:00Z');
    const account = newAccount('demo');
    const clients = [await listen(one, account), await listen(other, account)];
    // Two streams use up 10,800 s together.
    nowMs += 5_399_000;
    await used(one, account, 10_798);
    nowMs += 1_000;
    for (const client of clients) {
      await client.until(({ ended }) => ended);
      expect(client.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"quota_used_up"}' });
    }
    const { data } = await listed(one, account, 2, '/sessions/history');
    expect(data.map(({ end }: { end: string }) => end)).toEqual(['quota_used_up', 'quota_used_up']);
    for (const api of [one, other]) {
      const refused = await listen(api, account);
      expect(refused.status).toBe(403);
      expect(JSON.parse(refused.body).quota).toEqual({
        name: 'stream_seconds_per_day',
        limit: 10_800,
        used: 10_800,
      });
    }
    nowMs = Date.parse('2026-05-03T00:00:00Z');
    const next = await listen(one, account);
    expect(next.status).toBe(200);
    nowMs += 60_000;
    expect((await ask(one, account, '/sessions')).used_seconds_today).toBe(60);
    next.close();
  });

  test('count for the day on which they pass if a stream lasts over midnight', async () => {
    nowMs = Date.parse('2026-05-04T23:59:50Z');
    const account = newAccount('demo');
    const client = await listen(one, account);
    nowMs += 30_000;
    await used(other, account, 20);
    client.close();
    const { used_seconds_today } = await listed(other, account, 0);
    expect(used_seconds_today).toBe(20);
  });
});
