import { afterEach, describe, expect, test } from 'vitest';
import { Balances } from '../../ingest/chain/balances.ts';
import { RpcError } from '../../ingest/chain/rpc-pool.ts';
import type { BalanceBatch } from '../../ingest/contract.ts';
import { silent, wallet } from './gamma-harness.ts';

const ended: AbortController[] = [];
afterEach(() => {
  for (const one of ended.splice(0)) one.abort();
});

type Answer = (owner: string, block: number) => bigint | Error | Promise<bigint>;

/** Balances of a node that responds with a function; block 90 is final and block 100 the newest. */
function read(answer: Answer) {
  const abort = new AbortController();
  ended.push(abort);
  const published: BalanceBatch[] = [];
  const balances = new Balances({
    token: wallet(9),
    rpc: {
      blockNumber: async (tag) => (tag === 'finalized' ? 90 : 100),
      balance: async (_token, owner, block) => {
        const value = answer(owner, block);
        if (value instanceof Error) throw value;
        return value;
      },
    },
    logger: silent,
    signal: abort.signal,
    onBalances: async (batch) => void published.push(batch),
    roundMs: 5,
  });
  void balances.run();
  return { balances, published };
}

/** A match of these traders in a final block. */
function match(balances: Balances, traders: readonly string[], block: number, market = 'm'): void {
  balances.reached(block);
  balances.matched({ conditionId: market, fills: traders.map((trader) => ({ trader })) });
}

const noState = () => new RpcError('refused', 'missing trie node', { code: -32_000 });

describe('Balances', () => {
  test('are read at the newest block, once per trader', async () => {
    const { balances, published } = read((_owner, block) => BigInt(block));
    match(balances, [wallet(1), wallet(2)], 70);
    match(balances, [wallet(1)], 80);
    await expect.poll(() => published.length).toBe(1);
    const both = [wallet(1), wallet(2)].map((address) => [address, 80n]);
    expect(published).toEqual([{ kind: 'balances', blockNumber: 80, balances: both }]);
  });

  test('are read at the newest final block, then at the head, if the node lost the state', async () => {
    const { balances, published } = read((owner, block) => {
      if (block < 90 || (block < 100 && owner === wallet(2))) return noState();
      return 5n;
    });
    match(balances, [wallet(1), wallet(2)], 10);
    await expect.poll(() => published.length).toBe(2);
    expect(published).toEqual([
      { kind: 'balances', blockNumber: 90, balances: [[wallet(1), 5n]] },
      { kind: 'balances', blockNumber: 100, balances: [[wallet(2), 5n]] },
    ]);
  });

  test('are published even if one call fails, which is repeated', async () => {
    let failures = 3;
    const { balances, published } = read((owner) => {
      if (owner !== wallet(2) || failures === 0) return 5n;
      failures -= 1;
      return new RpcError('timeout', 'too slow');
    });
    match(balances, [1, 2, 3].map(wallet), 70);
    const addresses = () => published.map(({ balances }) => balances.map(([address]) => address));
    await expect.poll(addresses).toEqual([[wallet(1), wallet(3)], [wallet(2)]]);
    expect(balances.counts).toMatchObject({ failed: 3, dropped: 0 });
    expect(balances.waiting).toBe(0);
  });

  test('wait until they are published', async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<bigint>();
    const { balances, published } = read(() => {
      asked.resolve();
      return answer.promise;
    });
    match(balances, [wallet(1)], 70);
    await asked.promise;
    expect(balances.waiting).toBe(1);
    answer.resolve(5n);
    await expect.poll(() => balances.waiting).toBe(0);
    expect(published.length).toBe(1);
  });

  test('are read again after a resolution, of those who traded the market', async () => {
    const { balances, published } = read(() => 5n);
    match(balances, [wallet(1)], 70, 'a');
    match(balances, [wallet(2)], 70, 'b');
    await expect.poll(() => published.length).toBe(1);
    balances.resolved('unknown');
    balances.resolved('a');
    // Reading in turn publishes nothing here, because no balance changed.
    await expect.poll(() => published.length).toBe(2);
    expect(published[1]?.balances).toEqual([[wallet(1), 5n]]);
  });

  test('are read in turn, and published if they moved without a match', async () => {
    const owned = new Map<string, bigint>();
    for (let n = 0; n < 25; n += 1) owned.set(wallet(n), BigInt(n));
    const { balances, published } = read((owner) => owned.get(owner) ?? 0n);
    match(balances, [...owned.keys()], 70);
    await expect.poll(() => published.length).toBe(1);
    balances.reached(80);
    for (const [trader, moved] of [
      [wallet(3), 100n],
      [wallet(22), 200n],
    ] as const) {
      owned.set(trader, moved);
      const change = { kind: 'balances' as const, blockNumber: 80, balances: [[trader, moved]] };
      await expect.poll(() => published.at(-1)).toEqual(change);
    }
    // Nothing else is published.
    expect(published.length).toBe(3);
    expect(balances.waiting).toBe(0);
  });
});
