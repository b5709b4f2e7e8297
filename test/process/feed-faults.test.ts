// The order feed under faults: clients that are disconnected or do not read, a server that is down, a
// stream that lost messages. The rule is always the same: every event once and in order, or a gap.
import { setImmediate } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { cursorOf } from '../../api/feed/cursor.ts';
import { type FeedMatch, feedMessageId } from '../../ingest/contract.ts';
import {
  type Api,
  type Broker,
  makeStream,
  publish,
  startApi,
  startBroker,
} from '../support/feed-harness.ts';
import { Client, txHashes } from '../support/raw-client.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { until } from '../support/service.ts';
import { market, match, naivelyPasses, randomMatch, seeded } from '../unit/feed-matches.ts';

const STREAM = 'faults';

let broker: Broker;
let api: Api;

beforeAll(async () => {
  broker = await startBroker();
});

afterEach(async () => {
  await api.close();
  await broker.nats.jsm.streams.delete(STREAM);
});

afterAll(async () => {
  await broker.close();
});

async function start(
  stored: readonly FeedMatch[],
  options: Omit<Parameters<typeof startApi>[0], 'nats'> = {},
): Promise<void> {
  await makeStream(broker.nats, STREAM);
  await publish(broker.nats, STREAM, stored);
  api = await startApi({ nats: broker.nats, stream: STREAM, ...options });
}

/** Match n with a question of many bytes. */
function large(n: number, bytes: number): FeedMatch {
  return match(n, { market: market({ question: 'x'.repeat(bytes) }) });
}

function range<T>(first: number, last: number, make: (n: number) => T): T[] {
  return Array.from({ length: last - first + 1 }, (_, index) => make(first + index));
}

function at(sequence: number, one: FeedMatch): string {
  return String(cursorOf(sequence, feedMessageId(one.txHash, one.taker.orderHash, 0)));
}

function hashes(matches: readonly FeedMatch[]): string[] {
  return matches.map(({ txHash }) => txHash);
}

describe('a client that is disconnected 50 times while matches arrive', () => {
  test.each([
    ['', 4_096],
    ['', 32],
    ['tags=sports,5m&min_price=25', 32],
  ])('sees every match once, in order (%j, a ring of %i)', async (query, ringEventsMax) => {
    const seed = TEST_SEED;
    console.info(`seed ${seed}`);
    const random = seeded(seed);
    const below = (count: number) => Math.floor(random() * count);
    const matches = range(1, 4_000, (n) => randomMatch(n, random));
    const wanted = hashes(matches.slice(1).filter((one) => naivelyPasses(query, one)));
    const [first = match(1)] = matches;
    await start([first], { ringEventsMax });
    const seen: string[] = [];
    let progress = Promise.withResolvers<void>();

    async function publishAll(): Promise<void> {
      for (let next = 1; next < matches.length; ) {
        const count = 1 + below(40);
        await publish(broker.nats, STREAM, matches.slice(next, next + count));
        next += count;
        // Not far ahead of the client, so that it is cut while live as well as while it reads.
        const reached = wanted.filter((hash) => Number(hash) <= next).length;
        while (reached - seen.length > 100) await progress.promise;
      }
    }

    async function readAll(): Promise<void> {
      let lastEventId = at(1, first);
      for (let cuts = 0; seen.length < wanted.length; cuts += 1) {
        const headers = { 'Last-Event-ID': lastEventId };
        const client = new Client(
          api.port,
          below(2) === 0 ? { query, headers } : { query: `${query}&lastEventId=${lastEventId}` },
        );
        const before = seen.length;
        const left = wanted.length - before;
        const until = cuts < 50 ? Math.min(left, below(60)) : left;
        await client.until(({ orders }) => {
          seen.push(...txHashes(orders.slice(seen.length - before)));
          progress.resolve();
          progress = Promise.withResolvers<void>();
          return seen.length - before >= until;
        });
        client.close();
        expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
        lastEventId = client.lastEventId ?? lastEventId;
        // What came in after the last look counts as seen by the client.
        seen.push(...txHashes(client.orders.slice(seen.length - before)));
        expect(cuts).toBeLessThan(1_000);
      }
    }

    await Promise.all([publishAll(), readAll()]);
    expect(seen).toEqual(wanted);
  });
});

