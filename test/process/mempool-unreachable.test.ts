import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { OPERATORS } from '../../infra/local/devnet/contracts.ts';
import type { MempoolSetting, MempoolSource } from '../../ingest/mempool.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { type Broker, startBroker } from '../support/feed-harness.ts';
import { type Habits, startFakeNode } from '../support/mempool-fake-node.ts';
import { type Life, type Network, startLife, startNetwork } from '../support/mempool-harness.ts';
import { FeedReader } from '../support/mempool-reader.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

const SEED = TEST_SEED % 1_000;
console.info(`seed ${SEED}`);

const GOOD: Habits = {
  pending: 'bodies',
  sockets: true,
  disorderly: false,
  refused: new Set(['txpool_content']),
};

let network: Network;
let broker: Broker;
let reader: FeedReader;
let life: Life | undefined;
let close: (() => void) | undefined;

beforeAll(async () => {
  [network, broker] = await Promise.all([startNetwork(SEED), startBroker()]);
  await ensureStreams(broker.nats, 1);
  reader = new FeedReader(broker.nats);
});

afterEach(async () => {
  await life?.stop();
  close?.();
  await network.mine();
});

afterAll(async () => {
  await reader.stop();
  await broker.close();
  await network.close();
});

async function begin(habits: Partial<Habits>, setting: MempoolSetting = 'auto') {
  const node = await startFakeNode(network.url, { ...GOOD, ...habits });
  close = node.close;
  const { url, webSocketUrl } = node;
  life = await startLife(broker.nats, network, {
    ...{ url, webSocketUrl, setting, operators: OPERATORS },
  });
  return { node, life };
}

async function pendingMatch(): Promise<string> {
  return network.send((await network.plan()).transaction);
}

/** Resolves when a match sent now was shown from the mempool by this way. */
async function showsPending(life: Life, source: MempoolSource): Promise<void> {
  const { event } = await reader.match(await pendingMatch());
  expect(event).toMatchObject({ pending: true });
  // Counted when FEED has acknowledged it.
  while ((await life.metric('feed_matches_shown_total', { source })) === 0) await life.tick();
  expect(life.failures).toEqual([]);
}

describe('a connection', () => {
  test('that cannot be opened is replaced by polling heads and the pool', async () => {
    const { life } = await begin({ sockets: false, refused: new Set() });
    await life.uses('txpool');
    await showsPending(life, 'txpool');
    await network.mine(1);
    await life.headRead();
  });
});
