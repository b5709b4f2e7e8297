// infra/nats against a real server: streams, tails, finite reads, buckets. nats-writer tests the writer,
// nats-faults what happens when servers die.
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { NatsConfig, readConfig } from '../../infra/config.ts';
import {
  connectNats,
  type Nats,
  NatsRefusedError,
  NatsUnavailableError,
  natsOptions,
  StreamMissingError,
  streamState,
} from '../../infra/nats/connection.ts';
import { durableBatches } from '../../infra/nats/durable.ts';
import { KvConflictError, type KvEvent, openKv } from '../../infra/nats/kv.ts';
import {
  firstMessageAtOrAfter,
  getMessage,
  lastMessage,
  readRange,
  tail,
  tailBatches,
} from '../../infra/nats/reader.ts';
import { reportState, watchStates } from '../../infra/nats/states.ts';
import { createStream, ensureStream, StreamConfigError } from '../../infra/nats/streams.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import { NatsPortTakenError, type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { findNatsServer } from '../../local/nats-server-binary.ts';

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

/** A stream `name` with subjects `<name>.*`, filled with `count` messages over subjects a and b. */
async function filled(name: string, count: number): Promise<void> {
  await ensureStream(nats, { name, subjects: [`${name}.*`] });
  const writer = await openWriter(nats, { stream: name });
  for (let number = 1; number <= count; number += 1) {
    const subject = `${name}.${number % 2 === 1 ? 'a' : 'b'}`;
    void writer.append({ id: `id-${number}`, subject, data: String(number) });
  }
  await writer.flush();
}

const text = (data: Uint8Array) => Buffer.from(data).toString();

describe('ensureStream', () => {
  test('creates, accepts what is there, and updates', async () => {
    const spec = { name: 'spec', subjects: ['spec.>'], maxAgeMs: 3_600_000 };
    await ensureStream(nats, spec);
    await ensureStream(nats, spec);
    await ensureStream(nats, { ...spec, maxAgeMs: 7_200_000, subjects: ['spec.>', 'more.>'] });
    const { config } = await nats.jsm.streams.info('spec');
    expect(config.max_age).toBe(7_200_000_000_000);
    expect(config.subjects).toEqual(['spec.>', 'more.>']);
  });

  test('wins over createStream, which leaves an existing stream unchanged, even if both run at once', async () => {
    const spec = { name: 'created', subjects: ['created.>'] };
    const other = (minutes: number) => createStream(nats, { ...spec, maxAgeMs: minutes * 60_000 });
    const age = async () => (await nats.jsm.streams.info('created')).config.max_age / 1e6;
    for (let round = 0; round < 10; round += 1) {
      await Promise.all([other(1), ensureStream(nats, { ...spec, maxAgeMs: 3_600_000 }), other(2)]);
      await other(3);
      expect(await age()).toBe(3_600_000);
      await nats.jsm.streams.delete('created');
    }
  });

  test('refuses a field that the server silently ignores', async () => {
    const [major = 0, minor = 0] = (nats.connection.info?.version ?? '').split('.').map(Number);
    // Servers before 2.11 ignore the field without an error.
    const isKnown = major > 2 || minor >= 11;
    const spec = { name: 'ignored', subjects: ['ignored.>'], extra: { allow_msg_ttl: true } };
    const answer = ensureStream(nats, spec);
    if (isKnown) await answer;
    else await expect(answer).rejects.toThrow(StreamConfigError);
  });

  test('refuses a change that the server does not allow', async () => {
    await ensureStream(nats, { name: 'kept', subjects: ['kept.>'] });
    const overlapping = { name: 'overlapping', subjects: ['kept.x'] };
    await expect(ensureStream(nats, overlapping)).rejects.toThrow(StreamConfigError);
  });
});

