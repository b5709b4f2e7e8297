// The order feed over real HTTP against a real nats-server: resuming from the ring and from the
// stream, gaps, filters. See feed-format for its bytes, feed-ends for how streams end, feed-faults for
// outages and slow readers, and feed-readers for cuts, restarts and expired cursors.
import { describe, expect, test } from 'vitest';
import {
  type Api,
  hashes,
  matches,
  positionOf,
  publish,
  publishFinal,
  startFeeds,
} from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Client, txHashes } from '../support/raw-client.ts';
import { generator, SEED as TEST_SEED } from '../support/seed.ts';
import { address, fill, match, naivelyPasses, randomMatch } from '../unit/feed-matches.ts';

const feeds = forFile(startFeeds);

function resume(api: Api, lastEventId: string): Client {
  return new Client(api.port, { headers: { 'Last-Event-ID': lastEventId } });
}

describe('resuming', () => {
  test('replays from the ring and continues live', async () => {
    const { api, stream } = await feeds.over(0);
    await publish(feeds.nats, stream, matches(1, 50));
    const first = await new Client(api.port, { query: `lastEventId=${positionOf(20)}` }).until(
      ({ orders }) => orders.length === 30,
    );
    await publish(feeds.nats, stream, matches(51, 60));
    await first.until(({ orders }) => orders.length === 40);
    expect(txHashes(first.orders)).toEqual(hashes(21, 60));
    expect(first.orders.map(({ id }) => id)).toEqual(
      matches(21, 60).map((_, i) => positionOf(21 + i)),
    );
    first.close();
  });

  test('replays from the stream across chunks, into a small ring, into live', async () => {
    const { api, stream } = await feeds.over(3_000, { ringEventsMax: 64 });
    await publish(feeds.nats, stream, matches(3_001, 3_300));
    const clients = [1, 255, 256, 257, 1_000, 2_999, 3_000, 3_299].map((seen) => ({
      seen,
      client: resume(api, positionOf(seen)),
    }));
    await Promise.all(
      clients.map(({ seen, client }) =>
        client.until(({ orders }) => orders.length === 3_300 - seen),
      ),
    );
    await publish(feeds.nats, stream, matches(3_301, 3_400));
    for (const { seen, client } of clients) {
      await client.until(({ orders }) => orders.length === 3_400 - seen);
      expect(txHashes(client.orders)).toEqual(hashes(seen + 1, 3_400));
      expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
      client.close();
    }
  });

  test('0, an empty header and no header are live from now', async () => {
    const { api, stream } = await feeds.over(5);
    const clients = [resume(api, '0'), resume(api, ''), new Client(api.port)];
    for (const client of clients) await client.begun();
    await publish(feeds.nats, stream, [match(6)]);
    for (const client of clients) {
      await client.until(({ orders }) => orders.length === 1);
      expect(txHashes(client.orders)).toEqual(hashes(6, 6));
      client.close();
    }
  });

  test('last=N starts with the newest N matches that pass, from the ring and from the stream', async () => {
    const { api, stream } = await feeds.over(3_000, { ringEventsMax: 64 });
    await publish(feeds.nats, stream, matches(3_001, 3_300));
    const traders = `traders=${address(1_000)}`;
    await publish(feeds.nats, stream, [match(3_301, { taker: fill(1_000) })]);
    // The newest are those that this process has read.
    const reader = resume(api, positionOf(3_300));
    await reader.until(({ orders }) => orders.length === 1);
    reader.close();
    const expected = [
      ['last=1', hashes(3_301, 3_301)],
      ['last=20', hashes(3_282, 3_301)],
      ['last=700', hashes(2_602, 3_301)],
      [`last=5&${traders}`, hashes(3_301, 3_301)],
      ['last=0', []],
      [`last=9&lastEventId=${positionOf(3_299)}`, hashes(3_300, 3_301)],
    ] as const;
    const clients = expected.map(([query]) => new Client(api.port, { query }));
    for (const [n, client] of clients.entries()) {
      await client.begun();
      await client.until(({ orders }) => orders.length === expected[n]?.[1].length);
    }
    await publish(feeds.nats, stream, matches(3_302, 3_303));
    for (const [n, client] of clients.entries()) {
      const [query = '', known = []] = expected[n] ?? [];
      const all = query.includes(traders) ? known : [...known, ...hashes(3_302, 3_303)];
      await client.until(({ orders }) => orders.length === all.length);
      expect([query, txHashes(client.orders)]).toEqual([query, all]);
      expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
      client.close();
    }
  });

  test('a cursor that another process sent a moment ago is no gap', async () => {
    const { api, stream } = await feeds.over(1);
    for (let n = 2; n <= 40; n += 2) {
      await publish(feeds.nats, stream, [match(n)]);
      // This process may not have read it yet.
      const client = await resume(api, positionOf(n)).begun();
      await publish(feeds.nats, stream, [match(n + 1)]);
      await client.until(({ orders }) => orders.length === 1);
      expect(txHashes(client.orders)).toEqual(hashes(n + 1, n + 1));
      expect(client.blocks.some(({ event }) => event === 'gap')).toBe(false);
      client.close();
    }
  });

  test('the header takes precedence over the parameter', async () => {
    const { api } = await feeds.over(5);
    const client = new Client(api.port, {
      query: 'lastEventId=nonsense',
      headers: { 'Last-Event-ID': positionOf(4) },
    });
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(5, 5));
    client.close();
  });
});

