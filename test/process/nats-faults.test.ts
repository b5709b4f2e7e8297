// Readers neither miss nor repeat a message while nats-server is killed. Every test kills a real server
// with SIGKILL. nats-writer tests the writer.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, truncateSync } from 'node:fs';
import { createConnection } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { type KvEvent, openKv } from '../../infra/nats/kv.ts';
import { readRange, StreamRewoundError, tail, tailBatches } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { openWriter } from '../../infra/nats/writer.ts';
import { DataDirectoryInUseError, runs } from '../../local/lock.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { flipBytes } from '../support/damage.ts';

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

const upTo = (count: number) => Array.from({ length: count }, (_, index) => index + 1);

describe('tail', () => {
  test('misses and repeats nothing through five kills', async () => {
    const kills = 5;
    const perRound = 4_000;
    const count = kills * perRound;
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'] });
    const { signal } = new AbortController();
    let restarts = 0;
    const options = {
      stream: 'LEDGER',
      fromSequence: 1,
      signal,
      onRestart: () => {
        restarts += 1;
      },
    };
    const batches = (async () => {
      const sequences: number[] = [];
      for await (const batch of tailBatches(nats, options)) {
        for (const message of batch) sequences.push(message.sequence);
        if (sequences.length >= count) break;
      }
      return sequences;
    })();
    const single = (async () => {
      const ids: string[] = [];
      for await (const message of tail(nats, { ...options, filterSubject: 'ledger.3' })) {
        ids.push(message.messageId);
        if (ids.length >= count / 16) break;
      }
      return ids;
    })();
    const writer = await openWriter(nats, { stream: 'LEDGER' });
    const startedAt = performance.now();
    for (let round = 0; round < kills; round += 1) {
      let restarted = Promise.resolve();
      for (const number of upTo(perRound).map((index) => round * perRound + index)) {
        const message = { id: `id-${number}`, subject: `ledger.${number % 16}`, data: '' };
        void writer.append(message).then(() => {
          if (number % perRound === perRound / 2) restarted = restart();
        });
      }
      await writer.flush();
      await restarted;
    }
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(await batches).toEqual(upTo(count));
    expect(await single).toEqual(
      upTo(count)
        .filter((number) => number % 16 === 3)
        .map((number) => `id-${number}`),
    );
    console.log(
      `wrote ${count} through ${kills} kills in ${seconds.toFixed(1)} s, tails restarted ${restarts}`,
      writer.stats,
    );
    expect(restarts).toBeGreaterThanOrEqual(kills);
  });

  test('throws StreamRewoundError when the stream lost delivered messages', async () => {
    await ensureStream(nats, { name: 'LEDGER', subjects: ['ledger.>'] });
    const writer = await openWriter(nats, { stream: 'LEDGER' });
    for (const id of ['1', '2']) await writer.append({ id, subject: 'ledger.a', data: id });
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

describe('finite reads', () => {
  const files = () => join(dataDir, 'jetstream/jetstream/$G/streams/stored/msgs');

  /** Stores 45 messages in two files, the second from 29 on, which are damaged while the server is down. */
  async function damaged(damage: () => void): Promise<void> {
    await ensureStream(nats, { name: 'stored', subjects: ['stored'], maxBytes: 100_000 });
    const writer = await openWriter(nats, { stream: 'stored' });
    for (const number of upTo(45)) {
      void writer.append({ id: `${number}`, subject: 'stored', data: 'x'.repeat(1_000) });
    }
    await writer.flush();
    await nats.close();
    await server.stop();
    damage();
    server = await startNatsServer({ dataDir });
    nats = await connectNats({ url: server.url, name: 'faults' });
  }

  test('end at the newest message, even if the server counts lost ones as pending', async () => {
    await damaged(() => truncateSync(join(files(), '1.blk'), 16_000));
    const sequences = (await readRange(nats, 'stored', 1, 100)).map(({ sequence }) => sequence);
    expect(sequences).toEqual([...upTo(14), ...upTo(45).slice(28)]);
  });

  test('name a damaged message between others', async () => {
    await damaged(() => flipBytes(files(), /2\.blk$/));
    const named = /^stored is damaged: the server holds message 37 and cannot read it\. Restore/;
    await expect(readRange(nats, 'stored', 1, 100)).rejects.toThrow(named);
  });
});

describe('openKv', () => {
  test('a watch continues after a kill', async () => {
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
    const program = join(import.meta.dirname, '../../local/nats-server.ts');
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

  test('ends when its starter is killed', async () => {
    const program = join(import.meta.dirname, '../../local/nats-server.ts');
    const starter = spawn(process.execPath, [program, '--data', join(dataDir, 'left')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [line] = await once(starter.stdout, 'data');
    const { pid }: { pid: number } = JSON.parse(String(line));
    starter.kill('SIGKILL');
    await expect.poll(() => runs(pid, 'nats-server')).toBe(false);
  });

  test('run directly, it ends with its server on SIGTERM', async () => {
    const program = join(import.meta.dirname, '../../local/nats-server.ts');
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