describe('tail', () => {
  test('waits beyond the end and never delivers an older message', async () => {
    await filled('beyond', 3);
    const stop = new AbortController();
    const messages = tail(nats, { stream: 'beyond', fromSequence: 6, signal: stop.signal });
    const next = messages.next();
    const writer = await openWriter(nats, { stream: 'beyond' });
    for (const number of [4, 5, 6]) {
      await writer.append({ id: `id-${number}`, subject: 'beyond.a', data: String(number) });
    }
    const { value: message } = await next;
    expect(message).toMatchObject({ sequence: 6, subject: 'beyond.a', messageId: 'id-6' });
    stop.abort();
    expect(await messages.next()).toEqual({ done: true, value: undefined });
  });

  test('starts at what retention left, and filters', async () => {
    await filled('purged', 10);
    await nats.jsm.streams.purge('purged', { seq: 5 });
    const sequences: number[] = [];
    const options = {
      stream: 'purged',
      fromSequence: 2,
      filterSubject: 'purged.b',
      signal: new AbortController().signal,
    };
    for await (const { sequence } of tail(nats, options)) {
      sequences.push(sequence);
      if (sequence === 10) break;
    }
    expect(sequences).toEqual([6, 8, 10]);
  });

  test('throws without a stream, and ends at once when the signal is aborted already', async () => {
    const { signal } = new AbortController();
    const missing = tail(nats, { stream: 'missing', fromSequence: 1, signal });
    await expect(missing.next()).rejects.toThrow(StreamMissingError);
    const aborted = tail(nats, { stream: 'x', fromSequence: 1, signal: AbortSignal.abort() });
    expect(await aborted.next()).toMatchObject({ done: true });
  });

  test('delivers everything to a slow reader, in bounded memory', async () => {
    const count = 12_000;
    await filled('slow', count);
    const { signal } = new AbortController();
    let next = 1;
    let largest = 0;
    const options = { stream: 'slow', fromSequence: 1, signal };
    for await (const batch of tailBatches(nats, options)) {
      largest = Math.max(largest, batch.length);
      for (const message of batch) {
        expect(message.sequence).toBe(next);
        next += 1;
      }
      // All requested messages arrive before the next batch is taken.
      await nats.connection.flush();
      if (next > count) break;
    }
    expect(next).toBe(count + 1);
    // The stream accepts messages of 1 MiB, and a tail requests at most 64 MiB.
    expect(largest).toBeLessThanOrEqual(64);
  });
});

describe('durableBatches', () => {
  test('delivers a burst to its end, and continues after the last acknowledged message', async () => {
    await ensureStream(nats, { name: 'burst', subjects: ['burst.>'] });
    const publish = (count: number) =>
      Promise.all(Array.from({ length: count }, () => nats.js.publish('burst.x', '')));
    // More at once would pass the time limit of an acknowledgement on a busy host.
    for (let n = 0; n < 14; n += 1) await publish(500);
    const read = async (until: number) => {
      const sequences: number[] = [];
      const stop = new AbortController();
      const options = { stream: 'burst', name: 'reader', signal: stop.signal };
      for await (const batch of durableBatches(nats, options)) {
        sequences.push(...batch.messages.map(({ sequence }) => sequence));
        batch.acknowledge();
        await nats.connection.flush();
        if (batch.reached === until) stop.abort();
      }
      return sequences;
    };
    expect(await read(7_000)).toEqual(Array.from({ length: 7_000 }, (_, index) => index + 1));
    await publish(2);
    expect(await read(7_002)).toEqual([7_001, 7_002]);
  });
});

test('a message that is no state does not affect the connection', async () => {
  const states = watchStates(nats);
  nats.connection.publish('fillstream.state.ingest', 'hello');
  const { stop } = reportState(nats, { name: 'ingest' }, () => ({ reasons: { chain: 'old' } }));
  await expect.poll(() => states.of('ingest')[0]?.reasons).toEqual({ chain: 'old' });
  stop();
  states.close();
});

