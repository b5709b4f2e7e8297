/** `event: position` of a managed stream: what its matches do to the positions of its wallets. */
import { describe, expect, test } from 'vitest';
import { EVENT_SCHEMAS } from '../../api/feed/event-schemas.ts';
import { StoreUnreachableError } from '../../infra/clickhouse.ts';
import type { FeedFill, FeedMatch } from '../../ingest/contract.ts';
import { addressOf, conditionOf, insertBookings } from '../support/api-bookings.ts';
import { issueKey, startStores } from '../support/api-harness.ts';
import { publish, publishSequel } from '../support/feed-harness.ts';
import { forFile } from '../support/for-file.ts';
import { type Block, Client } from '../support/raw-client.ts';
import { fill, hash, match } from '../unit/feed-matches.ts';

const MARKET = 0;
const NOW_MS = Date.parse('2026-05-01T12:00:00Z');
const HOUR_SECONDS = 3_600;
/** It is also the number of its transaction. */
const BOOKED_BLOCK = 50;

let isAway = false;
const service = forFile(async () => {
  const stores = await startStores();
  const api = await stores.serve({
    wrapSelect: (select) => async (statement) => {
      if (isAway) throw new StoreUnreachableError('ClickHouse is away');
      return await select(statement);
    },
  });
  return {
    stores,
    api,
    async stop() {
      await api.stop();
      await stores.stop();
    },
  };
});

let numbers = 0;
/** A pending match in which this trader takes. */
function trade(trader: string, taken: Partial<FeedFill>): FeedMatch {
  numbers += 1;
  const taker = fill(1, { ...taken, trader: { ...fill(1).trader, address: trader as never } });
  const conditionId = `0x${conditionOf(MARKET)}` as const;
  return match(numbers, { taker, conditionId, detectedAtMs: NOW_MS });
}

const show = (one: FeedMatch) => publish(service.stores.nats.nats, 'FEED', [one]);

async function newStream(lists: object) {
  const key = await issueKey(service.stores.nats.bucket, 'pro');
  const response = await fetch(`${service.api.url}/streams`, {
    method: 'POST',
    headers: { 'X-Service-Key': key, 'Content-Type': 'application/json' },
    body: JSON.stringify({ name: 'his', ...lists }),
  });
  const { id } = (await response.json()) as { id: string };
  const listen = (query: string, after?: string) =>
    new Client(Number(new URL(service.api.url).port), {
      ...{ path: `/streams/${id}`, query },
      headers: { 'X-Service-Key': key, ...(after === undefined ? {} : { 'Last-Event-ID': after }) },
    });
  return { id, key, listen };
}

/** 20 shares of Yes, booked an hour ago. */
async function holder(number: number): Promise<string> {
  const trader = addressOf(number);
  const booking = {
    ...({
      kind: 'fill',
      block: BOOKED_BLOCK,
      log: number,
      market: MARKET,
      trader,
      isTaker: true,
    } as const),
    ...({ side: 'BUY', outcome: 0, shares: 20_000_000n, usdc: 8_000_000n } as const),
    ...{ fee: 0n, pnl: 0n, cost: 0n, time: NOW_MS / 1_000 - HOUR_SECONDS },
  };
  await insertBookings(service.stores.clickhouse.client, [booking], number);
  return trader;
}

const buy = (shares: bigint): Partial<FeedFill> => ({ shares, usdc: shares / 2n });
const sell = (shares: bigint): Partial<FeedFill> => ({ ...buy(shares), side: 'SELL' });

/** Each event: what happened to a position, or the kind of the event about a match. */
function brief(blocks: readonly Block[]): readonly string[] {
  return blocks.flatMap(({ data, event, id }) => {
    if (event === undefined) return [];
    const { event: what, ...told } = JSON.parse(data ?? '');
    if (event !== 'position') return [`${event} ${Number(told.tx_hash)}`];
    expect(id).toBeUndefined();
    const { outcome, shares_after, shares_before, state, tx_hash, value } = told;
    return [
      `${Number(tx_hash)}: ${what} ${outcome} ${shares_before} ${shares_after} ${value} ${state}`,
    ];
  });
}

