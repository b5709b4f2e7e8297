// The order feed's event about a match that was shown and never settled: it goes to the listeners
// that were shown the match, and has a cursor like any other event.
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openWriter, type StreamWriter } from '../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  type FeedMatch,
  type FeedRestored,
  type FeedVoid,
  feedMessageId,
  feedSequelId,
} from '../../ingest/contract.ts';
import {
  type Api,
  type Broker,
  makeStream,
  message,
  startApi,
  startBroker,
} from '../support/feed-harness.ts';
import { Client } from '../support/raw-client.ts';
import { address, fill, hash, market, match } from '../unit/feed-matches.ts';

const STREAM = 'VOIDS';

let broker: Broker;
let api: Api;
let writer: StreamWriter;

const one = match(1, {
  market: market({ tags: ['5M'], seriesSlug: 'NFL' }),
  taker: fill(1, { usdc: 4_500_000n, shares: 10_000_000n }),
  makers: [fill(2)],
});

beforeAll(async () => {
  broker = await startBroker();
  await makeStream(broker.nats, STREAM);
  api = await startApi({ nats: broker.nats, stream: STREAM });
  writer = await openWriter(broker.nats, { stream: STREAM });
});

afterAll(async () => {
  writer.close();
  await api.close();
  await broker.close();
});

let hashes = 100;
function nextHash(): FeedMatch['txHash'] {
  hashes += 1;
  return hash(hashes);
}

function idOf(match: FeedMatch): string {
  return feedMessageId(match.txHash, match.taker.orderHash, 0);
}

function about(match: FeedMatch) {
  const { txHash, conditionId, market, taker, makers } = match;
  return {
    matchId: idOf(match),
    ...{ txHash, conditionId, detectedAtMs: 1_760_000_001_234 },
    traders: [taker, ...makers].map(({ trader }) => trader.address),
    tags: market.tags,
    seriesSlug: market.seriesSlug,
    ...{ usdc: taker.usdc, shares: taker.shares },
  };
}

async function publish(match: FeedMatch, kind: 'void' | 'restored'): Promise<void> {
  const sequel: FeedVoid | FeedRestored =
    kind === 'void' ? { kind, reason: 'never_mined', ...about(match) } : { kind, ...about(match) };
  const id = feedSequelId(kind, idOf(match));
  await writer.append({ id, subject: `${STREAM}.${kind}`, data: encodeFeedEvent(sequel) });
}

async function show(match: FeedMatch): Promise<void> {
  await writer.append(message(STREAM, match));
}

describe('a void', () => {
  test('is sent live and after resuming, in order, in both formats', async () => {
    const clients = ['', 'format=json'].map((query) => new Client(api.port, { query }));
    for (const client of clients) await client.begun();
    await show(one);
    await publish(one, 'void');
    await publish(one, 'restored');
    const last = match(2);
    await show(last);
    for (const client of clients) {
      await client.until(({ orders }) => orders.length === 2);
      const events = client.blocks.filter(({ event }) => event !== undefined);
      expect(events.map(({ event }) => event)).toEqual(['order', 'void', 'restored', 'order']);
      expect(JSON.parse(events[1]?.data ?? '')).toEqual({
        tx_hash: one.txHash,
        match_id: idOf(one),
        reason: 'never_mined',
        timestamp: '2025-10-09 08:53:21.234Z',
      });
      expect(JSON.parse(events[2]?.data ?? '')).not.toHaveProperty('reason');
      const ids = events.map(({ id }) => Number(id));
      expect(ids).toEqual(ids.toSorted((a, b) => a - b));

      const [order, voided] = events;
      for (const [after, events] of [
        [order?.id, ['void', 'restored', 'order']],
        [voided?.id, ['restored', 'order']],
      ] as const) {
        const again = new Client(api.port, { headers: { 'Last-Event-ID': after ?? '' } });
        await again.until(({ orders }) => orders.length === 1);
        const replayed = again.blocks.flatMap(({ event = [] }) => event);
        expect(replayed).toEqual(events);
        again.close();
      }
      client.close();
    }
  });

  test.each([
    ['', true],
    [`traders=${address(2)}`, true],
    [`traders=${address(3)}`, false],
    ['tags=5m&series=nfl', true],
    ['tags=other', false],
    ['series=other', false],
    ['min_usdc=4.5&max_shares=10&min_price=45&max_price=45', true],
    ['min_usdc=4.500001', false],
    ['min_shares=11', false],
    ['max_price=44.99', false],
  ])('is sent to the clients that received the match: %s', async (query, wanted) => {
    const client = new Client(api.port, { query });
    const everything = new Client(api.port);
    await Promise.all([client.begun(), everything.begun()]);
    await publish({ ...one, txHash: nextHash() }, 'void');
    await show({ ...one, txHash: nextHash() });
    await everything.until(({ orders }) => orders.length === 1);
    if (wanted) await client.until(({ orders }) => orders.length === 1);
    const events = client.blocks.flatMap(({ event = [] }) => event);
    expect(events).toEqual(wanted ? ['void', 'order'] : []);
    client.close();
    everything.close();
  });
});
