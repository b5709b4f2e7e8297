// Every way in which nodes provide pending transactions, and the fallback from one to the next,
// with a proxy in front of anvil that behaves like other nodes.

import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { MempoolSetting, MempoolSource } from '../../ingest/pending/mempool.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { OPERATORS } from '../../local/devnet/contracts.ts';
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

/** Resolves when a match that was sent now was shown from the mempool by this source. */
async function showsPending(life: Life, source: MempoolSource): Promise<void> {
  const { event } = await reader.match(await pendingMatch());
  expect(event).toMatchObject({ pending: true });
  // It is counted when FEED has acknowledged it.
  while ((await life.metric('feed_matches_shown_total', { source })) === 0) await life.tick();
  expect(life.failures).toEqual([]);
}

test('the WebSocket sends the credentials of its URL', async () => {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const authorization = new Promise((resolve) => {
    server.on('upgrade', ({ headers }, socket) => {
      socket.destroy();
      resolve(headers.authorization);
    });
  });
  const { port } = server.address() as AddressInfo;
  close = () => server.close();
  life = await startLife(broker.nats, network, {
    ...{ url: network.url, webSocketUrl: `ws://user:p%40ss@127.0.0.1:${port}` },
    ...{ setting: 'auto', operators: OPERATORS },
  });
  expect(await authorization).toBe(`Basic ${Buffer.from('user:p@ss').toString('base64')}`);
});

describe('auto', () => {
  test('uses bodies if the node pushes them', async () => {
    const { life, node } = await begin({ pending: 'bodies' });
    await life.uses('full');
    await showsPending(life, 'full');
    expect(node.subscribed).toEqual(['newHeads', 'newPendingTransactions']);
  });

  test('uses the filtered subscription of Alchemy if bodies are refused', async () => {
    const { life } = await begin({ pending: 'alchemy' });
    await life.uses('alchemy');
    await showsPending(life, 'alchemy');
  });

  test('looks up hashes if nothing else works', async () => {
    const { life } = await begin({ pending: 'hashes' });
    await life.uses('hashes');
    await showsPending(life, 'hashes');
  });

  test('notices with the first push that a node ignores the parameter for bodies', async () => {
    const { life, node } = await begin({ pending: 'ignores_bodies' });
    await life.uses('full');
    await pendingMatch();
    await life.uses('hashes');
    await showsPending(life, 'hashes');
    expect(node.subscribed.slice(1)).toEqual([
      'newPendingTransactions',
      'alchemy_pendingTransactions',
      'newPendingTransactions',
    ]);
  });

  test('polls the pool if subscriptions are refused', async () => {
    const { life } = await begin({ pending: 'none', refused: new Set() });
    await life.uses('txpool');
    await showsPending(life, 'txpool');
  });

  test('is off if the pool is refused too, and blocks show the matches', async () => {
    const { life } = await begin({ pending: 'none' });
    while ((await life.metric('mempool_source', { source: 'off' })) !== 1) await life.tick();
    expect(life.subscription.source).toBe('off');
    const hash = await pendingMatch();
    await network.mine(1);
    expect((await reader.match(hash)).event).toMatchObject({ pending: false });
  });

  test('abandons a source that is mute while matches are mined', async () => {
    const { life } = await begin({ pending: 'mute', refused: new Set() });
    await life.uses('full');
    for (const source of ['alchemy', 'hashes', 'txpool'] as const) {
      while (life.subscription.source !== source) {
        const hash = await pendingMatch();
        await network.mine(1);
        await reader.match(hash);
        await life.headRead();
      }
    }
    await showsPending(life, 'txpool');
  });
});

describe('a configured source', () => {
  test('is used although a better one exists', async () => {
    const { life } = await begin({ pending: 'ignores_bodies', refused: new Set() }, 'txpool');
    await life.uses('txpool');
    await showsPending(life, 'txpool');
  });

  test('accepts hashes instead of bodies', async () => {
    const { life } = await begin({ pending: 'ignores_bodies' }, 'full');
    await life.uses('full');
    const { event } = await reader.match(await pendingMatch());
    expect(event).toMatchObject({ pending: true });
  });

  test('off leaves everything to the blocks', async () => {
    const { life, node } = await begin({}, 'off');
    const hash = await pendingMatch();
    while (node.subscribed.length === 0) await life.tick();
    await network.mine(1);
    expect((await reader.match(hash)).event).toMatchObject({ pending: false });
    expect(node.subscribed).toEqual(['newHeads']);
  });
});

describe('a connection', () => {
  test('that is cut is replaced, and pushes continue', async () => {
    const { life, node } = await begin({});
    await life.uses('full');
    await showsPending(life, 'full');
    node.cut();
    while (node.subscribed.length < 4) await life.tick();
    await life.uses('full');
    await showsPending(life, 'full');
  });

  test('that is lost for good is replaced by one to the next endpoint', async () => {
    const [first, second] = [
      await startFakeNode(network.url, GOOD),
      await startFakeNode(network.url, { ...GOOD, pending: 'hashes' }),
    ];
    close = second.close;
    const webSocketUrl = `${first.webSocketUrl},${second.webSocketUrl}`;
    life = await startLife(broker.nats, network, { webSocketUrl, operators: OPERATORS });
    await life.uses('full');
    await showsPending(life, 'full');
    first.close();
    await life.uses('hashes');
    await showsPending(life, 'hashes');
  });

  test('with double, late and broken pushes shows each match once', async () => {
    const { life } = await begin({ disorderly: true });
    await life.uses('full');
    const hashes = [];
    for (let i = 0; i < 10; i += 1) hashes.push(await pendingMatch());
    for (const hash of hashes) await reader.match(hash);
    await network.mine();
    await life.headRead();
    await life.advance();
    for (const hash of hashes) {
      await reader.sequel('final', hash);
      expect(reader.kinds(hash)).toEqual(['match', 'final']);
    }
    expect(
      await life.metric('pending_pushes_dropped_total', { reason: 'malformed' }),
    ).toBeGreaterThan(0);
    expect(life.failures).toEqual([]);
  });

  test('that cannot be opened is replaced by polling heads and the pool', async () => {
    const { life } = await begin({ sockets: false, refused: new Set() });
    await life.uses('txpool');
    await showsPending(life, 'txpool');
    await network.mine(1);
    await life.headRead();
  });
});