describe('positions=true', () => {
  test('says before each match what it does to positions, also when a client resumes', async () => {
    const trader = await holder(1);
    const { listen } = await newStream({ addresses: [trader] });
    const live = await listen('positions=true').begun();
    const plain = await listen('').begun();
    const [first, second, third] = [
      trade(trader, buy(10_000_000n)),
      trade(trader, sell(40_000_000n)),
      trade(trader, buy(5_000_000n)),
    ];
    await show(first);
    await show(trade(addressOf(2), buy(1_000_000n)));
    await show(second);
    await live.until(({ blocks }) => brief(blocks).length === 5);
    await publishSequel(service.stores.nats.nats, second, { kind: 'void', reason: 'reverted' });
    await show(third);
    await live.until(({ blocks }) => brief(blocks).length === 8);
    const [one, two, three] = [first, second, third].map(({ txHash }) => Number(txHash));
    const expected = [
      `${one}: added Yes 20000000 30000000 5000000 pending`,
      `tx ${one}`,
      `${two}: closed Yes 30000000 0 15000000 pending`,
      `${two}: opened No 0 10000000 5000000 pending`,
      `tx ${two}`,
      `void ${two}`,
      `${three}: added Yes 30000000 35000000 2500000 pending`,
      `tx ${three}`,
    ];
    expect(brief(live.blocks)).toEqual(expected);
    const told = live.blocks.find(({ event }) => event === 'position');
    expect(JSON.parse(told?.data ?? '')).toMatchObject({
      ...{ price: '500000', value_after: '15000000', portfolio_value: '15000000' },
      ...{ portfolio_share: 100, token_ids_index: 0, trader: { address: trader } },
      market: { condition_id: first.conditionId, outcomes: ['Yes', 'No'] },
    });
    const data = JSON.parse(told?.data ?? '');
    expect(EVENT_SCHEMAS.StreamPosition.strict().parse(data)).toEqual(data);
    expect(brief(plain.blocks)).toEqual(expected.filter((line) => /^(tx|void)/.test(line)));
    // After the first match, which is not booked and which the client has.
    const cursor = live.blocks.find(({ event }) => event === 'tx')?.id;
    const resumed = listen('positions=true', cursor);
    await resumed.until(({ blocks }) => brief(blocks).length === 6);
    expect(brief(resumed.blocks)).toEqual(expected.slice(2));
    for (const client of [live, plain, resumed]) client.close();
  });

  test('a restored match counts again, and a booked one is exact however late it is shown', async () => {
    const trader = await holder(31);
    const { listen } = await newStream({ addresses: [trader] });
    const lost = trade(trader, buy(10_000_000n));
    const later = trade(trader, buy(5_000_000n));
    const booked = match(BOOKED_BLOCK, {
      ...{ taker: { ...lost.taker, orderHash: hash(99), ...buy(20_000_000n) } },
      ...{ conditionId: lost.conditionId, detectedAtMs: NOW_MS - HOUR_SECONDS * 1_000 },
    });
    await show(lost);
    const { nats } = service.stores.nats;
    await publishSequel(nats, lost, { kind: 'void', reason: 'never_mined' });
    await publishSequel(nats, lost, { kind: 'restored' });
    await show(later);
    await show(booked);
    const client = listen('positions=true&last=3');
    await client.until(({ blocks }) => brief(blocks).length === 8);
    const [one, two] = [lost, later].map(({ txHash }) => Number(txHash));
    expect(brief(client.blocks)).toEqual([
      `${one}: added Yes 20000000 30000000 5000000 pending`,
      `tx ${one}`,
      `void ${one}`,
      `restored ${one}`,
      `${two}: added Yes 30000000 35000000 2500000 pending`,
      `tx ${two}`,
      `${BOOKED_BLOCK}: opened Yes 0 20000000 10000000 final`,
      `tx ${BOOKED_BLOCK}`,
    ]);
    client.close();
  });

  test('a changed filter tells of its wallets, with what they did before', async () => {
    const [one, other] = [await holder(11), await holder(12)];
    const { id, key, listen } = await newStream({ addresses: [one] });
    const live = await listen('positions=true').begun();
    await show(trade(other, buy(1_000_000n)));
    await show(trade(one, buy(2_000_000n)));
    await live.until(({ blocks }) => brief(blocks).length === 2);
    await fetch(`${service.api.url}/streams/${id}/subscription`, {
      method: 'PUT',
      headers: { 'X-Service-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify({ addresses: [other] }),
    });
    await show(trade(other, buy(4_000_000n)));
    await live.until(({ blocks }) => brief(blocks).length === 4);
    expect(brief(live.blocks)[2]).toMatch(/added Yes 21000000 25000000 2000000 pending$/);
    live.close();
  });

  test('waits while ClickHouse cannot be read, and loses nothing', async () => {
    const trader = await holder(21);
    const { listen } = await newStream({ addresses: [trader] });
    const live = await listen('positions=true').begun();
    const plain = await listen('').begun();
    isAway = true;
    await show(trade(trader, buy(1_000_000n)));
    await show(trade(trader, buy(2_000_000n)));
    await plain.until(({ blocks }) => brief(blocks).length === 2);
    expect(brief(live.blocks)).toEqual([]);
    isAway = false;
    await live.until(({ blocks }) => brief(blocks).length === 4);
    const shares = brief(live.blocks).filter((line) => line.includes('added'));
    expect(shares[0]).toContain('added Yes 20000000 21000000');
    expect(shares[1]).toContain('added Yes 21000000 23000000');
    for (const client of [live, plain]) client.close();
  });

  test('needs addresses', async () => {
    const { listen } = await newStream({ tags: ['crypto'] });
    const refused = listen('positions=true');
    await refused.until(({ ended }) => ended);
    expect(refused.status).toBe(400);
    expect(refused.body).toContain('positions: needs a stream with addresses');
  });
});
