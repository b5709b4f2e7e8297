// Fills foretold from calldata against the logs of the contract: random matches of every type on
// anvil, some with more of the taker's money than is needed, each compared as ingest does it.
import { afterAll, beforeAll, expect, test } from 'vitest';
import { OPERATORS } from '../../infra/local/devnet/contracts.ts';
import { encodeMatch, type Match } from '../../infra/local/devnet/orders.ts';
import type { PlannedMatch } from '../../infra/local/devnet/world.ts';
import { ensureStreams } from '../../ingest/streams.ts';
import { type Broker, startBroker } from '../support/feed-harness.ts';
import { type Life, type Network, startLife, startNetwork } from '../support/mempool-harness.ts';
import { FeedReader } from '../support/mempool-reader.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

const SEED = TEST_SEED % 1_000;
console.info(`seed ${SEED}`);

const MATCHES = 250;
/** Every so many matches offer more than is needed: the exchange gives the rest back. */
const GENEROUS_EACH = 4;

let network: Network;
let broker: Broker;
let reader: FeedReader;
let life: Life;

beforeAll(async () => {
  [network, broker] = await Promise.all([startNetwork(SEED), startBroker()]);
  await ensureStreams(broker.nats, 1);
  reader = new FeedReader(broker.nats);
  life = await startLife(broker.nats, network, { operators: OPERATORS });
  await life.uses('full');
});

afterAll(async () => {
  await life.stop();
  await reader.stop();
  await broker.close();
  await network.close();
});

/** Complementary, mint or merge, or a mix of the first with one of these. */
function typeOf({ takerOrder, makerOrders }: Match): string {
  const same = makerOrders.filter(({ side }) => side === takerOrder.side).length;
  const joined = takerOrder.side === 0 ? 'mint' : 'merge';
  if (same === 0) return 'complementary';
  return same === makerOrders.length ? joined : `mixed ${joined}`;
}

/** The match with a little more of what the taker offers, as far as its order goes. */
function generous({ match, transaction }: PlannedMatch): PlannedMatch {
  const wanted = (match.takerFillAmount * 21n) / 20n;
  const most = match.takerOrder.makerAmount;
  const richer = { ...match, takerFillAmount: wanted < most ? wanted : most };
  return { match: richer, transaction: { ...transaction, data: encodeMatch(richer) } };
}

test('predicted fills equal the logged fills, for every type of match', async () => {
  const outcome = (name: string) => life.metric('pending_matches_ended_total', { outcome: name });
  await network.mine();
  await life.advance();
  // The end of the history was first seen in blocks.
  const mined = await outcome('final');
  const types = new Map<string, number>();
  const hashes: string[] = [];
  for (let i = 0; i < MATCHES; i += 1) {
    const plan = await network.plan();
    const { match, transaction } = i % GENEROUS_EACH === 0 ? generous(plan) : plan;
    hashes.push(await network.send(transaction));
    const type = typeOf(match);
    types.set(type, (types.get(type) ?? 0) + 1);
  }
  for (const hash of hashes) await reader.match(hash);
  await network.mine();
  await life.advance();
  const [final, reverted] = [(await outcome('final')) - mined, await outcome('reverted')];
  console.info({ ...Object.fromEntries(types), final, reverted });
  expect([...types.keys()].toSorted()).toEqual(
    expect.arrayContaining(['complementary', 'merge', 'mint']),
  );
  // A generous taker may lack what it offers, and what it paid is not in the traders' books.
  expect(final + reverted).toBe(MATCHES);
  expect(final).toBeGreaterThan(MATCHES / 2);
  expect(await life.metric('calldata_differences_total')).toBe(0);
});