describe('gaps', () => {
  test('after a complete purge it continues live, from a valid cursor', async () => {
    const { api, stream } = await feeds.over(40);
    await feeds.nats.jsm.streams.purge(stream);
    const client = await resume(api, positionOf(12)).until(({ blocks }) => blocks.length === 2);
    expect(client.blocks[1]).toEqual({
      id: positionOf(40),
      event: 'gap',
      data: `{"requested":${positionOf(12)},"first_available":${positionOf(40)}}`,
    });
    await publish(feeds.nats, stream, [match(41)]);
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(41, 41));
    client.close();
  });

  test('events that only the ring still holds are no gap', async () => {
    const { api, stream } = await feeds.over(0);
    await publish(feeds.nats, stream, matches(1, 40));
    await resume(api, positionOf(39)).until(({ orders }) => orders.length === 1);
    await feeds.nats.jsm.streams.purge(stream);
    const client = await resume(api, positionOf(12)).until(({ orders }) => orders.length === 28);
    expect(txHashes(client.orders)).toEqual(hashes(13, 40));
    client.close();
  });

  test('a cursor ahead of the feed continues live', async () => {
    const { api, stream } = await feeds.over(3);
    for (const requested of ['99991234', '18446744073709551615']) {
      const client = await resume(api, requested).until(({ blocks }) => blocks.length === 2);
      expect(client.blocks[1]?.data).toBe(
        `{"requested":${requested},"first_available":${positionOf(3)}}`,
      );
      client.close();
    }
    const client = await resume(api, '99991234').until(({ blocks }) => blocks.length === 2);
    await publish(feeds.nats, stream, [match(4)]);
    await client.until(({ orders }) => orders.length === 1);
    client.close();
  });

  test('a cursor with wrong check digits continues at the message with its sequence', async () => {
    const { api } = await feeds.over(10);
    const wrong = String(Number(positionOf(6)) + (positionOf(6).endsWith('9999') ? -1 : 1));
    const client = await resume(api, wrong).until(({ orders }) => orders.length === 5);
    expect(client.blocks[1]).toEqual({
      event: 'gap',
      data: `{"requested":${wrong},"first_available":${positionOf(6)}}`,
    });
    expect(txHashes(client.orders)).toEqual(hashes(6, 10));
    client.close();
  });
});

