// JetStream is down while many matches arrive: the queue is bounded and counted, and every queued
// match is published once when it is back. The metadata API is down, too, and nothing waits for it
// for long.
import { createHash } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Transaction } from '../../ingest/chain/rpc.ts';
import { PENDING_WAITING_MAX } from '../../ingest/pending/pending-feed.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { OPERATORS } from '../../local/devnet/contracts.ts';
import { type Broker, startBroker } from '../support/feed-harness.ts';
import { type Life, type Network, startLife, startNetwork } from '../support/mempool-harness.ts';
import { FeedReader } from '../support/mempool-reader.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

const SEED = TEST_SEED % 1_000;
console.info(`seed ${SEED}`);

const OVERFLOW = 40;

let network: Network;
let broker: Broker;
let reader: FeedReader;
let life: Life;

beforeAll(async () => {
  [network, broker] = await Promise.all([startNetwork(SEED), startBroker()]);
  await ensureStreams(broker.nats, 1);
  reader = new FeedReader(broker.nats);
  life = await startLife(broker.nats, network, {
    setting: 'off',
    operators: OPERATORS,
    gammaUrl: 'http://127.0.0.1:1',
  });
});

afterAll(async () => {
  await life.stop();
  await reader.stop();
  await broker.close();
  await network.close();
});

/** A pushed call that was never sent, because this test does not need the mempool. */
function pushed(n: number): Transaction {
  const { from, to, data } = network.book().transaction;
  const hash = `0x${createHash('sha256').update(`${n}`).digest('hex')}`;
  return Transaction.parse({ hash, from, to, input: data, nonce: `0x${n.toString(16)}` });
}

describe('an outage of JetStream', () => {
  test('queues a bounded number of pending matches, counts the rest, and loses none in the queue', async () => {
    // Otherwise the head would be polled and its matches shown if the outage takes 5 s.
    const head = await network.number('latest');
    life.live.head(head);
    await expect.poll(() => life.metric('head_block')).toBe(head);
    const ofBlocks = await life.metric('feed_matches_shown_total', { source: 'block' });
    await expect.poll(() => reader.messages.length).toBe(ofBlocks);
    await broker.stop();
    const total = PENDING_WAITING_MAX + OVERFLOW;
    const transactions = Array.from({ length: total }, (_, n) => pushed(n));
    const waiting = transactions.map((one) => life.live.pending(one, 'full'));
    expect(await life.metric('pending_calls_refused_total', { reason: 'busy' })).toBe(OVERFLOW);
    await broker.start();
    await Promise.all(waiting);
    const last = transactions.at(-1 - OVERFLOW)?.hash ?? '';
    await reader.match(last);
    const ids = reader.messages.slice(ofBlocks).map(({ id }) => id);
    expect(ids.length).toBe(total - OVERFLOW);
    expect(new Set(ids).size).toBe(ids.length);
    expect(life.pending.size).toBe(ofBlocks + total - OVERFLOW);
    // Rejected matches can arrive again, as a push or in a block.
    const again = transactions.slice(-OVERFLOW);
    await Promise.all(again.map((one) => life.live.pending(one, 'full')));
    for (const { hash } of again) await reader.match(hash);
    expect(life.failures).toEqual([]);
  });
});
