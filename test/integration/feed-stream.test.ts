// The order feed over real HTTP against a real nats-server: the wire format, resuming from the
// ring and from the stream, gaps, filters, quotas, ends. What happens through outages, cuts and
// slow readers is in feed-faults.
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { position } from '../../api/feed/position.ts';
import { feedMessageId } from '../../ingest/contract-feed.ts';
import {
  address,
  match,
  naivelyPasses,
  newSeed,
  randomMatch,
  seeded,
} from '../unit/feed-matches.ts';
import {
  type Api,
  type Broker,
  Client,
  makeStream,
  publish,
  startApi,
  startBroker,
  txHashes,
} from './feed-harness.ts';

let broker: Broker;
let streams = 0;
const apis: Api[] = [];

beforeAll(async () => {
  broker = await startBroker();
});

afterAll(async () => {
  await Promise.all(apis.map((api) => api.close()));
  await broker.close();
});

/** A feed over a new stream that holds matches 1 … `stored` before the feed starts. */
async function feedOver(
  stored: number,
  options: { ringEventsMax?: number; heartbeatMs?: number } = {},
): Promise<{ api: Api; stream: string }> {
  streams += 1;
  const stream = `feed${streams}`;
  await makeStream(broker.nats, stream);
  await publish(broker.nats, stream, range(1, stored));
  const api = await startApi({ nats: broker.nats, stream, ...options });
  apis.push(api);
  return { api, stream };
}

function range(first: number, last: number) {
  return Array.from({ length: last - first + 1 }, (_, index) => match(first + index));
}

/** Position of match n where it is message n of its stream. */
function at(n: number): string {
  const { txHash, taker } = match(n);
  return String(position(n, feedMessageId(txHash, taker.orderHash, 0)));
}

function hashes(first: number, last: number): string[] {
  return range(first, last).map(({ txHash }) => txHash);
}

function resume(api: Api, lastEventId: string): Client {
  return new Client(api.port, { headers: { 'Last-Event-ID': lastEventId } });
}

describe('wire format', () => {
  test('begins at once, then writes one block per event, byte for byte', async () => {
    const { api, stream } = await feedOver(2);
    const compact = await new Client(api.port).begun();
    const labelled = await new Client(api.port, { query: 'format=json' }).begun();
    await publish(broker.nats, stream, [match(3)]);
    await compact.until(({ orders }) => orders.length === 1);
    await labelled.until(({ orders }) => orders.length === 1);
    for (const [client, format] of [
      [compact, 'compact'],
      [labelled, 'json'],
    ] as const) {
      const json = encodeMatch(match(3), format);
      expect(client.body).toBe(
        `retry: 2000\n\nid: ${at(2)}\n\nid: ${at(3)}\nevent: order\ndata: ${json}\n\n`,
      );
      expect(client.status).toBe(200);
      expect(client.head.toLowerCase().split('\r\n')).toEqual(
        expect.arrayContaining([
          'content-type: text/event-stream',
          'cache-control: no-cache, no-transform',
          'x-accel-buffering: no',
        ]),
      );
      client.close();
    }
  });

  test('sends the heartbeat, and the position only where events were filtered out', async () => {
    const { api, stream } = await feedOver(1, { heartbeatMs: 150 });
    const all = await new Client(api.port).begun();
    const none = await new Client(api.port, { query: `traders=${address(99)}` }).begun();
    await publish(broker.nats, stream, [match(2)]);
    const beats = (client: Client) => client.body.split(': heartbeat\n\n').length - 1;
    await none.until((client) => client.lastEventId === at(2) && beats(client) > 1);
    expect(none.body).toContain(`: heartbeat\n\nid: ${at(2)}\n\n`);
    expect(none.blocks.filter(({ id }) => id === at(2))).toHaveLength(1);
    await all.until((client) => beats(client) > 1);
    expect(all.blocks.filter(({ id }) => id === at(2))).toHaveLength(1);
    all.close();
    none.close();
  });

  test('ignores unknown parameters, and answers HEAD with the head alone', async () => {
    const { api } = await feedOver(0);
    const client = await new Client(api.port, { query: 'padding=true&evs_preamble=1' }).begun();
    expect(client.body).toBe('retry: 2000\n\n');
    client.close();
    const head = new Client(api.port, { method: 'HEAD' });
    await head.until(({ ended }) => ended);
    expect([head.status, head.body]).toEqual([200, '']);
  });

  test('is chunked for HTTP/1.1', async () => {
    const { api, stream } = await feedOver(1);
    const response = await fetch(`http://127.0.0.1:${api.port}/v1/stream/orders`);
    expect(response.headers.get('transfer-encoding')).toBe('chunked');
    await publish(broker.nats, stream, [match(2)]);
    const decoder = new TextDecoder();
    let text = '';
    for await (const bytes of response.body ?? []) {
      text += decoder.decode(bytes, { stream: true });
      if (text.includes('event: order\n') && text.endsWith('\n\n')) break;
    }
    expect(text).toMatch(/^retry: 2000\n\nid: \d+\n\nid: \d+\nevent: order\ndata: \[.*\]\n\n$/);
  });

  test('passes over a message that is not a match', async () => {
    const { api, stream } = await feedOver(0);
    const client = await new Client(api.port).begun();
    await broker.nats.js.publish(`${stream}.match`, 'no match');
    await publish(broker.nats, stream, [match(2)]);
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(2, 2));
    client.close();
  });
});

