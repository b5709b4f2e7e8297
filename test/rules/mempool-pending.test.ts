// The life of pending matches, on a real anvil and a real nats-server: each is shown once, and a
// shown match that does not settle is reported, even across restarts.
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { encodeFunctionData, numberToHex, pad } from 'viem';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { storedSince } from '../../infra/nats/reader.ts';
import { decodeFeedEvent, FEED_STREAM, type FeedMatch } from '../../ingest/contract.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import {
  DEPLOYER,
  EXCHANGE,
  EXCHANGE_V3,
  exchangeV3Abi,
  NEG_RISK_EXCHANGE,
  OPERATORS,
  PUSD,
  pusdAbi,
  STRANGER,
} from '../../local/devnet/contracts.ts';
import { BUY } from '../../local/devnet/orders.ts';
import { BINARY, positionId } from '../../local/devnet/position-ids.ts';
import { type Broker, startBroker } from '../support/feed-harness.ts';
import {
  type Life,
  type Network,
  SECONDS_MAX,
  startLife,
  startNetwork,
  unpayable,
} from '../support/mempool-harness.ts';
import { FeedReader } from '../support/mempool-reader.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';
import { orderV3 } from '../support/v2-wallets.ts';

const SEED = TEST_SEED % 1_000;
console.info(`seed ${SEED}`);
let network: Network;
let broker: Broker;
let reader: FeedReader;
let life: Life;

beforeAll(async () => {
  [network, broker] = await Promise.all([startNetwork(SEED), startBroker()]);
  await ensureStreams(broker.nats, 1);
  reader = new FeedReader(broker.nats);
  life = await startWatching();
  await introduced();
});

// Matches that a test prevented are in the traders' books.
afterEach(() => network.reload());

afterAll(async () => {
  await life.stop();
  await reader.stop();
  await broker.close();
  await network.close();
});

/** A run of ingest's live side that sees every later transaction before it is mined. */
async function startWatching(): Promise<Life> {
  const begun = await startLife(broker.nats, network);
  await begun.uses('full');
  return begun;
}

/** For a test that starts its own run. Also runs after a failure, so that later tests do not hang. */
function watchAgainAfterwards(): void {
  onTestFinished(async () => {
    await life.stop();
    life = await startWatching();
  });
}

/** Mines a match of every operator on every exchange, so that each pair is known from now on. */
async function introduced(): Promise<void> {
  const placeOf = (exchange: string, operator: string) => `${exchange}:${operator}`.toLowerCase();
  const strange = new Set(
    [EXCHANGE, NEG_RISK_EXCHANGE, EXCHANGE_V3].flatMap((exchange) =>
      OPERATORS.map((operator) => placeOf(exchange, operator)),
    ),
  );
  while (strange.size > 0) {
    const { transaction } = await network.plan();
    const { to = '' } = transaction;
    const from = OPERATORS.find((one) => strange.has(placeOf(to, one))) ?? transaction.from;
    await network.send({ ...transaction, from });
    strange.delete(placeOf(to, from));
  }
  await mined();
}

/** Sends matches and mines them; the head is known afterwards. */
async function mined(): Promise<void> {
  for (let i = 0; i < 3; i += 1) await network.send((await network.plan()).transaction);
  await network.mine();
  await life.advance();
  await life.headRead();
}

