/** Every share of the devnet is accounted: for each wallet and token, fills and movements add up to `balanceOf`. */
import { decodeFunctionResult, encodeFunctionData } from 'viem';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { CONDITIONAL_TOKENS, conditionalTokensAbi } from '../../local/devnet/contracts.ts';
import {
  blocksWithMovements,
  CHAIN,
  type StillDevnet,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { temporaryDirectory } from '../support/service.ts';

const directory = temporaryDirectory();
let devnet: StillDevnet;

beforeAll(async () => {
  devnet = await startStillDevnet(directory.path, 400);
});
afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

test('fills and movements add up to the balances of the chain', async () => {
  const events = (await blocksWithMovements(devnet.url, await devnet.number('latest'))).flatMap(
    (block) => block.events,
  );
  const balances = new Map<string, bigint>();
  const add = (trader: string, conditionId: string, outcome: number, shares: bigint) => {
    const key = `${trader}:${conditionId}:${outcome}`;
    balances.set(key, (balances.get(key) ?? 0n) + shares);
  };
  const reasons = new Set<string>();
  for (const event of events) {
    if (event.kind === 'match') {
      for (const { trader, side, outcomeIndex, shares } of event.fills)
        add(trader, event.conditionId, outcomeIndex, side === 'BUY' ? shares : -shares);
    } else if (event.kind === 'movement') {
      const { trader, counterparty, conditionId, change, reason } = event;
      reasons.add(reason);
      for (const outcome of [0, 1] as const) {
        add(trader, conditionId, outcome, change[outcome]);
        if (reason === 'transfer') add(counterparty, conditionId, outcome, -change[outcome]);
      }
    }
  }
  expect([...reasons]).toEqual(['redeem']);
  expect(balances.size).toBeGreaterThan(100);
  const asked = [...balances].map(([key, shares]) => {
    const [owner, conditionId, outcome] = key.split(':') as [`0x${string}`, `0x${string}`, string];
    return {
      owner,
      id: positionIds(CHAIN.collateral, conditionId)[Number(outcome) as 0 | 1],
      shares,
    };
  });
  const args = [asked.map(({ owner }) => owner), asked.map(({ id }) => id)] as const;
  const call = { abi: conditionalTokensAbi, functionName: 'balanceOfBatch' } as const;
  const data = await devnet.call<`0x${string}`>(
    'eth_call',
    { to: CONDITIONAL_TOKENS, data: encodeFunctionData({ ...call, args }), gas: '0x10000000' },
    'latest',
  );
  expect(asked.map(({ shares }) => shares)).toEqual(decodeFunctionResult({ ...call, data }));
});
