// The bytes of the order feed over raw sockets: headers, blocks, heartbeats, HTTP/1.1 chunks, and the
// rules that simple line readers rely on.
import { once } from 'node:events';
import { connect } from 'node:net';
import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { encodeMatch } from '../../api/feed/encode.ts';
import { feedMessageId } from '../../ingest/contract.ts';
import { hashes, matches, positionOf, publish, startFeeds } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Answer, Client, requestText, txHashes } from '../support/raw-client.ts';
import { address, fill, match } from '../unit/feed-matches.ts';

const feeds = forFile(startFeeds);

describe('wire format', () => {
  test('begins at once, then writes one block per event, byte for byte', async () => {
    const { api, stream } = await feeds.over(2);
    const compact = await new Client(api.port).begun();
    const labelled = await new Client(api.port, { query: 'format=json' }).begun();
    await publish(feeds.nats, stream, [match(3)]);
    await compact.until(({ orders }) => orders.length === 1);
    await labelled.until(({ orders }) => orders.length === 1);
    for (const [client, format] of [
      [compact, 'compact'],
      [labelled, 'json'],
    ] as const) {
      const { txHash, taker } = match(3);
      const json = encodeMatch(match(3), format, feedMessageId(txHash, taker.orderHash, 0));
      expect(client.body).toBe(
        `retry: 2000\n\nid: ${positionOf(2)}\n\nid: ${positionOf(3)}\nevent: order\ndata: ${json}\n\n`,
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

  test('sends heartbeats, with the cursor only if events were filtered out', async () => {
    const { api, stream } = await feeds.over(1, { heartbeatMs: 150 });
    const all = await new Client(api.port).begun();
    const none = await new Client(api.port, { query: `traders=${address(99)}` }).begun();
    await publish(feeds.nats, stream, [match(2)]);
    const beats = (client: Client) => client.body.split(': heartbeat\n\n').length - 1;
    await none.until((client) => client.lastEventId === positionOf(2) && beats(client) > 1);
    expect(none.body).toContain(`: heartbeat\n\nid: ${positionOf(2)}\n\n`);
    expect(none.blocks.filter(({ id }) => id === positionOf(2))).toHaveLength(1);
    await all.until((client) => beats(client) > 1);
    expect(all.blocks.filter(({ id }) => id === positionOf(2))).toHaveLength(1);
    all.close();
    none.close();
  });

  test('answers HEAD with headers only', async () => {
    const { api } = await feeds.over(0);
    const head = new Client(api.port, { method: 'HEAD' });
    await head.until(({ ended }) => ended);
    expect([head.status, head.body]).toEqual([200, '']);
  });

  test('skips a message that is not a match', async () => {
    const { api, stream } = await feeds.over(0);
    const client = await new Client(api.port).begun();
    await feeds.nats.js.publish(`${stream}.match`, 'no match');
    await publish(feeds.nats, stream, [match(2)]);
    await client.until(({ orders }) => orders.length === 1);
    expect(txHashes(client.orders)).toEqual(hashes(2, 2));
    client.close();
  });
});

describe('HTTP', () => {
  test('1.1 carries the same bytes as 1.0, in chunks of which the last is empty', async () => {
    const { api, stream } = await feeds.over(1);
    const chunked = await new Client(api.port).begun();
    const plain = await new Client(api.port, { version: '1.0' }).begun();
    await publish(feeds.nats, stream, matches(2, 40));
    for (const client of [chunked, plain]) {
      await client.until(({ orders }) => orders.length === 39);
      api.feed.endSessionsOf('key of tests');
      await client.until(({ ended }) => ended);
    }
    expect(plain.body).toBe(chunked.body);
    expect(plain.chunkSizes).toEqual([]);
    expect(chunked.body.split(/(?<=\n\n)/)).toHaveLength(2 + 39 + 1);
    // Blocks that are sent together share a chunk.
    const bytes = chunked.chunkSizes.reduce((sum, size) => sum + size, 0);
    expect(bytes).toBe(Buffer.byteLength(chunked.body));
    expect(chunked.chunkSizes.indexOf(0)).toBe(chunked.chunkSizes.length - 1);
  });

  test('answers a pipelined request when the first response is over', async () => {
    const { api, stream } = await feeds.over(1);
    const headers = (account: string) => ({ headers: { 'X-Account': account } });
    const socket = connect(api.port, '127.0.0.1');
    socket.write(requestText(headers('first')) + requestText(headers('second')));
    const texts = { first: '', second: '' };
    const first = new Answer((bytes) => {
      texts.first += bytes;
    });
    const second = new Answer((bytes) => {
      texts.second += bytes;
    });
    socket.on('data', (bytes) => {
      if (first.after !== undefined) return second.feed(bytes);
      first.feed(bytes);
      if (first.after !== undefined) second.feed(first.after);
    });
    const until = async (which: 'first' | 'second', n: number) => {
      while (!texts[which].includes(`id: ${positionOf(n)}\nevent`)) await once(socket, 'data');
    };
    while (!texts.first.includes('retry: ')) await once(socket, 'data');
    await publish(feeds.nats, stream, matches(2, 3));
    await until('first', 3);
    // The second listens too; its events wait until the first response is over.
    expect(api.feed.figures().listeners).toBe(2);
    expect(texts.second).toBe('');
    api.feed.endSessionsOf('key of first');
    await until('second', 3);
    await publish(feeds.nats, stream, matches(4, 5));
    await until('second', 5);
    expect([...texts.second.matchAll(/^data: \["(\w+)"/gm)].map(([, hash]) => hash)).toEqual(
      hashes(2, 5),
    );
    socket.destroy();
  });

  test('closes when the client closes its side of the connection', async () => {
    const { api, stream } = await feeds.over(1);
    const client = await new Client(api.port).begun();
    client.socket.end();
    await publish(feeds.nats, stream, matches(2, 40));
    await client.until(({ ended }) => ended);
    while (api.feed.figures().listeners > 0) await setImmediate();
    const ended = [...api.feed.figures().ended].filter(([, count]) => count > 0);
    expect(ended).toEqual([['client_left', 1]]);
  });
});

describe('simple line readers', () => {
  test.each(['', 'format=json'])('can read a match of 50 makers (%j)', async (query) => {
    const { api, stream } = await feeds.over(0, { heartbeatMs: 60 });
    const client = await new Client(api.port, { query }).begun();
    const makers = Array.from({ length: 50 }, (_, n) => fill(100 + n, { side: 'SELL' }));
    await publish(feeds.nats, stream, [match(1, { makers })]);
    await client.until(({ orders, body }) => orders.length === 1 && body.includes(': heartbeat'));
    client.close();
    expect(client.body).not.toContain('\r');
    const whole = client.body.slice(0, client.body.lastIndexOf('\n\n') + 2);
    for (const block of whole.split('\n\n').slice(0, -1)) {
      const lines = block.split('\n');
      // Go's bufio.Scanner fails at a line of 64 KiB.
      for (const line of lines) expect(Buffer.byteLength(line)).toBeLessThan(65_536);
      expect(block).toMatch(
        /^(retry: \d+|: heartbeat|id: [1-9]\d*|id: [1-9]\d*\nevent: order\ndata: .*)$/,
      );
    }
  });
});
