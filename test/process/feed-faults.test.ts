// The order feed under faults: clients that do not read, a server that is down, a stream that lost messages. The rule is
// always the same: every event once and in order, or a gap. Cuts, restarts and a replaced stream: feed-readers.test.ts.
import { setImmediate } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { FeedMatch } from '../../ingest/contract.ts';
import {
  type Api,
  type Broker,
  hashes,
  makeStream,
  matches,
  positionOf,
  publish,
  startApi,
  startBroker,
} from '../support/feed-harness.ts';
import { Client, txHashes } from '../support/raw-client.ts';
import { market } from '../unit/feed-matches.ts';

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

/** The first matches, with questions of many bytes. */
function large(count: number, bytes: number): FeedMatch[] {
  return matches(1, count, { market: market({ question: 'x'.repeat(bytes) }) });
}

/** A client that resumes after match n. */
const resumed = (n: number) => new Client(api.port, { query: `lastEventId=${positionOf(n)}` });

describe('a client that does not read', () => {
  test('is disconnected at its limit while another gets everything, and resumes', async () => {
    await start([]);
    const stalled = await new Client(api.port).begun();
    const reading = await new Client(api.port).begun();
    stalled.socket.pause();
    // 40 MB: more than the bound and all that both sockets can hold.
    const count = 400;
    // It is disconnected while the other one reads; it must read what was sent to it within some seconds.
    const isRead = ({ orders }: Client) => {
      if (api.feed.figures().listeners === 1) stalled.socket.resume();
      return orders.length === count;
    };
    await Promise.all([publish(broker.nats, STREAM, large(count, 100_000)), reading.until(isRead)]);
    expect(txHashes(reading.orders)).toEqual(hashes(1, count));
    reading.close();
    await stalled.until(({ ended }) => ended);
    expect(stalled.orders.length).toBeLessThan(count);
    expect(stalled.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"too_slow"}' });
    const again = new Client(api.port, { query: `lastEventId=${stalled.lastEventId}` });
    const missing = count - stalled.orders.length;
    await again.until(({ orders }) => orders.length === missing);
    expect(txHashes([...stalled.orders, ...again.orders])).toEqual(hashes(1, count));
    again.close();
  });

  test('keeps its position while it reads stored events', async () => {
    await start(large(1_200, 30_000), { ringEventsMax: 8, chunkBytesMax: 10_000_000 });
    const client = await resumed(1).begun();
    client.socket.pause();
    // Another one reads everything, so the process had time for the first one.
    const other = resumed(1);
    await other.until(({ orders }) => orders.length === 1_199);
    other.close();
    await broker.nats.jsm.streams.purge(STREAM, { seq: 1_101 });
    client.socket.resume();
    await client.until(({ lastEventId }) => lastEventId === positionOf(1_200));
    const gapAt = client.blocks.findIndex(({ event }) => event === 'gap');
    const before = client.blocks.slice(1, gapAt);
    expect(txHashes(before)).toEqual(hashes(2, before.length + 1));
    expect(JSON.parse(client.blocks[gapAt]?.data ?? '')).toEqual({
      requested: Number(before.at(-1)?.id),
      first_available: Number(positionOf(1_101)),
    });
    expect(txHashes(client.blocks.slice(gapAt + 1))).toEqual(hashes(1_101, 1_200));
    client.close();
  });

  test('is disconnected after a time while it reads stored events', async () => {
    await start(large(400, 100_000), { stalledMsMax: 100 });
    const client = await resumed(1).begun();
    client.socket.pause();
    // The process has dropped the client, but the client cannot notice yet.
    const none = () => api.feed.status().detail.startsWith('0 listeners');
    while (!none()) await setImmediate();
    client.socket.resume();
    await client.until(({ ended }) => ended);
    expect(client.orders.length).toBeLessThan(399);
    expect(client.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"too_slow"}' });
  });
});