describe('a pending match', () => {
  test('of version 3 is shown with the market that its tokens say', async () => {
    const wallets = [1, 2].map((n) => pad(numberToHex(0xfed000 + n), { size: 20 }));
    const [taker = '0x', maker = '0x'] = wallets;
    const args = [wallets, wallets.map(() => 100_000_000n)] as const;
    const data = encodeFunctionData({ abi: pusdAbi, functionName: 'mint', args });
    await network.send({ from: DEPLOYER, to: PUSD, data });
    const id = positionId(BINARY, numberToHex(SEED, { size: 32 }), 1);
    const shares = 10_000_000n;
    const match = (salt: bigint) => {
      const own = orderV3(salt, taker, BUY, id, shares, 600n);
      const other = orderV3(salt, maker, BUY, id + 1n, shares, 400n);
      const amounts = { takerFillAmount: own.makerAmount, takerReceiveAmount: shares };
      return {
        from: OPERATORS[0],
        to: EXCHANGE_V3,
        data: encodeFunctionData({
          abi: exchangeV3Abi,
          functionName: 'matchOrders',
          args: [
            ...([own, [other], [other.makerAmount], [0n]] as const),
            { ...amounts, takerFeeAmount: 0n },
          ],
        }),
      } as const;
    };
    // Its sender is known as an operator from now on.
    await network.send(match(1n));
    await network.mine();
    await life.advance();
    await life.headRead();
    const hash = await network.send(match(2n));
    const { event } = await reader.match(hash);
    expect(event).toMatchObject({
      ...{ pending: true, conditionId: numberToHex(id, { size: 32 }) },
      taker: {
        outcomeIndex: 0,
        shares,
        usdc: 6_000_000n,
        order: { timestampMs: 1_790_000_000_000 },
      },
    });
    await network.mine();
    await life.advance();
    await reader.sequel('final', hash);
    expect(await life.metric('calldata_differences_total')).toBe(0);
  });

  test('is shown once, from the mempool, and then reported as final, with every field that filters use', async () => {
    const { transaction } = await network.plan();
    const before = await life.metric('pending_matches_ended_total', { outcome: 'final' });
    const hash = await network.send(transaction);
    const { id, event } = await reader.match(hash);
    expect(event).toMatchObject({
      pending: true,
      sent: { sender: transaction.from.toLowerCase() },
    });
    await network.mine();
    await life.advance();
    const after = await life.metric('pending_matches_ended_total', { outcome: 'final' });
    expect(after).toBe(before + 1);
    expect(await life.metric('calldata_differences_total')).toBe(0);
    expect(life.pending.size).toBe(0);
    const { event: sequel } = await reader.sequel('final', hash);
    expect(sequel).toMatchObject({ matchId: id, conditionId: event.conditionId });
    if (event.kind !== 'match' || sequel.kind !== 'final') throw new Error('impossible');
    expect(sequel).toMatchObject({ usdc: event.taker.usdc, tags: event.market.tags });
    const receipt = await network.rpc.call<{ blockNumber: string }>(
      'eth_getTransactionReceipt',
      hash,
    );
    expect(sequel.blockNumber).toBe(Number(receipt.blockNumber));
    expect(reader.kinds(hash)).toEqual(['match', 'final']);
  });

  test('of a stranger is counted and never shown', async () => {
    const { transaction } = await network.plan();
    const before = await life.metric('pending_calls_refused_total', { reason: 'not_operator' });
    const hash = await network.send({ ...transaction, from: STRANGER });
    const later = await network.send(transaction);
    await reader.match(later);
    await network.mine();
    await life.advance();
    const after = await life.metric('pending_calls_refused_total', { reason: 'not_operator' });
    expect(after).toBe(before + 1);
    expect(reader.kinds(hash)).toEqual([]);
  });

  test('that reverts is void, with every field that filters use', async () => {
    const hash = await network.send(unpayable(await network.plan()));
    const { id, event } = await reader.match(hash);
    await network.mine();
    await life.advance();
    const { event: sequel, id: voidId } = await reader.sequel('void', hash);
    const { market, taker, makers } = event as FeedMatch;
    expect(voidId).toBe(`void:${id}`);
    expect(sequel).toMatchObject({
      reason: 'reverted',
      matchId: id,
      tags: market.tags,
      seriesSlug: market.seriesSlug,
      usdc: taker.usdc,
      shares: taker.shares,
      traders: [...new Set([taker, ...makers].map(({ trader }) => trader.address))],
    });
  });

  test('whose nonce another transaction uses up is void as replaced', async () => {
    const { transaction } = await network.plan();
    const hash = await network.send(transaction);
    const { event } = await reader.match(hash);
    const { nonce = 0 } = (event as FeedMatch).sent ?? {};
    await network.rpc.call('eth_sendTransaction', {
      ...{ from: transaction.from, to: transaction.from, gas: '0x5208', gasPrice: '0x3b9aca00' },
      nonce: `0x${nonce.toString(16)}`,
    });
    await network.mine();
    await life.advance();
    expect(reader.kinds(hash)).toEqual(['match']);
    // A second final block without its receipt makes it sure.
    await network.mine(1);
    await life.advance();
    const { event: sequel } = await reader.sequel('void', hash);
    expect(sequel).toMatchObject({ reason: 'replaced' });
  });

  test('that is mined is not void, however long it takes to be final', async () => {
    const hash = await network.send((await network.plan()).transaction);
    await reader.match(hash);
    await network.mine(1);
    await network.pass(SECONDS_MAX + 60);
    await network.mine();
    await life.advance();
    await mined();
    await reader.sequel('final', hash);
    expect(reader.kinds(hash)).toEqual(['match', 'final']);
  });
});

