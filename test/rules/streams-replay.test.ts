// Listeners of a managed stream: a filter that changes while one is far behind, and finality.
import { once } from 'node:events';
import { expect, test } from 'vitest';
import type { FeedMatch } from '../../ingest/contract.ts';
import {
  type Api,
  makeStream,
  publish,
  publishFinal,
  startFeeds,
} from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { Client } from '../support/raw-client.ts';
import { address, fill, market, match } from '../unit/feed-matches.ts';

const STORED = 800;

const feeds = forFile(startFeeds);

/** A large match n, of trader 5 if n is even and of trader 6 if it is odd. */
function large(n: number): FeedMatch {
  const question = 'x'.repeat(30_000);
  return match(n, { taker: fill(n % 2 === 0 ? 5 : 6), market: market({ question }) });
}

function numbersOf(client: Client): number[] {
  return client.blocks
    .filter(({ event }) => event === 'tx')
    .map(({ data }) => Number(JSON.parse(data ?? '').tx_hash));
}

async function send(api: Api, method: string, path: string, body: object): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' };
  const url = `http://127.0.0.1:${api.port}${path}`;
  return (await fetch(url, { method, headers, body: JSON.stringify(body) })).json();
}

/** Path of a new stream without a filter. */
async function newStream(api: Api): Promise<string> {
  const { id } = (await send(api, 'POST', '/streams', { name: 'all' })) as { id: string };
  return `/streams/${id}`;
}

test('a listener gets all events up to the change, and then those that pass the new filter', async () => {
  const stream = feeds.newName();
  await makeStream(feeds.nats, stream);
  await publish(
    feeds.nats,
    stream,
    Array.from({ length: STORED }, (_, n) => large(n + 1)),
  );
  const api = await feeds.serve(stream, { ringEventsMax: 8 });
  const path = await newStream(api);
  const live = await new Client(api.port, { path }).begun();
  await publish(feeds.nats, stream, [large(STORED + 1), large(STORED + 2)]);
  await live.until((client) => numbersOf(client).length === 2);
  // This cursor's check digits are wrong: after the gap, everything stored is delivered.
  const behind = new Client(api.port, { path, headers: { 'Last-Event-ID': '10000' } });
  await behind.until((client) => numbersOf(client).length > 0);
  // More is stored than both sockets can hold: the listener waits halfway.
  behind.socket.pause();
  await send(api, 'PUT', `${path}/subscription`, { addresses: [address(5)] });
  let last = STORED + 2;
  for (; ; last += 2) {
    await publish(feeds.nats, stream, [large(last + 1), large(last + 2)]);
    await live.until((client) => numbersOf(client).at(-1) === last + 2);
    if (!numbersOf(live).includes(last + 1)) break;
  }
  behind.socket.resume();
  await behind.until((client) => numbersOf(client).at(-1) === last + 2);
  const numbers = numbersOf(behind);
  const change = numbers.findIndex((n, index) => n !== index + 1);
  expect(change).toBeGreaterThan(0);
  const first = numbers[change] ?? 0;
  const rest = Array.from({ length: (last + 2 - first) / 2 + 1 }, (_, n) => first + 2 * n);
  expect(first % 2).toBe(0);
  expect(numbers.slice(change)).toEqual(rest);
  expect(behind.ended).toBe(false);
  for (const client of [live, behind]) client.close();
  await once(behind.socket, 'close');
});

test('a listener with finality=true gets a final event for each of its matches', async () => {
  const stream = feeds.newName();
  await makeStream(feeds.nats, stream);
  const api = await feeds.serve(stream);
  const path = await newStream(api);
  const client = await new Client(api.port, { path, query: 'finality=true' }).begun();
  await publish(feeds.nats, stream, [match(1)]);
  await publishFinal(feeds.nats, stream, [match(1)]);
  await client.until(({ blocks }) => blocks.at(-1)?.event === 'final');
  expect(JSON.parse(client.blocks.at(-1)?.data ?? '')).toMatchObject({
    tx_hash: match(1).txHash,
    timestamp: '1970-01-01T00:00:00.000Z',
  });
  client.close();
});
