import type { Hex } from 'viem';
import { afterEach, describe, expect, test } from 'vitest';
import { RpcError } from '../../ingest/chain/rpc-pool.ts';
import { SampledShares } from '../../ingest/chain/share-balances.ts';
import type { Fill, Hash, Match, Movement, ShareBalances } from '../../ingest/contract.ts';
import { KnownMarkets } from '../../ingest/events/shares/known-markets.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { silent, wallet } from './gamma-harness.ts';

const ended: AbortController[] = [];
afterEach(() => {
  for (const one of ended.splice(0)) one.abort();
});

const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}`;
const COLLATERAL = wallet(9);
const MARKETS = [hash(1), hash(2), hash(3)] as const;

/** A sample of three markets, of which the last one's tokens are unknown. */
function sample(answer: (owner: Hex, tokenId: bigint, block: number) => bigint | Error) {
  const abort = new AbortController();
  ended.push(abort);
  const published: ShareBalances[] = [];
  const calls: number[] = [];
  const known = new KnownMarkets();
  const at = { blockNumber: 0, blockTime: 0, txHash: hash(0), logIndex: 0 };
  for (const conditionId of MARKETS.slice(0, 2))
    known.learn({ kind: 'market', ...at, conditionId, collateral: COLLATERAL });
  const shares = new SampledShares({
    rpc: {
      shareBalances: async (_, owned, block) => {
        calls.push(owned.length);
        return owned.map(({ owner, tokenId }) => {
          const value = answer(owner, tokenId, block);
          if (value instanceof Error) throw value;
          return value;
        });
      },
    },
    ...{
      conditionalTokens: wallet(8),
      positionManager: undefined,
      known,
      coveredFrom: 5,
      logger: silent,
    },
    signal: abort.signal,
    onBalances: async (balances) => void published.push(balances),
    roundMs: 5,
  });
  return { shares, published, calls };
}

function match(conditionId: Hash, traders: readonly Hex[]): Match {
  const fill = (trader: Hex): Fill => ({
    ...{ logIndex: 0, orderHash: hash(2), trader, isTaker: false, side: 'BUY', outcomeIndex: 0 },
    ...{ tokenId: '1', shares: 1n, usdc: 1n, fee: 0n },
  });
  return {
    ...{ kind: 'match', blockNumber: 0, blockTime: 0, txHash: hash(0), logIndex: 0 },
    ...{ exchange: wallet(7), conditionId, fills: traders.map(fill) },
  };
}

function movement(reason: Movement['reason'], trader: Hex, counterparty: Hex): Movement {
  return {
    ...{ kind: 'movement', blockNumber: 0, blockTime: 0, txHash: hash(0), logIndex: 0, part: 0 },
    ...{ reason, conditionId: MARKETS[0], trader, counterparty, change: [1n, 0n] },
    ...{ usdc: 0n, mark: null },
  };
}

const tradersOf = (published: readonly ShareBalances[]) =>
  new Set(published.flatMap(({ balances }) => balances.map(([trader]) => trader)));

describe('SampledShares', () => {
  test('reads both outcomes of a trader at the newest block of LEDGER', async () => {
    const [zero] = positionIds(COLLATERAL, MARKETS[0]);
    const { shares, published } = sample((_, token, block) =>
      token === zero ? BigInt(block) : 7n,
    );
    shares.stored({ number: 70, hash: hash(0) }, [match(MARKETS[0], [wallet(1)])]);
    shares.stored({ number: 71, hash: hash(0) }, []);
    void shares.run();
    await expect.poll(() => published.length).toBeGreaterThan(0);
    expect(published[0]).toEqual({
      ...{ kind: 'share_balances', blockNumber: 71, coveredFrom: 5 },
      balances: [[wallet(1), MARKETS[0], 71n, 7n]],
    });
  });

  test('takes one pair of a block, which its hash decides, and both ends of a transfer count', async () => {
    const { shares, published } = sample(() => 0n);
    const events = [
      match(MARKETS[0], [wallet(1), wallet(2)]),
      movement('transfer', wallet(3), wallet(4)),
      // The counterparty is a contract.
      movement('unexplained', wallet(5), wallet(6)),
    ];
    for (let n = 0; n < 50; n += 1) shares.stored({ number: n, hash: hash(n) }, events);
    void shares.run();
    await expect.poll(() => tradersOf(published).size).toBe(5);
    expect(tradersOf(published)).toEqual(new Set([1, 2, 3, 4, 5].map(wallet)));
  });

  test('reads each pair once at a time, and no market whose tokens are unknown', async () => {
    const { shares, published, calls } = sample(() => 0n);
    for (const market of [MARKETS[0], MARKETS[1], MARKETS[1], MARKETS[2]])
      shares.stored({ number: 1, hash: hash(0) }, [match(market, [wallet(1)])]);
    void shares.run();
    await expect.poll(() => calls.length).toBeGreaterThan(1);
    expect(new Set(calls)).toEqual(new Set([4]));
    expect(published[0]?.balances.map(([, conditionId]) => conditionId)).toEqual([
      ...[MARKETS[0], MARKETS[1]],
    ]);
  });

  test('reads the whole sample in turn, ten pairs at once, and the newest pairs replace the oldest', async () => {
    const { shares, published, calls } = sample(() => 0n);
    const store = (from: number, to: number) => {
      for (let n = from; n < to; n += 1)
        shares.stored({ number: n, hash: hash(0) }, [match(MARKETS[0], [wallet(n)])]);
    };
    store(0, 5_050);
    void shares.run();
    await expect.poll(() => tradersOf(published).size, { timeout: 20_000 }).toBe(5_000);
    expect(Math.max(...calls)).toBe(20);
    expect(tradersOf(published).has(wallet(49))).toBe(false);
    expect(tradersOf(published).has(wallet(50))).toBe(true);
  });

  test('goes on after failed calls and short answers', async () => {
    let failures = 2;
    const { shares, published } = sample(() => {
      if (failures === 0) return 3n;
      failures -= 1;
      return new RpcError('refused', 'missing trie node');
    });
    shares.stored({ number: 1, hash: hash(0) }, [match(MARKETS[0], [wallet(1)])]);
    void shares.run();
    await expect.poll(() => shares.counts.read).toBeGreaterThan(0);
    expect(shares.counts.failed).toBe(2);
    expect(published[0]?.balances).toEqual([[wallet(1), MARKETS[0], 3n, 3n]]);
  });
});
