// What the publisher sends when, against a real server. That nothing is lost while servers die is in
// nats-faults, and of a cluster in nats-cluster.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type NatsServer, startNatsServer } from '../../infra/local/nats-server.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import {
  OrderedPublisher,
  PublisherClosedError,
  PublishRejectedError,
} from '../../infra/nats/publisher.ts';
import { ensureStream } from '../../infra/nats/streams.ts';

/** Longer than a publisher trusts the last acknowledgement. */
const PAUSE_MS = 1_200;

let dataDir: string;
let server: NatsServer;
let nats: Nats;

beforeAll(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'fillstream-nats-'));
  server = await startNatsServer({ dataDir });
  nats = await connectNats({ url: server.url, name: 'test' });
});

afterAll(async () => {
  await nats.close();
  await server.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

/** From now on the stream takes these only, as a leader may refuse a message for a time. */
async function takes(stream: string, ...names: string[]): Promise<void> {
  await nats.jsm.streams.update(stream, { subjects: names.map((name) => `${stream}.${name}`) });
}

test('drops a second message with the same id and says so in order', async () => {
  await ensureStream(nats, { name: 'twice', subjects: ['twice.>'] });
  const acks: [string, number, boolean][] = [];
  const publisher = new OrderedPublisher(nats, {
    stream: 'twice',
    windowMax: 2,
    onAck: ({ messageId, sequence, duplicate }) => acks.push([messageId, sequence, duplicate]),
  });
  for (const id of ['a', 'b', 'a', 'c']) await publisher.publish('twice.x', id, id);
  expect(await publisher.flush()).toEqual({ lastSequence: 3 });
  expect(acks).toEqual([
    ['a', 1, false],
    ['b', 2, false],
    ['a', 1, true],
    ['c', 3, false],
  ]);
  expect(publisher.stats).toEqual({
    published: 4,
    acked: 4,
    resent: 0,
    duplicates: 1,
    reordered: 0,
  });
  publisher.close();
  await expect(publisher.publish('twice.x', 'd', 'd')).rejects.toThrow(PublisherClosedError);
});

test.each([
  { refused: 'first', taken: ['second', 'third'] },
  { refused: 'second', taken: ['first', 'third'] },
])(
  'sends nothing past the $refused message while nobody takes it, however long that lasts',
  async ({ refused, taken }) => {
    await ensureStream(nats, { name: refused, subjects: [`${refused}.before`] });
    const order: string[] = [];
    const publisher = new OrderedPublisher(nats, {
      stream: refused,
      duplicateWindowMs: 300,
      onAck: ({ messageId, sequence }) => order.push(`${sequence} ${messageId}`),
    });
    await publisher.publish(`${refused}.before`, 'before', '');
    await publisher.flush();
    // Right after an acknowledgement all are sent at once.
    for (const id of ['first', 'second', 'third']) {
      await publisher.publish(`${refused}.${id}`, id, id);
    }
    while (publisher.unstoredMs < 300) await delay(20);
    await takes(refused, ...taken);
    // Sent again and again meanwhile.
    const { resent } = publisher.stats;
    while (publisher.stats.resent < resent + 4) await delay(20);
    await takes(refused, 'first', 'second', 'third');
    await publisher.flush();
    expect(order).toEqual(['1 before', '2 first', '3 second', '4 third']);
    publisher.close();
  },
);

test('sends the first message alone, and again the first after a pause', async () => {
  await ensureStream(nats, { name: 'alone', subjects: ['alone.none'] });
  const order: string[] = [];
  const publisher = new OrderedPublisher(nats, {
    stream: 'alone',
    onAck: ({ messageId, sequence }) => order.push(`${sequence} ${messageId}`),
  });
  const expected: string[] = [];
  for (const round of [1, 2]) {
    await takes('alone', 'later');
    for (const id of ['first', 'later']) {
      expected.push(`${expected.length + 1} ${id}-${round}`);
      await publisher.publish(`alone.${id}`, `${id}-${round}`, id);
    }
    const { resent } = publisher.stats;
    while (publisher.stats.resent < resent + 2) await delay(20);
    await takes('alone', 'first', 'later');
    await publisher.flush();
    expect(order).toEqual(expected);
    await delay(PAUSE_MS);
  }
  publisher.close();
});

test('stops at a message that the stream refuses', async () => {
  await ensureStream(nats, { name: 'small', subjects: ['small.>'], maxMessageBytes: 100 });
  const publisher = new OrderedPublisher(nats, { stream: 'small' });
  await publisher.publish('small.x', 'large', 'x'.repeat(1_000));
  await expect(publisher.flush()).rejects.toThrow(PublishRejectedError);
  await expect(publisher.publish('small.x', 'next', 'x')).rejects.toThrow(PublishRejectedError);
});
