// Event streams behind a proxy that speaks HTTP/2 to clients and HTTP/1.1 to the api.
import { once } from 'node:events';
import { request } from 'node:http';
import { connect, createServer, type Http2Server } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { publish, startFeeds } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { address, fill, match } from '../unit/feed-matches.ts';

/** Headers that a proxy must not forward (RFC 9113, 8.2.2). */
const OF_THE_CONNECTION = ['connection', 'keep-alive', 'transfer-encoding', 'upgrade'];

const feeds = forFile(startFeeds);
let feed: Awaited<ReturnType<typeof feeds.over>>;
let proxy: Http2Server;

beforeAll(async () => {
  feed = await feeds.over(1);
  proxy = createServer();
  proxy.on('stream', (stream, headers) => {
    const { ':path': path, ':method': method } = headers;
    const behind = request({ port: feed.api.port, path, method }, (response) => {
      const fields = Object.entries(response.headers).filter(
        ([name]) => !OF_THE_CONNECTION.includes(name),
      );
      stream.respond({ ':status': response.statusCode, ...Object.fromEntries(fields) });
      response.pipe(stream);
    });
    stream.on('close', () => behind.destroy());
    behind.on('error', () => stream.close());
    behind.end();
  });
  proxy.listen(0, '127.0.0.1');
  await once(proxy, 'listening');
});

afterAll(() => void proxy?.close());

test('start at once, deliver events, and end with the client', async () => {
  const { port } = proxy.address() as AddressInfo;
  const session = connect(`http://127.0.0.1:${port}`);
  const stream = session.request({ ':path': `/v1/stream/orders?traders=${address(5)}` });
  const [headers] = await once(stream, 'response');
  expect(headers).toMatchObject({
    ':status': 200,
    'content-type': 'text/event-stream',
    'cache-control': 'no-cache, no-transform',
    'x-accel-buffering': 'no',
  });
  stream.setEncoding('utf8');
  let text = '';
  stream.on('data', (chunk) => {
    text += chunk;
  });
  while (!text.includes('retry: 2000\n\n')) await once(stream, 'data');
  await publish(feeds.nats, feed.stream, [match(2), match(3, { taker: fill(5) })]);
  while (!text.includes('event: order\n')) await once(stream, 'data');
  expect(text).toMatch(/^retry: 2000\n\nid: \d+\n\nid: \d+\nevent: order\ndata: \["0x0*3",/);
  stream.close();
  await once(stream, 'close');
  session.close();
  const isLeft = () => feed.api.feed.status().detail.startsWith('0 listeners');
  while (!isLeft()) await new Promise((resolve) => setImmediate(resolve));
});