describe('a match that was first seen in a block', () => {
  test('is void when the block is replaced and the match with it, through a restart too', async () => {
    watchAgainAfterwards();
    await life.stop();
    life = await startLife(broker.nats, network, { setting: 'off' });
    // Book it first, because the new block executes it without the other one.
    const kept = await network.plan();
    const gone = await network.plan();
    const hashes = [await network.send(kept.transaction), await network.send(gone.transaction)];
    const [keptHash = '', goneHash = ''] = hashes;
    await network.mine(1);
    await life.headRead();
    await reader.match(keptHash);
    const { event } = await reader.match(goneHash);
    expect(event).toMatchObject({
      pending: false,
      sent: { sender: gone.transaction.from.toLowerCase() },
    });
    expect(life.pending.size).toBe(2);
    await life.stop();
    life = await startLife(broker.nats, network, { setting: 'off' });
    expect(life.pending.size).toBe(2);
    // One is mined again in the new block; an empty call uses the nonce of the other.
    const { nonce = 0 } = (event as FeedMatch).sent ?? {};
    const { from } = gone.transaction;
    const other = {
      from,
      to: from,
      nonce: `0x${nonce.toString(16)}`,
      gas: '0x5208',
      gasPrice: '0x0',
    };
    const raw = await network.rpc.call('eth_getRawTransactionByHash', keptHash);
    await network.rpc.call('anvil_reorg', 1, [
      [raw, 0],
      [other, 0],
    ]);
    await network.mine();
    await life.advance();
    await network.mine(1);
    await life.advance();
    const { event: sequel } = await reader.sequel('void', goneHash);
    expect(sequel).toMatchObject({ reason: 'replaced' });
    await reader.sequel('final', keptHash);
    expect(reader.kinds(keptHash)).toEqual(['match', 'final']);
    expect(life.pending.size).toBe(0);
  });
});

describe('a restart', () => {
  test('loses no void and repeats none', async () => {
    const good = await network.send((await network.plan()).transaction);
    const before = await network.send(unpayable(await network.plan()));
    const after = await network.send(unpayable(await network.plan()));
    for (const hash of [good, before, after]) await reader.match(hash);
    await life.stop();
    await network.mine();
    await network.reload();
    life = await startWatching();
    expect(life.pending.size).toBe(3);
    await mined();
    for (const hash of [before, after]) {
      expect((await reader.sequel('void', hash)).event).toMatchObject({ reason: 'reverted' });
    }
    await life.stop();
    life = await startWatching();
    // Nothing is open: final in LEDGER, or void in FEED.
    expect(life.pending.size).toBe(0);
    await mined();
    await reader.sequel('final', good);
    expect(reader.kinds(good)).toEqual(['match', 'final']);
    expect(reader.kinds(before)).toEqual(['match', 'void']);
    const ids = reader.messages.map(({ id }) => id);
    expect(new Set(ids).size).toBe(ids.length);
  });

  test('between a block in LEDGER and its final message sends the message', async () => {
    const hash = await network.send((await network.plan()).transaction);
    await reader.match(hash);
    await mined();
    const { id, sequence } = await reader.sequel('final', hash);
    await life.stop();
    await broker.nats.jsm.streams.deleteMessage('FEED', sequence);
    life = await startWatching();
    await reader.first((message) => message.id === id && message.sequence > sequence);
    expect(reader.kinds(hash)).toEqual(['match', 'final', 'final']);
  });

  test('between the void of a dropped match and its mining keeps the restoration', async () => {
    const { transaction } = await network.plan();
    const hash = await network.send(transaction);
    await reader.match(hash);
    const raw = await network.rpc.call<Record<string, string>>('eth_getTransactionByHash', hash);
    await network.rpc.call('anvil_dropTransaction', hash);
    await network.mine();
    await life.advance();
    expect(reader.kinds(hash)).toEqual(['match']);
    await network.pass(SECONDS_MAX + 60);
    await network.mine();
    await life.advance();
    expect((await reader.sequel('void', hash)).event).toMatchObject({ reason: 'never_mined' });
    await life.stop();
    life = await startWatching();
    const again = await network.rpc.call('eth_sendTransaction', {
      ...{ from: raw.from, to: raw.to, data: raw.input, gas: raw.gas, nonce: raw.nonce },
      gasPrice: '0x0',
    });
    expect(again).toBe(hash);
    await network.mine();
    await life.advance();
    await reader.sequel('final', hash);
    expect(reader.kinds(hash)).toEqual(['match', 'void', 'restored', 'final']);
  });
});

