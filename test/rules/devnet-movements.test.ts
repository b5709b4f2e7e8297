/** Every share of the devnet is accounted: for each wallet and token, fills and movements add up to `balanceOf`. */
import type { Hex } from 'viem';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { LedgerEvent } from '../../ingest/contract.ts';
import { isStructured, structuredTokens } from '../../ingest/events/structured-ids.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { POSITION_MANAGER } from '../../local/devnet/contracts.ts';
import {
  blocksWithMovements,
  CHAIN,
  type StillDevnet,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { balancesOf, MovingWallets, moneyOf } from '../support/moving-wallets.ts';
import { isLong, SEED } from '../support/seed.ts';
import { temporaryDirectory } from '../support/service.ts';
import { balancesIn } from '../support/v2-wallets.ts';

/** How often every way has its turn. */
const ROUNDS = isLong ? 6 : 2;

const directory = temporaryDirectory();
let devnet: StillDevnet;

beforeAll(async () => {
  devnet = await startStillDevnet(directory.path, 400);
});
afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

async function eventsOf(): Promise<readonly LedgerEvent[]> {
  const blocks = await blocksWithMovements(devnet.url, await devnet.number('latest'));
  return blocks.flatMap((block) => block.events);
}

/** The sum of all fills and movements, by wallet, market and outcome. */
function balancesBy(events: readonly LedgerEvent[]): ReadonlyMap<string, bigint> {
  const balances = new Map<string, bigint>();
  const add = (trader: string, conditionId: string, outcome: number, shares: bigint) => {
    const key = `${trader}:${conditionId}:${outcome}`;
    balances.set(key, (balances.get(key) ?? 0n) + shares);
  };
  for (const event of events) {
    if (event.kind === 'match') {
      for (const { trader, side, outcomeIndex, shares } of event.fills)
        add(trader, event.conditionId, outcomeIndex, side === 'BUY' ? shares : -shares);
    } else if (event.kind === 'movement') {
      const { trader, counterparty, conditionId, change, reason } = event;
      for (const outcome of [0, 1] as const) {
        add(trader, conditionId, outcome, change[outcome]);
        if (reason === 'transfer') add(counterparty, conditionId, outcome, -change[outcome]);
      }
    }
  }
  return balances;
}

test('fills and movements add up to the balances of the chain', async () => {
  const events = await eventsOf();
  const reasons = events.flatMap((event) => (event.kind === 'movement' ? event.reason : []));
  expect([...new Set(reasons)]).toEqual(['redeem']);
  const balances = balancesBy(events);
  expect(balances.size).toBeGreaterThan(100);
  const asked = [...balances].map(([key, shares]) => {
    const [owner, conditionId, outcome] = key.split(':') as [Hex, Hex, string];
    const isV2 = isStructured(conditionId);
    const ids = isV2
      ? structuredTokens(conditionId).map(BigInt)
      : positionIds(CHAIN.collateral, conditionId);
    return { owner, id: ids[Number(outcome)] ?? 0n, shares, isV2 };
  });
  const [v2, older] = [asked.filter(({ isV2 }) => isV2), asked.filter(({ isV2 }) => !isV2)];
  expect(v2.length).toBeGreaterThan(10);
  expect(older.map(({ shares }) => shares)).toEqual(await balancesOf(devnet, older));
  expect(v2.map(({ shares }) => shares)).toEqual(await balancesIn(devnet, POSITION_MANAGER, v2));
});

test('each kind of movement is recognised, and the payments add up', async () => {
  const wallets = await MovingWallets.open(devnet, SEED);
  for (let round = 0; round < ROUNDS; round++) {
    for (const [n, move] of wallets.ways.entries()) {
      if (n % 11 === 0) await wallets.resolveSome();
      await move();
      if (n % 3 > 0) await devnet.mine(1);
    }
  }
  await devnet.mine(1);
  const events = await eventsOf();
  const rows: Record<string, number> = {};
  const cash = new Map(wallets.given);
  const pay = (trader: Hex, usdc: bigint) => {
    const before = cash.get(trader);
    if (before !== undefined) cash.set(trader, before + usdc);
  };
  for (const event of events) {
    if (event.kind === 'match') {
      for (const { trader, side, usdc, fee } of event.fills)
        pay(trader, (side === 'BUY' ? -usdc : usdc) - fee);
    } else if (event.kind === 'movement' && wallets.given.has(event.trader)) {
      const { reason, trader, usdc, change } = event;
      const legs = change.filter((shares) => shares !== 0n).length;
      rows[reason] = (rows[reason] ?? 0) + (reason === 'transfer' ? 2 * legs : legs);
      pay(trader, usdc);
    }
  }
  expect(rows).toEqual(wallets.rows);
  for (const [owner, money] of cash)
    expect([owner, money]).toEqual([owner, await moneyOf(devnet, owner)]);

  const conditions = new Map(wallets.questions.map((one) => [one.conditionId, one.tokenIds]));
  const found = [...balancesBy(events)].flatMap(([key, shares]) => {
    const [owner, conditionId, outcome] = key.split(':') as [Hex, Hex, string];
    const id = conditions.get(conditionId)?.[Number(outcome) as 0 | 1];
    return id === undefined || shares === 0n ? [] : [{ owner, id, shares }];
  });
  const inOrder = (all: typeof found) =>
    all.map(({ owner, id, shares }) => `${owner} ${id} ${shares}`).sort();
  const held = wallets.held();
  expect(inOrder(found)).toEqual(inOrder([...held]));
  expect(await balancesOf(devnet, held)).toEqual(held.map(({ shares }) => shares));
});
