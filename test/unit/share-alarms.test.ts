/** Contracts and tokens that ingest does not know are reported, once and without false alarms. */
import type { Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import type { Fill, Hash, Match } from '../../ingest/contract.ts';
import { ShareAlarms } from '../../ingest/events/shares/alarms.ts';
import type { Move, ShareContracts } from '../../ingest/events/shares/share-logs.ts';

const address = (n: number): Hex => `0x${n.toString(16).padStart(40, '0')}`;
const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}`;
const [CTF, NEG_RISK, EXCHANGE, ADAPTER, UNKNOWN] = [1, 2, 3, 4, 5].map(address) as [
  ...[Hex, Hex, Hex, Hex, Hex],
];
const CONTRACTS: ShareContracts = {
  conditionalTokens: CTF,
  collateral: address(6),
  negRiskCollateral: address(7),
  negRiskAdapter: NEG_RISK,
  exchanges: new Set([EXCHANGE]),
  silentAdapters: new Set(),
  adapters: new Set([ADAPTER]),
  redeemers: new Set(),
  burn: address(8),
  others: new Set(),
};
const OURS = '1';
const FOREIGN = '2';
const DAY = 86_400;

const alarms = () =>
  new ShareAlarms(CONTRACTS, (token) =>
    token === OURS ? { conditionId: hash(1), outcomeIndex: 0 } : undefined,
  );

function move(operator: Hex, from: Hex, tokenId = OURS): Move {
  return { logIndex: 3, operator, from, to: address(99), tokenId, shares: 1n };
}

function block(blockTime: number, moves: readonly Move[], events: readonly Match[] = []) {
  const logs = { moves, named: [], conditions: [] };
  return { blockNumber: 1, blockTime, events, shares: new Map([[hash(9), logs]]) };
}

/** A move of each of so many owners. */
const moves = (operator: Hex, owners: number, from = 0) =>
  Array.from({ length: owners }, (_, n) => move(operator, address(1_000 + from + n)));

const found = (all: ShareAlarms, of: ReturnType<typeof block>) =>
  all.of(of).map(({ txHash, logIndex, error }) => [txHash, logIndex, error.message]);

describe('an operator that is none of the contracts', () => {
  const alarm = [hash(9), 3, `unknown_operator: ${UNKNOWN} moved shares of 21 owners`];

  test('may move shares of twenty owners a day; the next one is reported, once', () => {
    const all = alarms();
    expect(found(all, block(0, [...moves(UNKNOWN, 20), ...moves(UNKNOWN, 20)]))).toEqual([]);
    expect(found(all, block(DAY - 1, moves(UNKNOWN, 30, 20)))).toEqual([alarm]);
    expect(found(all, block(DAY - 1, moves(UNKNOWN, 30, 60)))).toEqual([]);
  });

  test('is counted by day', () => {
    const all = alarms();
    expect(found(all, block(0, moves(UNKNOWN, 20)))).toEqual([]);
    expect(found(all, block(DAY, moves(UNKNOWN, 20, 20)))).toEqual([]);
    expect(found(all, block(DAY, moves(UNKNOWN, 1, 40)))).toEqual([alarm]);
  });

  test('does not count owners who move their own shares, foreign tokens or shares of contracts', () => {
    const own = Array.from({ length: 30 }, (_, n) => move(address(1_000 + n), address(1_000 + n)));
    const foreign = moves(UNKNOWN, 30).map((one) => ({ ...one, tokenId: FOREIGN }));
    const minted = Array.from({ length: 30 }, () => move(UNKNOWN, address(0)));
    expect(found(alarms(), block(0, [...own, ...foreign, ...minted]))).toEqual([]);
  });

  test.each([EXCHANGE, ADAPTER, NEG_RISK])('is not %s', (contract) => {
    expect(found(alarms(), block(0, moves(contract, 30)))).toEqual([]);
  });
});

describe('a token of no known market', () => {
  const error = `foreign_token: ${FOREIGN} belongs to no known market`;

  test('is reported in a match', () => {
    const match = (tokenId: string): Match => {
      const fill: Fill = {
        ...{ logIndex: 6, orderHash: hash(2), trader: address(50), isTaker: true, side: 'BUY' },
        ...{ outcomeIndex: 0, tokenId, shares: 1n, usdc: 1n, fee: 0n },
      };
      return {
        ...{ kind: 'match', blockNumber: 1, blockTime: 0, txHash: hash(4), logIndex: 7 },
        ...{ exchange: EXCHANGE, conditionId: hash(1), fills: [fill] },
      };
    };
    expect(found(alarms(), block(0, [], [match(OURS), match(FOREIGN)]))).toEqual([
      [hash(4), 7, error],
    ]);
  });

  test('is reported if the neg-risk adapter moves it, and ignored in any other move', () => {
    const foreign = [EXCHANGE, NEG_RISK, UNKNOWN].map((by) => move(by, address(50), FOREIGN));
    expect(found(alarms(), block(0, foreign))).toEqual([[hash(9), 3, error]]);
  });
});