describe('resuming', () => {
  test('replays from the ring and goes on live', async () => {
    const { api, stream } = await feedOver(0);
    await publish(broker.nats, stream, range(1, 50));
    const first = await new Client(api.port, { query: `lastEventId=${at(20)}` }).until(
      ({ orders }) => orders.length === 30,
    );
    await publish(broker.nats, stream, range(51, 60));
    await first.until(({ orders }) => orders.length === 40);
    expect(txHashes(first.orders)).toEqual(hashes(21, 60));
    expect(first.orders.map(({ id }) => id)).toEqual(range(21, 60).map((_, i) => at(21 + i)));
    first.close();
  });

  test('replays from the stream across chunks, into a small ring, into live', async () => {
    const { api, stream } = await feedOver(3_000, { ringEventsMax: 64 });
    await publish(broker.nats, stream, range(3_001, 3_300));
    const clients = [1, 1_000, 1_024, 1_025, 2_999, 3_000, 3_299].map((seen) => ({
      seen,
      client: resume(api, at(seen)),
    }));
    await Promise.all(
      clients.map(({ seen, client }) =>
        client.until(({ orders }) => orders.length === 3_300 - seen),
      ),
    );
    await publish(broker.nats, stream, range(3_301, 3_400));
    for (const { seen, client } of clients) {
      await client.until(({ orders }) => orders.length === 3_400 - seen);
      expect(txHashes(client.orders)).toEqual(hashes(seen + 1, 3_400));
      expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
      client.close();
    }
  });

  test('0, an empty header and no header are live from now', async () => {
    const { api, stream } = await feedOver(5);
    const clients = [resume(api, '0'), resume(api, ''), new Client(api.port)];
    for (const client of clients) await client.begun();
    await publish(broker.nats, stream, [match(6)]);
    for (const client of clients) {
      await client.until(({ orders }) => orders.length === 1);
      expect(txHashes(client.orders)).toEqual(hashes(6, 6));
      client.close();
    }
  });

  test('a position that another process sent a moment ago is no gap', async () => {
    const { api, stream } = await feedOver(1);
    for (let n = 2; n <= 40; n += 2) {
      await publish(broker.nats, stream, [match(n)]);
      // The tail of this process may not have brought it yet.
      const client = await resume(api, at(n)).begun();
      await publish(broker.nats, stream, [match(n + 1)]);
      await client.until(({ orders }) => orders.length === 1);
      expect(txHashes(client.orders)).toEqual(hashes(n + 1, n + 1));
      expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
      client.close();
    }
  });

  test('the header wins over the parameter', async () => {
    const { api } = await feedOver(5);
    const client = new Client(api.port, {
      query: 'lastEventId=nonsense',
      headers: { 'Last-Event-ID': at(4) },
    });
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(5, 5));
    client.close();
  });
});

