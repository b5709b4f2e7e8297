// What must hold while nats-server is killed: nothing pushed is lost, doubled or reordered, and
// no reader misses or repeats a message. Every test runs a real server and kills it with SIGKILL.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { type NatsServer, startNatsServer } from '../../infra/local/nats-server.ts';
import { DataDirectoryInUseError } from '../../infra/local/nats-server-lock.ts';
import { connectNats, type Nats, streamState } from '../../infra/nats/connection.ts';
import { type KvEvent, openKv } from '../../infra/nats/kv.ts';
import { OrderedPublisher, type PublishAck } from '../../infra/nats/publisher.ts';
import { StreamRewoundError, tail, tailBatches } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';

let dataDir: string;
let server: NatsServer;
let nats: Nats;

beforeEach(async () => {
  dataDir = mkdtempSync(join(tmpdir(), 'fillstream-nats-'));
  server = await startNatsServer({ dataDir });
  nats = await connectNats({ url: server.url, name: 'faults' });
});

afterEach(async () => {
  await nats.close();
  await server.stop();
  rmSync(dataDir, { recursive: true, force: true });
});

async function kill(): Promise<void> {
  server.child.kill('SIGKILL');
  if (server.child.signalCode === null) await once(server.child, 'exit');
}

async function restart(): Promise<void> {
  await kill();
  server = await startNatsServer({ dataDir, port: server.port });
}

/** Publishes `count` numbered messages and kills the server `kills` times on the way. */
async function publishThroughKills(options: {
  count: number;
  kills: number;
  downMs: number;
  duplicateWindowMs: number;
}): Promise<{ acks: PublishAck[]; publisher: OrderedPublisher }> {
  const { count, kills, downMs, duplicateWindowMs } = options;
  const acks: PublishAck[] = [];
  const every = Math.floor(count / (kills + 1));
  let restarting = Promise.resolve();
  const publisher = new OrderedPublisher(nats, {
    stream: 'LEDGER',
    duplicateWindowMs,
    onAck: (ack) => {
      acks.push(ack);
      if (acks.length % every !== 0 || acks.length > every * kills) return;
      restarting = restarting.then(async () => {
        await kill();
        // The time without a server is what the test is about.
        await delay(downMs);
        await restart();
      });
    },
  });
  for (let number = 1; number <= count; number += 1) {
    await publisher.publish(`ledger.${number % 16}`, `id-${number}`, String(number));
  }
  await publisher.flush();
  await restarting;
  return { acks, publisher };
}

async function numbersStored(count: number): Promise<number[]> {
  const numbers: number[] = [];
  const { signal } = new AbortController();
  const options = { stream: 'LEDGER', fromSequence: 1, signal, maxMessages: count };
  for await (const batch of tailBatches(nats, options)) {
    for (const message of batch) numbers.push(Number(Buffer.from(message.data).toString()));
  }
  return numbers;
}

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('OrderedPublisher', () => {
  test('pushed = acknowledged = stored, in order, through five kills; tails miss nothing', async () => {
    const count = 120_000;
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'] });
    const follow = new AbortController();
    let restarts = 0;
    const options = {
      stream: 'LEDGER',
      fromSequence: 1,
      signal: follow.signal,
      maxMessages: count,
      onRestart: () => {
        restarts += 1;
      },
    };
    const batches = (async () => {
      const sequences: number[] = [];
      for await (const batch of tailBatches(nats, options)) {
        for (const message of batch) sequences.push(message.sequence);
      }
      return sequences;
    })();
    const single = (async () => {
      const ids: string[] = [];
      const filtered = { ...options, filterSubject: 'ledger.3', maxMessages: count / 16 };
      for await (const message of tail(nats, filtered)) ids.push(message.messageId);
      return ids;
    })();

    const startedAt = performance.now();
    const { acks, publisher } = await publishThroughKills({
      count,
      kills: 5,
      downMs: 0,
      duplicateWindowMs: 120_000,
    });
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(await batches).toEqual(upTo(count));
    expect(await single).toEqual(
      upTo(count)
        .filter((number) => number % 16 === 3)
        .map((number) => `id-${number}`),
    );
    console.log(
      `published ${count} through 5 kills in ${seconds.toFixed(1)} s, tails restarted ${restarts}`,
      publisher.stats,
    );
    expect(restarts).toBeGreaterThanOrEqual(5);
    expect(acks.map((ack) => ack.messageId)).toEqual(upTo(count).map((number) => `id-${number}`));
    expect(acks.map((ack) => ack.sequence)).toEqual(upTo(count));
    expect(await streamState(nats, 'LEDGER')).toEqual({
      firstSequence: 1,
      lastSequence: count,
      messages: count,
    });
    expect(await numbersStored(count)).toEqual(upTo(count));
    expect(publisher.stats.reordered).toBe(0);
    publisher.close();
  });

  test('stores nothing twice after an outage longer than the duplicate window', async () => {
    const count = 40_000;
    const duplicateWindowMs = 200;
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'], duplicateWindowMs });
    const { publisher } = await publishThroughKills({
      count,
      kills: 4,
      downMs: 2 * duplicateWindowMs,
      duplicateWindowMs,
    });
    console.log('outages beyond the duplicate window', publisher.stats);
    expect((await streamState(nats, 'LEDGER')).messages).toBe(count);
    expect(await numbersStored(count)).toEqual(upTo(count));
    publisher.close();
  });

  test('delivers what was published while no server was there', async () => {
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'] });
    const publisher = new OrderedPublisher(nats, { stream: 'LEDGER' });
    const gone = Promise.withResolvers<void>();
    nats.onStatus(({ type }) => type === 'disconnect' && gone.resolve());
    await kill();
    await gone.promise;
    for (const number of [1, 2, 3]) {
      await publisher.publish('ledger.a', `id-${number}`, String(number));
    }
    await restart();
    expect(await publisher.flush()).toEqual({ lastSequence: 3 });
    expect(await numbersStored(3)).toEqual([1, 2, 3]);
    publisher.close();
  });
});