describe('finite reads', () => {
  test('of an empty stream find nothing', async () => {
    await ensureStream(nats, { name: 'empty', subjects: ['empty.>'] });
    expect(await streamState(nats, 'empty')).toMatchObject({
      firstSequence: 1,
      lastSequence: 0,
      messages: 0,
    });
    expect(await getMessage(nats, 'empty', 1)).toBeUndefined();
    expect(await lastMessage(nats, 'empty', 'empty.>')).toBeUndefined();
    expect(await firstMessageAtOrAfter(nats, 'empty', 0)).toBeUndefined();
    expect(await readRange(nats, 'empty', 1, 10)).toEqual([]);
  });

  test('find one message by sequence and by subject', async () => {
    await filled('single', 5);
    const message = await getMessage(nats, 'single', 4);
    expect(message).toMatchObject({ sequence: 4, subject: 'single.b', messageId: 'id-4' });
    expect(text(message?.data ?? new Uint8Array())).toBe('4');
    expect(Math.abs((message?.timestampMs ?? 0) - Date.now())).toBeLessThan(60_000);
    expect((await lastMessage(nats, 'single', 'single.b'))?.sequence).toBe(4);
    expect((await lastMessage(nats, 'single', 'single.*'))?.sequence).toBe(5);
    await nats.jsm.streams.deleteMessage('single', 3);
    expect(await getMessage(nats, 'single', 3)).toBeUndefined();
    expect(await getMessage(nats, 'single', 99)).toBeUndefined();
    await nats.jsm.streams.purge('single', { seq: 5 });
    expect(await lastMessage(nats, 'single', 'single.b')).toBeUndefined();
  });

  test('find the first message at or after a time', async () => {
    await filled('timed', 50);
    const all = await readRange(nats, 'timed', 1, 50);
    const timeMs = all[30]?.timestampMs ?? 0;
    const expected = all.find((message) => message.timestampMs >= timeMs);
    expect((await firstMessageAtOrAfter(nats, 'timed', timeMs))?.sequence).toBe(expected?.sequence);
    expect((await firstMessageAtOrAfter(nats, 'timed', 0))?.sequence).toBe(1);
    expect(await firstMessageAtOrAfter(nats, 'timed', Date.now() + 60_000)).toBeUndefined();
  });

  test('of a range stop at its end, skip what was purged, and filter', async () => {
    await filled('range', 20);
    await nats.jsm.streams.purge('range', { seq: 6 });
    const sequences = async (from: number, count: number, filter?: string) =>
      (await readRange(nats, 'range', from, count, filter)).map((message) => message.sequence);
    expect(await sequences(1, 3)).toEqual([6, 7, 8]);
    expect(await sequences(10, 2)).toEqual([10, 11]);
    expect(await sequences(19, 100)).toEqual([19, 20]);
    expect(await sequences(21, 100)).toEqual([]);
    expect(await sequences(1_000, 1)).toEqual([]);
    expect(await sequences(7, 3, 'range.b')).toEqual([8, 10, 12]);
    expect(await sequences(7, 3, 'range.none')).toEqual([]);
  });

  test('reject for a stream that does not exist', async () => {
    await expect(readRange(nats, 'missing', 1, 1)).rejects.toThrow(StreamMissingError);
    await expect(streamState(nats, 'missing')).rejects.toThrow(StreamMissingError);
  });
});

describe('openKv', () => {
  test('creates once, updates by revision, deletes', async () => {
    const kv = await openKv(nats, 'cas');
    expect(await kv.get('lease.1')).toBeUndefined();
    const created = await kv.create('lease.1', 'a');
    await expect(kv.create('lease.1', 'b')).rejects.toThrow(KvConflictError);
    const updated = await kv.update('lease.1', 'c', created);
    await expect(kv.update('lease.1', 'd', created)).rejects.toThrow(KvConflictError);
    const entry = await kv.get('lease.1');
    expect(entry).toMatchObject({ key: 'lease.1', revision: updated });
    expect(text(entry?.value ?? new Uint8Array())).toBe('c');
    await expect(kv.delete('lease.1', created)).rejects.toThrow(KvConflictError);
    await kv.delete('lease.1', updated);
    expect(await kv.get('lease.1')).toBeUndefined();
    expect(await kv.create('lease.1', 'e')).toBeGreaterThan(updated);
    await expect(kv.get('lease.*')).rejects.toThrow(RangeError);
  });

  test('writes after a revision of the whole bucket, and only then', async () => {
    const kv = await openKv(nats, 'after');
    const first = await kv.put('a', '1');
    expect(await kv.revision()).toBe(first);
    const second = await kv.putAfter('b', '2', first);
    expect(second).toBe(first + 1);
    await expect(kv.putAfter('c', '3', first)).rejects.toThrow(KvConflictError);
    expect(await kv.get('c')).toBeUndefined();
    expect(String(Buffer.from((await kv.get('b'))?.value ?? []))).toBe('2');
  });

  test('a watch reports the current values, then their end, then every change', async () => {
    const kv = await openKv(nats, 'watched');
    await kv.put('a', '1');
    await kv.put('b', '2');
    await kv.delete('b');
    const stop = new AbortController();
    const seen: string[] = [];
    for await (const event of kv.watch(stop.signal)) {
      seen.push(describeEvent(event));
      if (event.type === 'initialised') {
        await kv.put('c', '3');
        await kv.delete('a');
      }
      // One value is kept for each key: written at once, this would replace the deletion.
      if (event.type === 'delete') await kv.put('a', '4');
      if (seen.length === 5) stop.abort();
    }
    expect(seen).toEqual(['a=1', 'initialised', 'c=3', 'a deleted', 'a=4']);
  });

  test('a key expires after the ttl, and can be created again', async () => {
    const kv = await openKv(nats, 'expiring', { ttlMs: 300 });
    await kv.create('lease', 'a');
    await expect.poll(() => kv.get('lease'), { timeout: 10_000, interval: 50 }).toBeUndefined();
    await kv.create('lease', 'b');
  });
});