describe('gaps', () => {
  test('a position older than what is kept goes on at the first kept', async () => {
    const { api, stream } = await feedOver(40);
    await broker.nats.jsm.streams.purge(stream, { seq: 31 });
    const client = await resume(api, at(12)).until(({ orders }) => orders.length === 10);
    const [, gap] = client.blocks;
    expect(gap).toEqual({
      event: 'gap',
      data: `{"requested":${at(12)},"first_available":${at(31)}}`,
    });
    expect(txHashes(client.orders)).toEqual(hashes(31, 40));
    client.close();
  });

  test('after a purge of everything it goes on live, from a position that holds', async () => {
    const { api, stream } = await feedOver(40);
    await broker.nats.jsm.streams.purge(stream);
    const client = await resume(api, at(12)).until(({ blocks }) => blocks.length === 2);
    expect(client.blocks[1]).toEqual({
      id: at(40),
      event: 'gap',
      data: `{"requested":${at(12)},"first_available":${at(40)}}`,
    });
    await publish(broker.nats, stream, [match(41)]);
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(41, 41));
    client.close();
  });

  test('what the ring still holds is no gap, though the stream removed it', async () => {
    const { api, stream } = await feedOver(0);
    await publish(broker.nats, stream, range(1, 40));
    await resume(api, at(39)).until(({ orders }) => orders.length === 1);
    await broker.nats.jsm.streams.purge(stream);
    const client = await resume(api, at(12)).until(({ orders }) => orders.length === 28);
    expect(txHashes(client.orders)).toEqual(hashes(13, 40));
    client.close();
  });

  test('a position ahead of the feed goes on live', async () => {
    const { api, stream } = await feedOver(3);
    for (const requested of ['99991234', '18446744073709551615']) {
      const client = await resume(api, requested).until(({ blocks }) => blocks.length === 2);
      expect(client.blocks[1]?.data).toBe(`{"requested":${requested},"first_available":${at(3)}}`);
      client.close();
    }
    const client = await resume(api, '99991234').until(({ blocks }) => blocks.length === 2);
    await publish(broker.nats, stream, [match(4)]);
    await client.until(({ orders }) => orders.length === 1);
    client.close();
  });

  test('a position whose check does not fit goes on at the message that has its place', async () => {
    const { api } = await feedOver(10);
    const wrong = String(Number(at(6)) + (at(6).endsWith('9999') ? -1 : 1));
    const client = await resume(api, wrong).until(({ orders }) => orders.length === 5);
    expect(client.blocks[1]).toEqual({
      event: 'gap',
      data: `{"requested":${wrong},"first_available":${at(6)}}`,
    });
    expect(txHashes(client.orders)).toEqual(hashes(6, 10));
    client.close();
  });
});