describe('tail', () => {
  test('throws StreamRewoundError when the stream lost what was delivered', async () => {
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'] });
    const publisher = new OrderedPublisher(nats, { stream: 'LEDGER' });
    await publisher.publish('ledger.a', 'id-1', '1');
    await publisher.publish('ledger.a', 'id-2', '2');
    await publisher.flush();
    publisher.close();
    const { signal } = new AbortController();
    const messages = tail(nats, { stream: 'LEDGER', fromSequence: 1, signal });
    await messages.next();
    await messages.next();
    await kill();
    rmSync(join(dataDir, 'jetstream'), { recursive: true });
    server = await startNatsServer({ dataDir, port: server.port });
    const other = await connectNats({ url: server.url, name: 'other' });
    await ensureStream(other, { name: 'LEDGER', subjects: ['ledger.>'] });
    await other.close();
    await expect(messages.next()).rejects.toThrow(StreamRewoundError);
  });
});

describe('openKv', () => {
  test('a watch goes on after a kill', async () => {
    const bucket = await openKv(nats, 'leases');
    await bucket.put('a', '1');
    const stop = new AbortController();
    const events = bucket.watch(stop.signal)[Symbol.asyncIterator]();
    const kinds = [await events.next(), await events.next()].map(({ value }) => value.type);
    expect(kinds).toEqual(['put', 'initialised']);
    const back = Promise.withResolvers<void>();
    nats.onStatus(({ type }) => type === 'reconnect' && back.resolve());
    await restart();
    await back.promise;
    const startedAt = performance.now();
    const revision = await bucket.put('b', '2');
    const { value }: { value: KvEvent } = await events.next();
    console.log(`watch after a kill: ${(performance.now() - startedAt).toFixed(0)} ms`);
    expect(value).toMatchObject({ type: 'put', key: 'b', revision });
    stop.abort();
    expect(await events.next()).toMatchObject({ done: true });
  });
});

describe('startNatsServer', () => {
  test('refuses a data directory in use, and takes it after kill -9', async () => {
    await expect(startNatsServer({ dataDir })).rejects.toThrow(DataDirectoryInUseError);
    await kill();
    server = await startNatsServer({ dataDir, port: server.port });
  });

  test('takes over from a server whose starter was killed', async () => {
    const ownDir = join(dataDir, 'orphan');
    const program = join(import.meta.dirname, '../../infra/local/nats-server.ts');
    const starter = spawn(process.execPath, [program, '--data', ownDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(starter.stdout, 'data');
    const orphan: { event: string; port: number } = JSON.parse(String(line));
    expect(orphan.event).toBe('listening');
    starter.kill('SIGKILL');
    await once(starter, 'exit');
    const successor = await startNatsServer({ dataDir: ownDir });
    // Its process id may still name a zombie here; its port must be free.
    const socket = createConnection({ host: '127.0.0.1', port: orphan.port });
    await expect(once(socket, 'connect')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
    await successor.stop();
  });

  test('run directly, it ends with its server on SIGTERM', async () => {
    const program = join(import.meta.dirname, '../../infra/local/nats-server.ts');
    const ownDir = join(dataDir, 'direct');
    const starter = spawn(process.execPath, [program, '--data', ownDir], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(starter.stdout, 'data');
    const { pid }: { pid: number } = JSON.parse(String(line));
    starter.kill('SIGTERM');
    expect(await once(starter, 'exit')).toEqual([0, null]);
    expect(() => process.kill(pid, 0)).toThrow('ESRCH');
  });
});
