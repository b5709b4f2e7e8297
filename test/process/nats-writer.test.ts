// StreamWriter against a real server: order, other writers, deletions, refusals and kills.
// The cluster is in nats-cluster.
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { connectNats, type Nats, streamState } from '../../infra/nats/connection.ts';
import { type StreamMessage, StreamRewoundError, storedSince } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { AppendRejectedError, openWriter, WriterClosedError } from '../../infra/nats/writer.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';

const STREAM = 'LOG';

let dataDir: string;
let server: NatsServer;
let nats: Nats;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'fillstream-writer-'));
  server = await startNatsServer({ dataDir });
  nats = await connectNats({ url: server.url, name: 'writer' });
  await ensureStream(nats, { name: STREAM, subjects: ['log.>'] });
});

afterEach(async () => {
  await nats.close();
  await server.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

const open = (onForeign?: (id: string) => void) =>
  openWriter(nats, {
    stream: STREAM,
    ...(onForeign === undefined ? {} : { onForeign: ({ messageId }) => onForeign(messageId) }),
  });

const named = (id: string) => ({ id, subject: 'log.x', data: id });

async function stored(): Promise<StreamMessage[]> {
  const messages: StreamMessage[] = [];
  for await (const message of storedSince(nats, STREAM, { sequence: 1 })) messages.push(message);
  return messages;
}

async function storedIds(): Promise<string[]> {
  return (await stored()).map(({ messageId }) => messageId);
}

const upTo = (count: number, prefix = '') =>
  Array.from({ length: count }, (_, index) => `${prefix}${index + 1}`);

/** Resolves when the client has noticed, too, because the library may crash if it is closed earlier. */
async function kill(): Promise<void> {
  const gone = Promise.withResolvers<void>();
  nats.onStatus(({ type }) => type === 'disconnect' && gone.resolve());
  server.child.kill('SIGKILL');
  if (server.child.signalCode === null) await once(server.child, 'exit');
  await gone.promise;
}

async function restart(): Promise<void> {
  await kill();
  server = await startNatsServer({ dataDir, port: server.port });
}

test('stores messages in the order of the calls and resolves with their sequences', async () => {
  const writer = await open();
  const sequences = upTo(100).map((id) => writer.append(named(id)));
  expect(writer.stats).toMatchObject({ published: 100, acked: 0 });
  await writer.flush();
  expect(await Promise.all(sequences)).toEqual(upTo(100).map(Number));
  expect(await storedIds()).toEqual(upTo(100));
  expect(writer.unstoredMs).toBe(0);
  expect(writer.stats).toEqual({ published: 100, acked: 100, resent: 0, duplicates: 0 });
});

test('writes the id and the given headers', async () => {
  const writer = await open();
  await writer.append({ ...named('a'), headers: { Format: '7' } });
  const [message] = await stored();
  expect(message?.header('Format')).toBe('7');
  expect(message?.header('Nats-Msg-Id')).toBe('');
  expect(message?.messageId).toBe('a');
});

test('two writers at once keep the order of both, and each reports the messages of the other', async () => {
  const seen: Record<string, string[]> = { a: [], b: [] };
  const a = await open((id) => seen.a?.push(id));
  const b = await open((id) => seen.b?.push(id));
  const count = 300;
  for (const id of upTo(count)) {
    void a.append(named(`a${id}`));
    void b.append(named(`b${id}`));
  }
  await Promise.all([a.flush(), b.flush()]);
  const all = await storedIds();
  expect(all).toHaveLength(2 * count);
  for (const [own, other] of [
    ['a', 'b'],
    ['b', 'a'],
  ] as const) {
    expect(all.filter((id) => id.startsWith(own))).toEqual(upTo(count, own));
    // Everything that the other writer stored before this one's last message.
    const before = all.slice(0, all.lastIndexOf(`${own}${count}`));
    expect(seen[own]).toEqual(before.filter((id) => id.startsWith(other)));
  }
});

test('stores an id once when two writers append the same messages', async () => {
  const [a, b] = [await open(), await open()];
  const appends = upTo(200).map((id) => Promise.all([a.append(named(id)), b.append(named(id))]));
  for (const [ofA, ofB] of await Promise.all(appends)) expect(ofA).toBe(ofB);
  expect(await storedIds()).toEqual(upTo(200));
});

test('continues after messages at the end were deleted', async () => {
  const first = await open();
  for (const id of upTo(5)) await first.append(named(id));
  for (const sequence of [5, 4]) await nats.jsm.streams.deleteMessage(STREAM, sequence, false);
  const second = await open();
  expect(await second.append(named('new'))).toBe(6);
  // Deletions do not count as messages of another writer.
  const third = await open();
  await nats.jsm.streams.deleteMessage(STREAM, 6, false);
  expect(await third.append(named('newer'))).toBe(7);
  expect(await storedIds()).toEqual(['1', '2', '3', 'newer']);
});

test('stops at a message that the stream refuses', async () => {
  await ensureStream(nats, { name: 'SMALL', subjects: ['small.>'], maxMessageBytes: 100 });
  const writer = await openWriter(nats, { stream: 'SMALL' });
  const large = writer.append({ id: 'a', subject: 'small.x', data: 'x'.repeat(1_000) });
  const next = writer.append({ id: 'b', subject: 'small.x', data: 'x' });
  await expect(large).rejects.toThrow(AppendRejectedError);
  await expect(next).rejects.toThrow(AppendRejectedError);
  await expect(writer.flush()).rejects.toThrow(AppendRejectedError);
  expect((await streamState(nats, 'SMALL')).messages).toBe(0);
});

test('refuses a subject of another stream', async () => {
  await ensureStream(nats, { name: 'OTHER', subjects: ['other.>'] });
  const writer = await open();
  await expect(writer.append({ ...named('a'), subject: 'other.x' })).rejects.toThrow(
    AppendRejectedError,
  );
  expect((await streamState(nats, 'OTHER')).messages).toBe(0);
});

test("stops with the error of onForeign and stores nothing after the other writer's message", async () => {
  const fenced = new Error('another writer');
  const writer = await openWriter(nats, {
    stream: STREAM,
    onForeign: () => {
      throw fenced;
    },
  });
  await (await open()).append(named('theirs'));
  await expect(writer.append(named('ours'))).rejects.toThrow(fenced);
  await expect(writer.append(named('later'))).rejects.toThrow(fenced);
  expect(await storedIds()).toEqual(['theirs']);
});

test('rejects unstored messages when it is closed', async () => {
  const writer = await open();
  await kill();
  const append = writer.append(named('a'));
  writer.close();
  await expect(append).rejects.toThrow(WriterClosedError);
  await expect(writer.append(named('b'))).rejects.toThrow(WriterClosedError);
  await expect(writer.flush()).rejects.toThrow(WriterClosedError);
});

test('does not accept more than it may keep in memory', async () => {
  const writer = await open();
  await kill();
  const data = Buffer.alloc(1_048_576);
  const appends = upTo(64).map((id) => writer.append({ ...named(id), data }));
  await expect(writer.append(named('too much'))).rejects.toThrow(RangeError);
  writer.close();
  const results = await Promise.allSettled(appends);
  expect(results.every(({ status }) => status === 'rejected')).toBe(true);
});

test('stops when the stream lost stored messages', async () => {
  const writer = await open();
  await writer.append(named('a'));
  await writer.append(named('b'));
  await kill();
  rmSync(join(dataDir, 'jetstream'), { recursive: true });
  server = await startNatsServer({ dataDir, port: server.port });
  const other = await connectNats({ url: server.url, name: 'other' });
  await ensureStream(other, { name: STREAM, subjects: ['log.>'] });
  await other.close();
  await expect(writer.append(named('c'))).rejects.toThrow(StreamRewoundError);
});

test('stores everything once and in order through ten kills, next to another writer', async () => {
  const rounds = 10;
  const perRound = 300;
  const foreign: string[] = [];
  const writer = await open((id) => foreign.push(id));
  const other = await open();
  const ids = upTo(rounds * perRound);
  const sequences: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const restarted = Promise.withResolvers<void>();
    for (const [index, id] of ids.slice(round * perRound, (round + 1) * perRound).entries()) {
      void writer.append(named(id)).then((sequence) => {
        sequences.push(sequence);
        // Most messages of the round are still waiting.
        if (index === 50) restart().then(restarted.resolve, restarted.reject);
        if (index === 100) void other.append(named(`other-${round}`));
      });
    }
    await Promise.all([writer.flush(), restarted.promise]);
    await other.flush();
  }
  await writer.append(named('last'));
  const all = await storedIds();
  console.log('writer through kills', writer.stats);
  expect(writer.stats.resent).toBeGreaterThanOrEqual(rounds);
  expect(all.filter((id) => !id.startsWith('other-'))).toEqual([...ids, 'last']);
  expect(sequences.map((sequence) => all[sequence - 1])).toEqual(ids);
  const others = upTo(rounds).map((_, round) => `other-${round}`);
  expect(all.filter((id) => id.startsWith('other-'))).toEqual(others);
  expect(foreign).toEqual(others);
});
