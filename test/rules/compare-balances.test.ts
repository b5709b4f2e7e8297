/** Sampled balances of shares are compared with the bookings up to their block, once these are stored. */

import { pino } from 'pino';
import { Registry } from 'prom-client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Fill, type Hash, type Match, partitionOf } from '../../ingest/contract.ts';
import { compareBalances } from '../../projector/compare-balances.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
import { projectorMetrics } from '../../projector/progress.ts';
import { insertRows, Store } from '../../projector/store.ts';
import { DATABASE, type Schema, startSchema } from '../support/stack.ts';

let clickhouse: Schema;
beforeAll(async () => {
  clickhouse = await startSchema();
});
afterAll(() => clickhouse?.stop());

const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}`;
const wallet = (n: number) => `0x${n.toString(16).padStart(40, '0')}` as const;
const MARKET = hash(7);
const PARTITION = partitionOf(MARKET);

/** In each block, a trader buys and sells as many shares of an outcome as given. */
const TRADES = [
  { block: 10, trader: 1, outcome: 0, bought: 100n },
  { block: 20, trader: 1, outcome: 1, bought: 30n },
  { block: 30, trader: 1, outcome: 0, bought: -40n },
  { block: 15, trader: 2, outcome: 0, bought: 5n },
] as const;

function matchOf({ block, trader, outcome, bought }: (typeof TRADES)[number]): Match {
  const fill: Fill = {
    ...{ logIndex: 1, orderHash: hash(block), trader: wallet(trader), isTaker: true },
    ...{ side: bought < 0n ? 'SELL' : 'BUY', outcomeIndex: outcome, tokenId: '1', fee: 0n },
    ...{ shares: bought < 0n ? -bought : bought, usdc: 1n },
  };
  return {
    ...{ kind: 'match', blockNumber: block, blockTime: 1_700_000_000, txHash: hash(block) },
    ...{ logIndex: 2, exchange: wallet(9), conditionId: MARKET, fills: [fill] },
  };
}

function observed(
  trader: number,
  block: number,
  [zero, one]: readonly [bigint, bigint],
  { coveredFrom = 0, age = 0 } = {},
) {
  return {
    table: 'share_balances',
    row: {
      trader_hex: wallet(trader).slice(2),
      condition_id_hex: MARKET.slice(2),
      partition: PARTITION,
      block_number: block,
      covered_from: coveredFrom,
      balance_0: zero.toString(),
      balance_1: one.toString(),
      observed_at: Math.floor(Date.now() / 1_000) - age,
    },
  };
}

const results = () =>
  clickhouse.rows<{ trader: string; block: string; result: string; booked: string }>(
    `SELECT concat('0x', lower(hex(trader))) AS trader, toString(block_number) AS block, toString(result) AS result,
       concat(toString(booked_0), ',', toString(booked_1)) AS booked
     FROM share_balances FINAL ORDER BY block_number DESC`,
  );

test('compares with the bookings of the same block, once they are stored, and only those of its partitions', async () => {
  const { client } = clickhouse;
  const deployment = { database: DATABASE };
  const positions = new OpenPositions();
  const rows = TRADES.toSorted((a, b) => a.block - b.block).flatMap((trade) =>
    positions.apply(matchOf(trade), true),
  );
  await new Store(client, [PARTITION], deployment).writeBatch({ id: '1', rows });
  const metrics = projectorMetrics(new Registry());
  const abort = new AbortController();
  let stored = 19;
  const others = { ...observed(3, 10, [0n, 0n]).row, partition: (PARTITION + 1) % 16 };
  await insertRows(client, [
    observed(1, 20, [100n, 30n]),
    observed(2, 19, [4n, 0n]),
    { table: 'share_balances', row: others },
  ]);
  const comparing = compareBalances({
    ...{ client, deployment, partitions: [PARTITION], metrics, signal: abort.signal },
    ...{ logger: pino({ level: 'silent' }), assertOwner: () => undefined, roundMs: 20 },
    storedBlock: () => stored,
  });
  const of = async (trader: number) => {
    const found = (await results()).find((row) => row.trader === wallet(trader));
    return [found?.block, found?.result, found?.booked];
  };
  await expect.poll(() => of(2)).toEqual(['19', 'more', '5,0']);
  expect(await of(1)).toEqual(['20', 'waiting', '0,0']);
  stored = 40;
  await expect.poll(() => of(1)).toEqual(['20', 'equal', '100,30']);

  await insertRows(client, [observed(2, 21, [6n, 0n]), observed(1, 29, [101n, 29n])]);
  await expect.poll(() => of(2)).toEqual(['21', 'less', '5,0']);
  await expect.poll(() => of(1)).toEqual(['29', 'more', '100,30']);
  await insertRows(client, [observed(1, 30, [60n, 30n], { coveredFrom: 10 })]);
  await expect.poll(() => of(1)).toEqual(['30', 'equal', '60,30']);
  await insertRows(client, [observed(1, 31, [0n, 0n], { coveredFrom: 11 })]);
  await expect.poll(() => of(1)).toEqual(['31', 'left_out', '60,30']);
  await insertRows(client, [
    observed(1, 32, [60n, 30n], { age: 2 * 86_400 }),
    observed(2, 33, [5n, 0n]),
  ]);
  await expect.poll(() => of(2)).toEqual(['33', 'equal', '5,0']);
  // Too old.
  expect(await of(1)).not.toContain('equal');
  expect((await of(3))[1]).toBe('waiting');

  abort.abort();
  await comparing;
  const { values } = await metrics.compared.get();
  expect(Object.fromEntries(values.map(({ labels, value }) => [labels.result, value]))).toEqual({
    ...{ equal: 3, less: 1, more: 2, left_out: 1 },
  });
});
