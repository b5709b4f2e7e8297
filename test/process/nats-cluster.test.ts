/**
 * A real NATS cluster: three servers, streams and buckets with three replicas, under load, while the
 * leader is killed and another server is cut off. Every acknowledged message is stored once and in
 * order; clients fail over; a listener of the feed gets everything without a gap.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { openKv } from '../../infra/nats/kv.ts';
import { lastMessage, readRange, storedSince } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { type Append, openWriter, type StreamWriter } from '../../infra/nats/writer.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { LEDGER_STREAM } from '../../ingest/ledger/ledger.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { NatsServerMissingError } from '../../local/nats-server-binary.ts';
import { message, startApi } from '../support/feed-harness.ts';
import { Cluster, leaderOf, NODES, type NodeName, replicated } from '../support/nats-cluster.ts';
import { findClusterServer } from '../support/nats-cluster-binary.ts';
import { Client, txHashes } from '../support/raw-client.ts';
import { match } from '../unit/feed-matches.ts';

const MATCHES_PER_SECOND = 200;
/** Maximum messages in flight, because a busy machine stores fewer a second. */
const PENDING_MAX = 100;
const STEP_MS = 20;
/** In 44 of 300 rounds, a replica was late. */
const ROUNDS = 60;
const ROUND_MESSAGES = 5;

const binary = await findClusterServer(process.env.NATS_SERVER_BIN).catch((error: unknown) => {
  if (!(error instanceof NatsServerMissingError)) throw error;
  console.log(`NATS cluster skipped: ${error.message}`);
  return undefined;
});

let directory: string;
let cluster: Cluster;

beforeAll(async () => {
  if (binary === undefined) return;
  directory = mkdtempSync(join(tmpdir(), 'fillstream-cluster-'));
  cluster = await Cluster.start(directory, binary);
});

afterAll(async () => {
  if (binary === undefined) return;
  await cluster?.stop();
  rmSync(directory, { recursive: true, force: true });
});

afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') {
    console.log(await cluster?.report([FEED_STREAM, LEDGER_STREAM]));
  }
  cluster?.heal();
});

/**
 * Appends one numbered match to FEED and one fact to LEDGER, again and again, until it is stopped. LEDGER
 * has two writers on connections of their own.
 */
async function load(nats: Nats, otherNats: Nats) {
  const feed = await openWriter(nats, { stream: FEED_STREAM });
  const ledger = await openWriter(nats, { stream: LEDGER_STREAM });
  const otherLedger = await openWriter(otherNats, { stream: LEDGER_STREAM });
  const writers = [feed, ledger, otherLedger];
  const acked = { feed: [] as string[], ledger: [] as string[], other: [] as string[] };
  const failures: unknown[] = [];
  const append = (writer: StreamWriter, list: string[], one: Append) =>
    void writer.append(one).then(
      () => list.push(one.id),
      (error) => failures.push(error),
    );
  const pause = async () => {
    if (failures.length > 0) throw failures[0];
    await delay(STEP_MS);
  };
  const fact = (id: string) => ({ id, subject: 'ledger.block.0.0', data: id });
  const sent: string[] = [];
  let running = true;
  async function run(): Promise<void> {
    for (let number = 1; running; number += 1) {
      const one = match(number);
      sent.push(one.txHash);
      append(feed, acked.feed, message(FEED_STREAM, one));
      append(ledger, acked.ledger, fact(`fact-${number}`));
      append(otherLedger, acked.other, fact(`other-${number}`));
      if (number % ((MATCHES_PER_SECOND * STEP_MS) / 1_000) === 0) await delay(STEP_MS);
      while (writers.some(({ stats }) => stats.published - stats.acked > PENDING_MAX)) {
        await pause();
      }
    }
    await Promise.all(writers.map((writer) => writer.flush()));
  }
  const finished = run();
  return {
    acked,
    sent,
    stats: () => writers.map(({ stats }) => stats),
    /** Resolves when this many more of each are acknowledged. */
    async goesOn(count: number): Promise<void> {
      const aims = Object.values(acked).map((list) => list.length + count);
      while (Object.values(acked).some((list, index) => list.length < (aims[index] ?? 0))) {
        await pause();
      }
    },
    async stop(): Promise<void> {
      running = false;
      await finished;
    },
  };
}

async function idsOf(nats: Nats, stream: string): Promise<string[]> {
  const ids: string[] = [];
  for await (const { messageId } of storedSince(nats, stream, { sequence: 1 })) ids.push(messageId);
  return ids;
}

function nodeOf(nats: Nats): NodeName {
  const port = nats.connection.getServer().split(':').at(-1);
  const node = NODES.find((name) => cluster.urlOf(name).endsWith(`:${port}`));
  if (node === undefined) throw new Error(`connected to ${nats.connection.getServer()}`);
  return node;
}