describe('filters', () => {
  test('deliver what a naive implementation selects, live and replayed', async () => {
    const seed = TEST_SEED;
    console.info(`seed ${seed}`);
    const random = generator(seed);
    const { api, stream } = await feeds.over(1, { ringEventsMax: 32 });
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
    await publish(feeds.nats, stream, published);
    for (const [index, query] of queries.entries()) {
      const wanted = published.filter((one) => naivelyPasses(query, one));
      expect(wanted.length).toBeGreaterThan(0);
      const replayed = new Client(api.port, { query, headers: { 'Last-Event-ID': positionOf(1) } });
      for (const client of [live[index] ?? replayed, replayed]) {
        await client.until(({ orders }) => orders.length >= wanted.length);
        expect(txHashes(client.orders)).toEqual(wanted.map(({ txHash }) => txHash));
        client.close();
      }
    }
  });

  // Of each parameter alone: api-openapi.test.ts and feed-filter.test.ts.
  test.each([
    ['min_usdc=1&min_usdc=2', 'min_usdc'],
    ['padding=true&min_usd=1', 'padding', 'min_usd'],
    ['Last-Event-ID=7', 'Last-Event-ID'],
    ['series=&series=nfl&tags=%20', 'tags'],
  ])('refuse %s with an issue', async (query, ...paths) => {
    const { api } = await feeds.over(0);
    const client = new Client(api.port, { query });
    await client.until(({ ended }) => ended);
    expect(client.status).toBe(400);
    expect(JSON.parse(client.body)).toMatchObject({
      error: 'invalid_request',
      issues: paths.map((path) => ({ path })),
    });
  });
});

describe('finality=true', () => {
  const kinds = ({ blocks }: Client) =>
    blocks.flatMap(({ event, data = '' }) =>
      event === 'final'
        ? [`final ${JSON.parse(data).tx_hash}`]
        : event === 'order'
          ? ['order']
          : [],
    );

  test.each([
    ['from the stream', { ringEventsMax: 1 }],
    ['from memory', {}],
  ])('reports which matches are final, %s and live; others are not sent', async (_, options) => {
    const { api, stream } = await feeds.over(3, options);
    await publishFinal(feeds.nats, stream, [match(2)]);
    const start = { headers: { 'Last-Event-ID': positionOf(1) } };
    const withFinality = new Client(api.port, { ...start, query: 'finality=true' });
    const untold = new Client(api.port, start);
    const expected = ['order', 'order', `final ${match(2).txHash}`];
    await withFinality.until(() => kinds(withFinality).length === 3);
    expect(kinds(withFinality)).toEqual(expected);
    await publishFinal(feeds.nats, stream, [match(3)]);
    await publish(feeds.nats, stream, [match(4)]);
    await withFinality.until(() => kinds(withFinality).length === 5);
    expect(kinds(withFinality)).toEqual([...expected, `final ${match(3).txHash}`, 'order']);
    await untold.until(({ orders }) => orders.length === 3);
    expect(kinds(untold)).toEqual(['order', 'order', 'order']);
    withFinality.close();
    untold.close();
  });

  test('names match and block, and passes the filter of its match', async () => {
    const { api, stream } = await feeds.over(0);
    const query = `finality=true&traders=${address(3)}`;
    const client = await new Client(api.port, { query }).begun();
    const mine = match(1, { taker: fill(3) });
    await publish(feeds.nats, stream, [mine, match(20)]);
    await publishFinal(feeds.nats, stream, [match(20), mine]);
    await client.until(() => kinds(client).length === 2);
    expect(JSON.parse(client.blocks.at(-1)?.data ?? '')).toEqual({
      tx_hash: mine.txHash,
      match_id: `${mine.txHash}:${mine.taker.orderHash}`,
      block_number: 77,
      timestamp: '1970-01-01 00:00:00.000Z',
    });
    client.close();
  });
});

describe('markets', () => {
  test('passes only matches of these markets', async () => {
    const { api, stream } = await feeds.over(0);
    const [one, other] = [`0x${'1'.repeat(64)}`, `0x${'2'.repeat(64)}`] as const;
    const both = `markets=${one.toUpperCase().replace('X', 'x')},${other}`;
    const clients = [`markets=${one}`, both].map((query) => new Client(api.port, { query }));
    for (const client of clients) await client.begun();
    await publish(feeds.nats, stream, [
      match(1, { conditionId: one }),
      match(2),
      match(3, { conditionId: other }),
      match(4, { conditionId: one }),
    ]);
    const counts = [2, 3];
    for (const [i, client] of clients.entries()) {
      await client.until(({ orders }) => orders.length === counts[i]);
      client.close();
    }
    expect(clients.map(({ orders }) => txHashes(orders))).toEqual([
      [match(1).txHash, match(4).txHash],
      [match(1).txHash, match(3).txHash, match(4).txHash],
    ]);
  });
});
