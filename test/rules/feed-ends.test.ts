// How event streams are admitted and end: session quotas, revoked keys, shutdowns, a JetStream stream
// that does not exist yet.
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { makeStream, publish, startFeeds } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Client } from '../support/raw-client.ts';
import { match } from '../unit/feed-matches.ts';

const feeds = forFile(startFeeds);

describe('sessions', () => {
  test('of a revoked key end normally, others stay', async () => {
    const { api, stream } = await feeds.over(0);
    const revoked = await new Client(api.port, { headers: { 'X-Account': 'revoked' } }).begun();
    const other = await new Client(api.port).begun();
    api.feed.endSessionsOf('key of revoked');
    await revoked.until(({ ended }) => ended);
    expect(revoked.blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"key_revoked"}' });
    await publish(feeds.nats, stream, [match(1)]);
    await other.until(({ orders }) => orders.length === 1);
    expect(other.ended).toBe(false);
    other.close();
  });

  test('keep counting in the totals when they end', async () => {
    const { api, stream } = await feeds.over(0);
    const client = await new Client(api.port).begun();
    await publish(feeds.nats, stream, [match(1)]);
    await client.until(({ orders }) => orders.length === 1);
    api.feed.endSessionsOf('key of tests');
    // The server has ended the listener, but its client has not read the end yet.
    for (let turn = 0; turn < 1_000 && api.feed.figures().listeners > 0; turn += 1) await undefined;
    expect(api.feed.figures()).toMatchObject({ listeners: 0, events: 1 });
    await client.until(({ ended }) => ended);
    expect(api.feed.figures().events).toBe(1);
  });

  test('end when the feed stops, and later requests are 503', async () => {
    const { api } = await feeds.over(0);
    const clients = Array.from({ length: 20 }, () => new Client(api.port));
    for (const client of clients) await client.begun();
    await Promise.all([
      api.feed.stop(500),
      ...clients.map((client) => client.until(({ ended }) => ended)),
    ]);
    for (const { blocks } of clients) {
      expect(blocks.at(-1)).toEqual({ event: 'end', data: '{"reason":"shutdown"}' });
    }
    // Each gets its own reconnection time.
    const retries = clients.map(({ blocks }) => Number(blocks.at(-2)?.retry));
    for (const ms of retries) expect(ms >= 500 && ms < 3_000).toBe(true);
    expect(new Set(retries).size).toBeGreaterThan(10);
    const late = new Client(api.port);
    await late.until(({ ended }) => ended);
    expect(late.status).toBe(503);
    expect(api.feed.status().ready).toBe(false);
  });

  test('wait for a stream that does not exist yet', async () => {
    const stream = feeds.newName();
    const api = await feeds.serve(stream);
    expect(api.feed.status().ready).toBe(false);
    const early = new Client(api.port);
    await early.until(({ ended }) => ended);
    expect(early.status).toBe(503);
    await makeStream(feeds.nats, stream);
    // Readiness can only be polled.
    while (!api.feed.status().ready) await delay(20);
    const client = await new Client(api.port).begun();
    await publish(feeds.nats, stream, [match(1)]);
    await client.until(({ orders }) => orders.length === 1);
    client.close();
  });
});