describe('a client that does not read', () => {
  test('is disconnected at its limit while another gets everything, and resumes', async () => {
    await start([]);
    const stalled = await new Client(api.port).begun();
    const reading = await new Client(api.port).begun();
    stalled.socket.pause();
    // 40 MB: more than the bound and all that both sockets can hold.
    const matches = range(1, 400, (n) => large(n, 100_000));
    // It is disconnected while the other one reads; it must take what was sent to it within some seconds.
    const isRead = ({ orders }: Client) => {
      if (api.feed.figures().listeners === 1) stalled.socket.resume();
      return orders.length === matches.length;
    };
    await Promise.all([publish(broker.nats, STREAM, matches), reading.until(isRead)]);
    expect(txHashes(reading.orders)).toEqual(hashes(matches));
    reading.close();
    await stalled.until(({ ended }) => ended);
    expect(stalled.orders.length).toBeLessThan(matches.length);
    expect(stalled.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"too_slow"}' });
    const resumed = new Client(api.port, { query: `lastEventId=${stalled.lastEventId}` });
    const missing = matches.length - stalled.orders.length;
    await resumed.until(({ orders }) => orders.length === missing);
    expect(txHashes([...stalled.orders, ...resumed.orders])).toEqual(hashes(matches));
    resumed.close();
  });

  test('waits with its cursor only while it reads stored events', async () => {
    const matches = range(1, 1_200, (n) => large(n, 30_000));
    await start(matches, { ringEventsMax: 8, chunkBytesMax: 10_000_000 });
    const [first = match(1)] = matches;
    const client = await new Client(api.port, { query: `lastEventId=${at(1, first)}` }).begun();
    client.socket.pause();
    // Another one reads everything: the process did what it could for the first meanwhile.
    const other = new Client(api.port, { query: `lastEventId=${at(1, first)}` });
    await other.until(({ orders }) => orders.length === 1_199);
    other.close();
    await broker.nats.jsm.streams.purge(STREAM, { seq: 1_101 });
    client.socket.resume();
    await client.until(({ lastEventId }) => lastEventId === at(1_200, matches[1_199] ?? first));
    const gapAt = client.blocks.findIndex(({ event }) => event === 'gap');
    const before = client.blocks.slice(1, gapAt);
    const last = before.length + 1;
    expect(txHashes(before)).toEqual(hashes(matches.slice(1, last)));
    expect(JSON.parse(client.blocks[gapAt]?.data ?? '')).toEqual({
      requested: Number(before.at(-1)?.id),
      first_available: Number(at(1_101, matches[1_100] ?? first)),
    });
    expect(txHashes(client.blocks.slice(gapAt + 1))).toEqual(hashes(matches.slice(1_100)));
    client.close();
  });

  test('is disconnected after a time while it reads stored events', async () => {
    await start(
      range(1, 400, (n) => large(n, 100_000)),
      { stalledMsMax: 100 },
    );
    const client = await new Client(api.port, { query: `lastEventId=${at(1, match(1))}` }).begun();
    client.socket.pause();
    // The process has dropped the client, which cannot notice yet.
    const none = () => api.feed.status().detail.startsWith('0 listeners');
    while (!none()) await setImmediate();
    client.socket.resume();
    await client.until(({ ended }) => ended);
    expect(client.orders.length).toBeLessThan(399);
    expect(client.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"too_slow"}' });
  });
});

describe('while NATS is down', () => {
  test('listeners stay connected, and continue without a gap afterwards', async () => {
    await start(range(1, 3, match), { heartbeatMs: 60 });
    const client = await new Client(api.port, { query: `lastEventId=${at(1, match(1))}` }).begun();
    await publish(broker.nats, STREAM, range(4, 10, match));
    await client.until(({ orders }) => orders.length === 9);
    await broker.stop();
    while (broker.nats.connected) await client.until(beatsMore(client));
    expect(api.feed.status()).toEqual({ ready: false, detail: 'NATS is not connected' });
    await client.until(beatsMore(client));
    // Cursors in memory are served, others are refused at once.
    const known = await new Client(api.port, { query: `lastEventId=${at(8, match(8))}` }).until(
      ({ orders }) => orders.length === 2,
    );
    const unknown = new Client(api.port, { query: `lastEventId=${at(2, match(2))}` });
    await unknown.until(({ ended }) => ended);
    expect(unknown.status).toBe(503);
    expect(unknown.head.toLowerCase()).toContain('retry-after: ');
    await broker.start();
    await publish(broker.nats, STREAM, range(11, 20, match));
    await client.until(({ orders }) => orders.length === 19);
    await known.until(({ orders }) => orders.length === 12);
    expect(txHashes(client.orders)).toEqual(hashes(range(2, 20, match)));
    expect(txHashes(known.orders)).toEqual(hashes(range(9, 20, match)));
    // The lag is checked every second.
    while (!api.feed.status().ready) await client.until(beatsMore(client));
    client.close();
    known.close();
  });
});