test('a match that waits for metadata is in FEED before LEDGER has its block', async () => {
  watchAgainAfterwards();
  await life.stop();
  // The names of traders never arrive.
  const silent = createServer((request, response) => {
    if (request.url?.startsWith('/public-profile')) return;
    void fetch(`${network.gammaUrl}${request.url}`).then(async (answer) =>
      response.end(await answer.text()),
    );
  }).listen(0, '127.0.0.1');
  await once(silent, 'listening');
  const { port } = silent.address() as AddressInfo;
  life = await startLife(broker.nats, network, { gammaUrl: `http://127.0.0.1:${port}` });
  await life.uses('full');
  const hash = await network.send((await network.plan()).transaction);
  while (life.pending.size === 0) await life.tick();
  await network.mine();
  await life.advance();
  const feed: string[] = [];
  for await (const message of storedSince(broker.nats, FEED_STREAM, { sequence: 1 })) {
    const event = decodeFeedEvent(message.data);
    if (event.kind === 'match') feed.push(event.txHash);
  }
  expect(feed).toContain(hash);
  silent.closeAllConnections();
  silent.close();
});

describe('a second ingest', () => {
  test('shows the matches of a block that becomes final: they are final, and never void', async () => {
    watchAgainAfterwards();
    await life.stop();
    life = await startLife(broker.nats, network, {
      ...{ setting: 'off', webSocketUrl: 'ws://127.0.0.1:1' },
    });
    const other = await startWatching();
    const plans = [await network.plan(), await network.plan()];
    const hashes = await Promise.all(plans.map(({ transaction }) => network.send(transaction)));
    for (const hash of hashes) await reader.match(hash);
    await other.stop();
    await network.mine();
    // With its message of one match, the first one reads that of the other ingest on the next match.
    await life.finals();
    expect(life.pending.size).toBe(0);
    for (const hash of hashes) {
      await reader.sequel('final', hash);
      expect(reader.kinds(hash)).toEqual(['match', 'final']);
    }
  });

  test('ends before a match that it showed: the first one voids it', async () => {
    watchAgainAfterwards();
    await life.stop();
    life = await startLife(broker.nats, network, { setting: 'off' });
    const other = await startWatching();
    // Booked first, because it is executed without the other one, whose shares it could sell.
    const { transaction: kept } = await network.plan();
    const { transaction } = await network.plan();
    const hash = await network.send(transaction);
    await reader.match(hash);
    await other.stop();
    await network.rpc.call('anvil_dropTransaction', hash);
    // With its next message, the first one reads what the other stored. The nonce stays unused.
    const from = OPERATORS.find((one) => one !== transaction.from) ?? OPERATORS[0];
    const shown = await network.send({ ...kept, from });
    await network.mine();
    await life.advance();
    await reader.sequel('final', shown);
    await network.mine();
    await life.advance();
    await network.pass(SECONDS_MAX + 60);
    await network.mine();
    await life.advance();
    const { event } = await reader.sequel('void', hash);
    expect(event).toMatchObject({ reason: 'never_mined' });
  });
});

test('operators survive restarts, and no failure was ignored', async () => {
  const { from, to } = (await network.plan()).transaction;
  expect(life.operators.has((to ?? '').toLowerCase(), from.toLowerCase())).toBe(true);
  expect(life.failures).toEqual([]);
});
