import { beforeAll, describe, expect, test } from 'vitest';
import { Sessions } from '../../api/sessions/sessions.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import { silent } from '../support/api-harness.ts';
import { type Api, makeStream, startBroker } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import {
  caller,
  eventually,
  listed,
  listen,
  newAccount,
  startPair,
} from '../support/session-clients.ts';

const FEED = 'sessions-feed';

const pair = forFile(() => startPair(FEED, () => nowMs));
let one: Api;
let other: Api;
const nowMs = Date.parse('2026-05-01T12:00:00Z');

beforeAll(() => {
  ({ one, other } = pair);
});

describe('sessions of a crashed process', () => {
  test('do not keep a client from opening another', async () => {
    const account = newAccount('demo');
    const { sessions, crash } = await pair.process();
    await sessions.open(caller(account, 'demo'), null);
    await sessions.open(caller(account, 'demo'), null);
    await listed(one, account, 2);
    expect((await listen(one, account)).status).toBe(403);
    await crash();
    const clients = [await listen(one, account), await listen(other, account)];
    expect(clients.map(({ status }) => status)).toEqual([200, 200]);
    const { data } = await listed(one, account, 2, '/sessions/history');
    expect(data.map(({ end }: { end: string }) => end)).toEqual(['process_lost', 'process_lost']);
    for (const client of clients) client.close();
  });

  test('stop counting by themselves', async () => {
    const account = newAccount('pro');
    const { sessions, crash } = await pair.process();
    await sessions.open(caller(account, 'pro'), null);
    await listed(one, account, 1);
    await crash();
    for (const api of [one, other]) {
      await listed(api, account, 0);
    }
  });

  test('count again if the process had not crashed after all', async () => {
    const account = newAccount('demo');
    const { sessions, crash } = await pair.process();
    await sessions.open(caller(account, 'demo'), null);
    await sessions.open(caller(account, 'demo'), null);
    // The server is paused: no heartbeats arrive, but no process has ended.
    await pair.broker.stop();
    await pair.broker.start();
    const { total_count } = await listed(one, account, 2);
    expect(total_count).toBe(2);
    await eventually(
      () => listen(one, account),
      ({ status }) => status === 403,
    );
    await crash();
  });
});

describe('without NATS', () => {
  test('only the newest ended sessions are kept for the history', async () => {
    const apart = await startBroker();
    await makeStream(apart.nats, FEED);
    const sessions = await Sessions.start({ nats: apart.nats, logger: silent, now: () => nowMs });
    await apart.stop();
    const accounts = Array.from({ length: 21 }, (_, n) => `account ${n}`);
    for (const account of accounts) {
      for (let n = 0; n < 1_000; n += 1) {
        const session = await sessions.open(caller(account, 'pro'), null);
        session.close('client_left', n);
      }
    }
    await apart.start();
    await eventually(
      async () => apart.nats.connected,
      (connected) => connected,
    );
    const countOf = async (account = '') => (await sessions.history(account, 1)).count;
    await eventually(
      () => countOf(accounts.at(-1)),
      (count) => count === 1_000,
    );
    expect(await countOf(accounts[0])).toBe(0);
    expect(await countOf(accounts[1])).toBe(1_000);
    await sessions.close();
    await apart.close();
  });

  test('no client is refused for sessions of other processes', async () => {
    const apart = await startBroker();
    await makeStream(apart.nats, FEED);
    const [here, there] = [
      await Sessions.start({ nats: apart.nats, logger: silent, now: () => nowMs }),
      await connectNats({ url: apart.url, name: 'another process' }),
    ];
    const elsewhere = await Sessions.start({ nats: there, logger: silent, now: () => nowMs });
    const demo = caller('without NATS', 'demo');
    for (let i = 0; i < 2; i += 1) await elsewhere.open(demo, null);
    await eventually(
      async () => here.list(demo.account),
      (open) => open.length === 2,
    );
    await apart.stop();
    // Its listeners may have moved here.
    for (let i = 0; i < 2; i += 1) await here.open(demo, null);
    await expect(here.open(demo, null)).rejects.toMatchObject({ status: 403 });
    await apart.start();
    await Promise.all([here.close(), elsewhere.close()]);
    await there.close();
    await apart.close();
  });
});