describe('while NATS is down', () => {
  test('listeners stay connected and continue without a gap afterwards', async () => {
    await start(matches(1, 3), { heartbeatMs: 60 });
    const client = await resumed(1).begun();
    await publish(broker.nats, STREAM, matches(4, 10));
    await client.until(({ orders }) => orders.length === 9);
    await broker.stop();
    while (broker.nats.connected) await client.until(beatsMore(client));
    expect(api.feed.status()).toEqual({ ready: false, detail: 'NATS is not connected' });
    await client.until(beatsMore(client));
    // Cursors in memory are served, others are rejected at once.
    const known = await resumed(8).until(({ orders }) => orders.length === 2);
    const unknown = resumed(2);
    await unknown.until(({ ended }) => ended);
    expect(unknown.status).toBe(503);
    expect(unknown.head.toLowerCase()).toContain('retry-after: ');
    await broker.start();
    await publish(broker.nats, STREAM, matches(11, 20));
    await client.until(({ orders }) => orders.length === 19);
    await known.until(({ orders }) => orders.length === 12);
    expect(txHashes(client.orders)).toEqual(hashes(2, 20));
    expect(txHashes(known.orders)).toEqual(hashes(9, 20));
    // The lag is checked every second.
    while (!api.feed.status().ready) await client.until(beatsMore(client));
    client.close();
    known.close();
  });
});

test('a purge does not affect a live client', async () => {
  await start(matches(1, 10));
  const live = await new Client(api.port).begun();
  await broker.nats.jsm.streams.purge(STREAM);
  await publish(broker.nats, STREAM, matches(11, 15));
  await live.until(({ orders }) => orders.length === 5);
  expect(live.blocks.some(({ event }) => event === 'gap')).toBe(false);
  live.close();
});

describe('a damaged message', () => {
  test('is sent as a gap, and the feed is not ready until the message is removed', async () => {
    await makeStream(broker.nats, STREAM);
    await publish(broker.nats, STREAM, matches(1, 41));
    await broker.damage(STREAM);
    api = await startApi({ nats: broker.nats, stream: STREAM, heartbeatMs: 60 });
    const reread = async () => {
      const client = resumed(12);
      await client.until(({ orders }) => orders.at(-1)?.id === positionOf(41));
      expect(txHashes(client.orders)).toEqual([...hashes(13, 20), ...hashes(22, 41)]);
      expect(client.blocks.filter(({ event }) => event === 'gap')).toEqual([
        {
          event: 'gap',
          data: `{"requested":${positionOf(20)},"first_available":${positionOf(22)}}`,
        },
      ]);
      return client;
    };
    const client = await reread();
    const { ready, detail } = api.feed.status();
    expect(ready).toBe(false);
    // A client that connects when the damage is known gets the same.
    (await reread()).close();
    expect(detail).toMatch(/^faults is damaged: the server holds message 21 .*"Damaged data"$/);
    await broker.nats.jsm.streams.purge(STREAM, { seq: 22 });
    while (!api.feed.status().ready) await client.until(beatsMore(client));
    client.close();
  });
});

test('many damaged messages at the end of the feed are waited for once, not each', async () => {
  await makeStream(broker.nats, STREAM);
  // Messages of equal size that are mostly text.
  await publish(broker.nats, STREAM, large(60, 10_000));
  await broker.damage(
    STREAM,
    Array.from({ length: 20 }, (_, n) => (40.5 + n) / 60),
  );
  api = await startApi({ nats: broker.nats, stream: STREAM });
  const client = resumed(12);
  await client.until(({ orders }) => orders.length === 28);
  expect(txHashes(client.orders)).toEqual(hashes(13, 40));
  client.close();
});

/** A condition that holds after the next heartbeat. */
function beatsMore(client: Client): () => boolean {
  const count = () => client.body.split(': heartbeat\n\n').length;
  const before = count();
  return () => count() > before;
}