describe('a stream that was replaced', () => {
  test.each([
    ['shorter than before', 5],
    ['longer than before', 60],
  ])('tells live and late clients of the gap: %s', async (_, stored) => {
    await start(range(1, 40, match));
    const live = await new Client(api.port).begun();
    const newer = range(1_001, 1_000 + stored, match);
    await broker.replace(async (nats) => {
      await makeStream(nats, STREAM);
      await publish(nats, STREAM, newer);
    });
    await live.until(({ orders }) => orders.length === stored);
    const gap = { requested: Number(at(40, match(40))), first_available: at(1, match(1_001)) };
    expect(live.blocks[2]).toEqual({
      event: 'gap',
      data: `{"requested":${gap.requested},"first_available":${gap.first_available}}`,
    });
    expect(txHashes(live.orders)).toEqual(hashes(newer));
    // One that comes later with an id of the lost feed gets all that was stored since.
    const query = `lastEventId=${gap.requested}`;
    // On a busy machine, the connection to the new server can be cut once more meanwhile.
    const late = await until(() => new Client(api.port, { query }).begun().catch(() => undefined));
    await late.until(({ orders }) => orders.length === stored);
    expect(late.blocks[1]).toEqual(live.blocks[2]);
    await publish(broker.nats, STREAM, [match(2_000)]);
    await live.until(({ orders }) => orders.length === stored + 1);
    await late.until(({ orders }) => orders.length === stored + 1);
    live.close();
    late.close();
  });

  test('a purge does not affect a live client', async () => {
    await start(range(1, 10, match));
    const live = await new Client(api.port).begun();
    await broker.nats.jsm.streams.purge(STREAM);
    await publish(broker.nats, STREAM, range(11, 15, match));
    await live.until(({ orders }) => orders.length === 5);
    expect(live.blocks.some(({ event }) => event === 'gap')).toBe(false);
    live.close();
  });
});

describe('a damaged message', () => {
  test('is a gap between the others, and the feed is not ready until it is removed', async () => {
    await makeStream(broker.nats, STREAM);
    await publish(broker.nats, STREAM, range(1, 41, match));
    await broker.damage(STREAM);
    api = await startApi({ nats: broker.nats, stream: STREAM, heartbeatMs: 60 });
    const resumed = async () => {
      const client = new Client(api.port, { query: `lastEventId=${at(12, match(12))}` });
      await client.until(({ orders }) => orders.at(-1)?.id === at(41, match(41)));
      expect(txHashes(client.orders)).toEqual(
        hashes([...range(13, 20, match), ...range(22, 41, match)]),
      );
      expect(client.blocks.filter(({ event }) => event === 'gap')).toEqual([
        {
          event: 'gap',
          data: `{"requested":${at(20, match(20))},"first_available":${at(22, match(22))}}`,
        },
      ]);
      return client;
    };
    const client = await resumed();
    const { ready, detail } = api.feed.status();
    expect(ready).toBe(false);
    // One that comes when the damage is known gets the same.
    (await resumed()).close();
    expect(detail).toMatch(/^faults is damaged: the server holds message 21 .*"Damaged data"$/);
    await broker.nats.jsm.streams.purge(STREAM, { seq: 22 });
    while (!api.feed.status().ready) await client.until(beatsMore(client));
    client.close();
  });
});

/** Holds once one more heartbeat came than now. */
function beatsMore(client: Client): () => boolean {
  const count = () => client.body.split(': heartbeat\n\n').length;
  const before = count();
  return () => count() > before;
}
