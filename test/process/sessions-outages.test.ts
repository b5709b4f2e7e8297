import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Sessions } from '../../api/sessions/sessions.ts';
import { connectNats } from '../../infra/nats/connection.ts';
import {
  type Api,
  type Broker,
  makeStream,
  startApi,
  startBroker,
} from '../support/feed-harness.ts';
import { ask, caller, eventually, listen, newAccount } from '../support/session-clients.ts';

const FEED = 'sessions-feed';
const logger = pino({ level: 'silent' });

let broker: Broker;
let one: Api;
let other: Api;
const nowMs = Date.parse('2026-05-01T12:00:00Z');

beforeAll(async () => {
  broker = await startBroker();
  await makeStream(broker.nats, FEED);
  one = await startApi({ nats: broker.nats, stream: FEED, now: () => nowMs });
  other = await startApi({ nats: broker.nats, stream: FEED, now: () => nowMs });
});

afterAll(async () => {
  await one?.close();
  await other?.close();
  await broker?.close();
});

/** The sessions of another process, whose connection can be cut without warning. */
async function process(): Promise<{ sessions: Sessions; crash: () => Promise<void> }> {
  const nats = await connectNats({ url: broker.url, name: 'another process' });
  const sessions = await Sessions.start({ nats, logger, now: () => nowMs });
  return { sessions, crash: () => nats.close() };
}

describe('sessions of a crashed process', () => {
  test('do not keep a client from opening another', async () => {
    const account = newAccount('demo');
    const { sessions, crash } = await process();
    await sessions.open(caller(account, 'demo'), null);
    await sessions.open(caller(account, 'demo'), null);
    await eventually(
      () => ask(one, account, '/sessions'),
      (list) => list.total_count === 2,
    );
    expect((await listen(one, account)).status).toBe(403);
    await crash();
    const clients = [await listen(one, account), await listen(other, account)];
    expect(clients.map(({ status }) => status)).toEqual([200, 200]);
    const { data } = await eventually(
      () => ask(one, account, '/sessions/history'),
      (history) => history.total_count === 2,
    );
    expect(data.map(({ end }: { end: string }) => end)).toEqual(['process_lost', 'process_lost']);
    for (const client of clients) client.close();
  });

  test('stop counting by themselves', async () => {
    const account = newAccount('pro');
    const { sessions, crash } = await process();
    await sessions.open(caller(account, 'pro'), null);
    await eventually(
      () => ask(one, account, '/sessions'),
      (list) => list.total_count === 1,
    );
    await crash();
    for (const api of [one, other]) {
      await eventually(
        () => ask(api, account, '/sessions'),
        (list) => list.total_count === 0,
      );
    }
  });

  test('count again if the process had not crashed after all', async () => {
    const account = newAccount('demo');
    const { sessions, crash } = await process();
    await sessions.open(caller(account, 'demo'), null);
    await sessions.open(caller(account, 'demo'), null);
    // The server stops: no heartbeats arrive, but no process is gone.
    await broker.stop();
    await broker.start();
    const { total_count } = await eventually(
      () => ask(one, account, '/sessions'),
      (list) => list.total_count === 2,
    );
    expect(total_count).toBe(2);
    await eventually(
      () => listen(one, account),
      ({ status }) => status === 403,
    );
    await crash();
  });
});

describe('without NATS', () => {
  test('no client is refused for sessions of other processes', async () => {
    const apart = await startBroker();
    await makeStream(apart.nats, FEED);
    const [here, there] = [
      await Sessions.start({ nats: apart.nats, logger, now: () => nowMs }),
      await connectNats({ url: apart.url, name: 'another process' }),
    ];
    const elsewhere = await Sessions.start({ nats: there, logger, now: () => nowMs });
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