describe('filters', () => {
  test('deliver what a naive recomputation selects, live and replayed', async () => {
    const seed = newSeed();
    console.info(`seed ${seed}`);
    const random = seeded(seed);
    const { api, stream } = await feedOver(1, { ringEventsMax: 32 });
    const published = Array.from({ length: 400 }, (_, index) => randomMatch(index + 2, random));
    const queries = [
      '',
      `traders=${address(3)},${address(5).toUpperCase().replace('0X', '0x')}`,
      'tags=CRYPTO,5m&series=btc-hourly,nfl',
      `traders=${address(1)}&tags=sports&min_usdc=1.5`,
      'min_shares=10&max_shares=30.5&min_price=20&max_price=66.6667',
      'series=nfl&max_usdc=12',
    ];
    const live = queries.map((query) => new Client(api.port, { query }));
    for (const client of live) await client.begun();
    await publish(broker.nats, stream, published);
    for (const [index, query] of queries.entries()) {
      const wanted = published.filter((one) => naivelyPasses(query, one));
      expect(wanted.length).toBeGreaterThan(0);
      const replayed = new Client(api.port, { query, headers: { 'Last-Event-ID': at(1) } });
      for (const client of [live[index] ?? replayed, replayed]) {
        await client.until(({ orders }) => orders.length >= wanted.length);
        expect(txHashes(client.orders)).toEqual(wanted.map(({ txHash }) => txHash));
        client.close();
      }
    }
  });

  test.each([
    ['traders=0x12', 'traders.0'],
    ['min_usdc=abc', 'min_usdc'],
    ['max_shares=-1', 'max_shares'],
    ['min_usdc=1&min_usdc=2', 'min_usdc'],
    ['min_price=100.01', 'min_price'],
    ['min_usdc=2&max_usdc=1', 'min_usdc'],
    ['format=xml', 'format'],
    ['lastEventId=12a', 'lastEventId'],
    ['lastEventId=-1', 'lastEventId'],
  ])('refuse %s with an issue', async (query, path) => {
    const [api] = apis;
    const client = new Client(api?.port ?? 0, { query });
    await client.until(({ ended }) => ended);
    expect(client.status).toBe(400);
    expect(JSON.parse(client.body)).toMatchObject({
      error: 'invalid_request',
      issues: [{ path }],
    });
  });
});

describe('sessions', () => {
  test('are bounded by tier, and given back', async () => {
    const { api } = await feedOver(0);
    const headers = { 'X-Account': 'demo' };
    const two = [new Client(api.port, { headers }), new Client(api.port, { headers })];
    for (const client of two) await client.begun();
    const third = new Client(api.port, { headers });
    await third.until(({ ended }) => ended);
    expect(third.status).toBe(403);
    expect(JSON.parse(third.body)).toMatchObject({ error: 'quota_exceeded' });
    two[0]?.close();
    let status = 403;
    while (status === 403) {
      const next = new Client(api.port, { headers });
      await next.until((client) => client.ended || client.body.includes('retry'));
      status = next.status;
      next.close();
    }
    two[1]?.close();
  });

  test('of a revoked key end normally, others stay', async () => {
    const { api, stream } = await feedOver(0);
    const revoked = await new Client(api.port, { headers: { 'X-Account': 'revoked' } }).begun();
    const other = await new Client(api.port).begun();
    api.feed.endSessionsOf('key of revoked');
    await revoked.until(({ ended }) => ended);
    await publish(broker.nats, stream, [match(1)]);
    await other.until(({ orders }) => orders.length === 1);
    expect(other.ended).toBe(false);
    other.close();
  });

  test('end when the feed stops, and later requests are 503', async () => {
    const { api } = await feedOver(0);
    const clients = Array.from({ length: 20 }, () => new Client(api.port));
    for (const client of clients) await client.begun();
    await Promise.all([
      api.feed.stop(500),
      ...clients.map((client) => client.until(({ ended }) => ended)),
    ]);
    // Each is told a time of its own after which to come back.
    const retries = clients.map(({ blocks }) => Number(blocks.at(-1)?.retry));
    for (const ms of retries) expect(ms >= 500 && ms < 3_000).toBe(true);
    expect(new Set(retries).size).toBeGreaterThan(10);
    const late = new Client(api.port);
    await late.until(({ ended }) => ended);
    expect(late.status).toBe(503);
    expect(api.feed.status().ready).toBe(false);
  });

  test('wait for a stream that does not exist yet', async () => {
    streams += 1;
    const stream = `feed${streams}`;
    const api = await startApi({ nats: broker.nats, stream });
    apis.push(api);
    expect(api.feed.status().ready).toBe(false);
    const early = new Client(api.port);
    await early.until(({ ended }) => ended);
    expect(early.status).toBe(503);
    await makeStream(broker.nats, stream);
    // Readiness is polled by whoever needs it.
    while (!api.feed.status().ready) await delay(20);
    const client = await new Client(api.port).begun();
    await publish(broker.nats, stream, [match(1)]);
    await client.until(({ orders }) => orders.length === 1);
    client.close();
  });
});