test.skipIf(binary === undefined)(
  'loses nothing that was acknowledged, while the leader is killed and a server is cut off',
  async () => {
    const [writer, reader, watcher] = await Promise.all(
      ['writer', 'reader', 'watcher'].map((name) => connectNats({ url: cluster.url, name })),
    );
    if (writer === undefined || reader === undefined || watcher === undefined) throw new Error();
    await retried(() => ensureStreams(writer, NODES.length));
    const bucket = await retried(() => openKv(writer, 'keys', { replicas: NODES.length }));
    const api = await startApi({ nats: reader });
    const listener = await new Client(api.port, { query: 'format=json' }).begun();
    const seenKeys: string[] = [];
    const stopWatching = new AbortController();
    const watching = (async () => {
      for await (const event of (await openKv(watcher, 'keys', { replicas: NODES.length })).watch(
        stopWatching.signal,
      )) {
        if (event.type === 'put') seenKeys.push(event.key);
      }
    })();

    const traffic = await load(writer, watcher);
    await traffic.goesOn(50);
    await bucket.create('before', '1');

    const leader = await leaderOf(reader, FEED_STREAM);
    const killedAt = performance.now();
    await cluster.kill(leader);
    await traffic.goesOn(100);
    console.log(`leader killed: goes on after ${Math.round(performance.now() - killedAt)} ms`);
    await retried(() => bucket.put('while-one-is-dead', '1'));
    await cluster.restart(leader);
    await replicated(reader, FEED_STREAM);
    await replicated(reader, LEDGER_STREAM);
    console.log(`all copies complete after ${Math.round(performance.now() - killedAt)} ms`);

    // The writer's server must notice by itself that it was cut off.
    const lonely = nodeOf(writer);
    const cutAt = performance.now();
    cluster.cutOff(lonely);
    await traffic.goesOn(100);
    console.log(`${lonely} cut off: goes on after ${Math.round(performance.now() - cutAt)} ms`);
    // It may try the isolated server again meanwhile.
    while (nodeOf(writer) === lonely) await delay(STEP_MS);
    await retried(() => bucket.put('while-one-is-cut-off', '1'));
    cluster.heal();
    await replicated(reader, FEED_STREAM);
    await replicated(reader, LEDGER_STREAM);
    await traffic.goesOn(50);
    await retried(() => bucket.put('after', '1'));
    await traffic.stop();

    const { acked, sent } = traffic;
    console.log(`${sent.length} matches`, traffic.stats());
    const ids = sent.map((_, index) => index + 1);
    expect(acked.feed).toHaveLength(sent.length);
    expect(acked.ledger).toEqual(ids.map((id) => `fact-${id}`));
    expect(acked.other).toEqual(ids.map((id) => `other-${id}`));
    expect(await retried(() => idsOf(reader, FEED_STREAM))).toEqual(acked.feed);
    const facts = await retried(() => idsOf(reader, LEDGER_STREAM));
    expect(facts).toHaveLength(2 * sent.length);
    expect(facts.filter((id) => id.startsWith('fact'))).toEqual(acked.ledger);
    expect(facts.filter((id) => id.startsWith('other'))).toEqual(acked.other);
    await listener.until(({ orders }) => orders.length >= sent.length);
    expect(txHashes(listener.orders)).toEqual(sent);
    expect(listener.blocks.filter(({ event }) => event === 'gap')).toEqual([]);

    while (!seenKeys.includes('after')) await delay(STEP_MS);
    // Each once, or again if the first acknowledgement was lost; none is missing.
    expect([...new Set(seenKeys)]).toEqual([
      ...['before', 'while-one-is-dead', 'while-one-is-cut-off', 'after'],
    ]);
    stopWatching.abort();
    await watching;
    listener.close();
    await api.close();
    await Promise.all([writer, reader, watcher].map((nats) => nats.close()));
  },
);

test.skipIf(binary === undefined)(
  'every reader finds all acknowledged messages, whichever replica responds',
  async () => {
    const nats = await connectNats({ url: cluster.url, name: 'both' });
    const stream = { name: 'late', subjects: ['late.>'], replicas: NODES.length };
    await retried(() => ensureStream(nats, stream));
    const writer = await openWriter(nats, { stream: 'late' });
    for (let round = 0; round < ROUNDS; round += 1) {
      const first = round * ROUND_MESSAGES + 1;
      const expected = Array.from({ length: ROUND_MESSAGES }, (_, index) => `id-${first + index}`);
      let lastSequence = 0;
      for (const id of expected) {
        lastSequence = await writer.append({ id, subject: `late.${round % 2}`, data: id });
      }
      const newest = await retried(() => lastMessage(nats, 'late', 'late.*'));
      expect(newest?.sequence).toBe(lastSequence);
      const found = await retried(() => readRange(nats, 'late', first, 2 * ROUND_MESSAGES));
      expect(found.map(({ messageId }) => messageId)).toEqual(expected);
    }
    await nats.close();
  },
);

test.skipIf(binary === undefined)(
  'a bucket gets more copies when it is opened with more, and keeps them when it is opened with fewer',
  async () => {
    const nats = await connectNats({ url: cluster.url, name: 'copies' });
    const copies = async (replicas?: number) => {
      await retried(() => openKv(nats, 'copies', replicas === undefined ? {} : { replicas }));
      return (await nats.jsm.streams.info('KV_copies')).config.num_replicas;
    };
    expect(await copies()).toBe(1);
    expect(await copies(NODES.length)).toBe(NODES.length);
    expect(await copies()).toBe(NODES.length);
    await nats.close();
  },
);

/** Retries requests that the cluster could not answer, like the processes of the service. */
async function retried<Value>(ask: () => Promise<Value>): Promise<Value> {
  for (;;) {
    try {
      return await ask();
    } catch (error) {
      if (!(error instanceof Error) || error.name !== 'NatsUnavailableError') throw error;
      await delay(STEP_MS);
    }
  }
}