function describeEvent(event: KvEvent): string {
  if (event.type === 'put') return `${event.key}=${text(event.value)}`;
  return event.type === 'delete' ? `${event.key} deleted` : event.type;
}

describe('startNatsServer', () => {
  test('names a port that is taken', async () => {
    const otherDir = join(dataDir, 'other');
    const start = startNatsServer({ dataDir: otherDir, port: server.port });
    await expect(start).rejects.toThrow(NatsPortTakenError);
  });

  test('leaves no server behind if it is stopped while the server opens its store', async () => {
    const slowDir = join(dataDir, 'slow');
    const binary = join(dataDir, 'slow-server');
    const server = await findNatsServer(process.env.NATS_SERVER_BIN);
    const version = `[ "$1" = --version ] && exec ${server} --version`;
    writeFileSync(binary, `#!/bin/sh\n${version}\nexec sleep 600\n`);
    chmodSync(binary, 0o755);
    const stopping = new AbortController();
    const start = startNatsServer({ dataDir: slowDir, binary, signal: stopping.signal });
    const lock = join(slowDir, 'nats-server.lock');
    const pid = await vi.waitUntil(
      () => existsSync(lock) && Number(readFileSync(lock, 'utf8').split(' ')[1]),
    );
    stopping.abort(new Error('stopped'));
    await expect(start).rejects.toThrow('stopped');
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});

describe('connectNats', () => {
  test('throws when the server refuses the credentials, and connects with the right ones', async () => {
    const guarded = await startNatsServer({
      dataDir: join(dataDir, 'guarded'),
      configExtra: 'authorization { user: "ingest", password: "right" }',
    });
    const connect = (NATS_PASSWORD: string) =>
      connectNats({
        ...natsOptions(
          readConfig(NatsConfig, { NATS_URL: guarded.url, NATS_USER: 'ingest', NATS_PASSWORD }),
        ),
        name: 'guarded',
      });
    await expect(connect('wrong')).rejects.toThrow(NatsRefusedError);
    const accepted = await connect('right');
    await accepted.close();
    await guarded.stop();
  });

  test('waits for the first server, and throws NatsUnavailableError while there is none', async () => {
    const lateDir = join(dataDir, 'late');
    const first = await startNatsServer({ dataDir: lateDir });
    await first.stop();
    const connecting = connectNats({ url: `${first.url},${first.url}`, name: 'late' });
    const second = await startNatsServer({ dataDir: lateDir, port: first.port });
    const late = await connecting;
    expect(late.connected).toBe(true);
    const gone = Promise.withResolvers<void>();
    late.onStatus(({ type }) => type === 'disconnect' && gone.resolve());
    await second.stop();
    await gone.promise;
    expect(late.connected).toBe(false);
    await expect(streamState(late, 'any')).rejects.toThrow(NatsUnavailableError);
    await late.close();
  });
});
