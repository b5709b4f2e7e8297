/** Markets, prices and conversions of blocks with movements, and that a restart continues as if there had been none. */
import fc from 'fast-check';
import type { Hex } from 'viem';
import { describe, expect, test } from 'vitest';
import type {
  Fill,
  Hash,
  LedgerEvent,
  Match,
  Resolution,
  TradingEvent,
} from '../../ingest/contract.ts';
import { BlockMovements, type DecodedBlock } from '../../ingest/events/shares/block-movements.ts';
import type {
  Condition,
  Conversion,
  Move,
  Named,
  ShareContracts,
  ShareLogs,
} from '../../ingest/events/shares/share-logs.ts';
import { positionIds } from '../../ingest/events/token-ids.ts';
import { runs } from './fixtures.ts';

const address = (n: number): Hex => `0x${n.toString(16).padStart(40, '0')}`;
const hash = (n: number): Hash => `0x${n.toString(16).padStart(64, '0')}`;
const [USDC, WRAPPED, CTF, ADAPTER] = [address(1), address(2), address(3), address(4)];
const [EXCHANGE, BURN, ALICE, BOB] = [address(5), address(6), address(101), address(102)];
const ZERO = address(0);
const CONTRACTS: ShareContracts = {
  conditionalTokens: CTF,
  collateral: USDC,
  negRiskCollateral: WRAPPED,
  negRiskAdapter: ADAPTER,
  exchanges: new Set([EXCHANGE]),
  silentAdapters: new Set(),
  adapters: new Set(),
  redeemers: new Set(),
  burn: BURN,
  others: new Set(),
};
const M = 1_000_000n;
const movements = () => new BlockMovements(CONTRACTS, new Map([[EXCHANGE, WRAPPED]]));
const tokens = (condition: Hash, collateral = WRAPPED) =>
  positionIds(collateral, condition).map(String) as [string, string];

const QUESTIONS = [hash(11), hash(12), hash(13), hash(14)];
const prepared = (conditionId: Hash, collateral = WRAPPED): Condition => ({
  ...{ logIndex: 0, conditionId, collateral },
  isPrepared: true,
});

/** A match at this price of outcome 0. */
function match(conditionId: Hash, price: bigint, logIndex: number, txHash = hash(1)): Match {
  const [yes] = tokens(conditionId);
  const fill: Fill = {
    ...{ orderHash: hash(2), tokenId: yes, outcomeIndex: 0, shares: M, usdc: price, fee: 0n },
    ...{ trader: BOB, isTaker: true, side: 'BUY', logIndex: logIndex - 1 },
  };
  const maker: Fill = { ...fill, trader: ALICE, isTaker: false, side: 'SELL' };
  return {
    ...{ kind: 'match', blockNumber: 0, blockTime: 0, txHash, logIndex, exchange: EXCHANGE },
    ...{ conditionId, fills: [{ ...maker, logIndex: logIndex - 2 }, fill] },
  };
}

/** What an exchange moves for such a match. */
const handedOver = (conditionId: Hash, logIndex: number): Move => ({
  ...{ logIndex: logIndex - 3, operator: EXCHANGE, from: ALICE, to: BOB, shares: M },
  tokenId: tokens(conditionId)[0],
});

const NONE: ShareLogs = { moves: [], named: [], conditions: [] };
function block(
  number: number,
  events: readonly TradingEvent[],
  shares: readonly (readonly [Hash, Partial<ShareLogs>])[],
): DecodedBlock {
  const at = { blockNumber: number, blockTime: number };
  return {
    ...at,
    events: events.map((event) => ({ ...event, ...at })),
    shares: new Map(shares.map(([txHash, logs]) => [txHash, { ...NONE, ...logs }])),
  };
}

const only = <Kind extends LedgerEvent['kind']>(kind: Kind, events: readonly LedgerEvent[]) =>
  events.filter((event): event is LedgerEvent & { kind: Kind } => event.kind === kind);

const transfer = (tokenId: string, logIndex: number): Move => ({
  ...{ logIndex, operator: ALICE, from: ALICE, to: BOB, tokenId, shares: M },
});

describe('the tokens of a market', () => {
  test('are known once it is prepared, or traded', () => {
    const [one = hash(0), other = hash(0)] = QUESTIONS;
    const all = movements();
    const first = all.complete(
      block(
        1,
        [match(other, 400_000n, 9)],
        [[hash(1), { moves: [handedOver(other, 9)], conditions: [prepared(one)] }]],
      ),
    );
    expect(only('market', first)).toMatchObject([
      { conditionId: one, collateral: WRAPPED, logIndex: 0 },
      { conditionId: other, collateral: WRAPPED, logIndex: 9 },
    ]);
    expect(only('movement', first)).toEqual([]);
    const moves = [transfer(tokens(one)[1], 3), transfer(tokens(other)[0], 4)];
    expect(only('movement', all.complete(block(2, [], [[hash(3), { moves }]])))).toMatchObject([
      { conditionId: one, reason: 'transfer', change: [0n, -M], mark: null },
      { conditionId: other, reason: 'transfer', change: [-M, 0n], mark: 400_000n },
    ]);
  });

  test('are those that the exchanges trade, although somebody minted others before', () => {
    const [one = hash(0)] = QUESTIONS;
    const minted = { logIndex: 1, conditionId: one, collateral: USDC, isPrepared: false };
    const all = movements();
    const foreign = transfer(tokens(one, USDC)[0], 2);
    expect(
      all.complete(block(1, [], [[hash(1), { conditions: [minted], moves: [foreign] }]])),
    ).toMatchObject([
      { kind: 'market', collateral: USDC },
      { kind: 'movement', reason: 'transfer' },
    ]);
    const traded = { events: [match(one, M / 2n, 9)], moves: [handedOver(one, 9)] };
    const second = all.complete(block(2, traded.events, [[hash(1), { moves: traded.moves }]]));
    expect(only('market', second)).toMatchObject([{ conditionId: one, collateral: WRAPPED }]);
    expect(only('movement', all.complete(block(3, [], [[hash(3), { moves: [foreign] }]])))).toEqual(
      [],
    );
  });
});

const conversion = (amount: bigint): Conversion => ({
  ...{ marketId: hash(10), indexSet: 0b101n, amount, out: undefined },
  questionOf: (id) => QUESTIONS.indexOf(id as Hash),
  first: QUESTIONS[0] ?? hash(0),
});

/** No of questions 0 and 2 becomes Yes of 1 and 3, and cash. */
function converted(amount: bigint, from: number): ShareLogs {
  const [q0, q1, q2, q3] = QUESTIONS.map((id) => tokens(id)) as [string, string][];
  const named: Named = {
    ...{ kind: 'convert', logIndex: from + 4, emitter: ADAPTER, by: ALICE, payout: undefined },
    ...{ isAbout: (id) => QUESTIONS.includes(id as Hash), conversion: conversion(amount) },
  };
  const out = (tokenId = '', n = 0): Move => ({
    ...{ logIndex: from + n, operator: ADAPTER, from: ALICE, to: BURN, tokenId, shares: amount },
  });
  const back = (tokenId = '', n = 0): Move => ({
    ...{ logIndex: from + n, operator: ADAPTER, from: ADAPTER, to: ALICE, tokenId, shares: amount },
  });
  const moves = [out(q0?.[1], 0), out(q2?.[1], 0), back(q1?.[0], 2), back(q3?.[0], 2)];
  return { moves, named: [named], conditions: [] };
}

test('a conversion has a value in each market, and its cash adds up to what was paid', () => {
  const all = movements();
  const prices = [400_000n, 350_000n, 200_000n, 100_000n];
  const matches = QUESTIONS.map((id, n) => match(id, prices[n] ?? 0n, 10 * (n + 1)));
  const moves = QUESTIONS.map((id, n) => handedOver(id, 10 * (n + 1)));
  all.complete(block(1, matches, [[hash(1), { moves }]]));
  const found = only('movement', all.complete(block(2, [], [[hash(2), converted(10n * M, 1)]])));
  expect(found).toMatchObject([
    { conditionId: QUESTIONS[0], reason: 'convert', change: [0n, -10n * M], usdc: 6_190_477n },
    { conditionId: QUESTIONS[2], change: [0n, -10n * M], usdc: 8_095_239n },
    { conditionId: QUESTIONS[1], change: [10n * M, 0n], usdc: -3_333_333n },
    { conditionId: QUESTIONS[3], change: [10n * M, 0n], usdc: -952_383n },
  ]);
  expect(found.map(({ part }) => part)).toEqual([0, 1, 0, 1]);
  expect(found.reduce((sum, { usdc }) => sum + usdc, 0n)).toBe(10n * M);
});

test('a conversion of all questions pays less in a market with a fee, also after a restart', () => {
  const amount = 10n * M;
  const all = conversion(amount);
  const named: Named = {
    ...{ kind: 'convert', logIndex: 9, emitter: ADAPTER, by: ALICE, payout: undefined },
    ...{ isAbout: (id) => QUESTIONS.includes(id as Hash), conversion: all },
  };
  const moves = QUESTIONS.map((id): Move => {
    const of = { operator: ADAPTER, from: ALICE, to: BURN, shares: amount };
    return { logIndex: 1, ...of, tokenId: tokens(id)[1] };
  });
  const conditions = QUESTIONS.map((id) => prepared(id));
  const market = { ...prepared(all.first), feeBips: 100 };
  const first = movements();
  const known = [
    ...first.complete(block(1, [], [[hash(1), { conditions: [market] }]])),
    ...first.complete(block(2, [], [[hash(2), { conditions }]])),
  ];
  expect(only('market', known).map(({ feeBips }) => feeBips)).toEqual([100, ...Array(3)]);
  const again = movements();
  for (const event of known) again.learn(event);
  for (const one of [first, again]) {
    const found = only(
      'movement',
      one.complete(block(3, [], [[hash(3), { moves, named: [named] }]])),
    );
    expect(found).toHaveLength(4);
    expect(found.reduce((sum, { usdc }) => sum + usdc, 0n)).toBe((3n * amount * 99n) / 100n);
  }
});

test('a price is that of the newest match before the log, and after the resolution the payout', () => {
  const [one = hash(0)] = QUESTIONS;
  const [yes] = tokens(one);
  const all = movements();
  const resolution: Resolution = {
    ...{ kind: 'resolution', blockNumber: 0, blockTime: 0, txHash: hash(1), logIndex: 30 },
    ...{ conditionId: one, payouts: [1n, 1n] },
  };
  const events = [match(one, 300_000n, 10), match(one, 700_000n, 20), resolution];
  const moves = [
    ...[handedOver(one, 10), transfer(yes, 11), handedOver(one, 20), transfer(yes, 21)],
    transfer(yes, 31),
  ];
  const found = only('movement', all.complete(block(1, events, [[hash(1), { moves }]])));
  expect(found.map(({ logIndex, mark }) => [logIndex, mark])).toEqual([
    [11, 300_000n],
    [21, 700_000n],
    [31, 500_000n],
  ]);
});

test('what moves while a match is settled counts after it, and what moves before it does not', () => {
  const [one = hash(0)] = QUESTIONS;
  const [yes] = tokens(one);
  const moves = [transfer(yes, 11), handedOver(one, 20), transfer(yes, 18), transfer(yes, 19)];
  const logs = { conditions: [prepared(one)], moves };
  const events = [match(one, 300_000n, 20)];
  const found = movements().complete(block(1, events, [[hash(1), logs]]));
  expect(
    found.map((event) => [event.kind, event.logIndex, 'part' in event ? event.part : undefined]),
  ).toEqual([
    ['market', 0, undefined],
    ['movement', 11, 0],
    ['match', 20, undefined],
    ['movement', 20, 0],
    ['movement', 20, 1],
  ]);
});

test('a split and a merge are paid, and what they do not explain is unexplained', () => {
  const [one = hash(0)] = QUESTIONS;
  const [yes, no] = tokens(one);
  const named = (kind: 'split' | 'merge', logIndex: number): Named => ({
    ...{ kind, logIndex, emitter: CTF, by: ALICE, payout: undefined, conversion: undefined },
    isAbout: (id) => id === one,
  });
  const mint = (tokenId: string, shares: bigint, logIndex: number): Move => ({
    ...{ logIndex, operator: ALICE, from: ZERO, to: ALICE, tokenId, shares },
  });
  const burn = (tokenId: string, shares: bigint, logIndex: number): Move => ({
    ...{ logIndex, operator: ALICE, from: ALICE, to: ZERO, tokenId, shares },
  });
  const logs = {
    conditions: [prepared(one)],
    moves: [mint(yes, 3n, 1), mint(no, 3n, 1), burn(yes, 2n, 4), burn(no, 3n, 4)],
    named: [named('split', 2), named('merge', 5)],
  };
  const found = only('movement', movements().complete(block(1, [], [[hash(1), logs]])));
  expect(
    found.map(({ reason, logIndex, part, change, usdc }) => [reason, logIndex, part, change, usdc]),
  ).toEqual([
    ['split', 1, 0, [3n, 3n], -3n],
    ['merge', 4, 0, [-2n, -2n], 2n],
    ['unexplained', 4, 1, [0n, -1n], 0n],
  ]);
});

test('after a restart, the events are the same as without', () => {
  const step = fc.record({
    what: fc.constantFrom('match', 'transfer', 'convert', 'resolve'),
    question: fc.nat(3),
    price: fc.bigInt({ min: 0n, max: M }),
  });
  fc.assert(
    fc.property(fc.array(step, { maxLength: 12 }), fc.nat(12), (steps, restartAt) => {
      const blocks = steps.map(({ what, question, price }, at) => {
        const id = QUESTIONS[question] ?? hash(0);
        const tx = hash(100 + at);
        if (what === 'match')
          return block(at, [match(id, price, 9, tx)], [[tx, { moves: [handedOver(id, 9)] }]]);
        if (what === 'transfer')
          return block(at, [], [[tx, { moves: [transfer(tokens(id)[0], 1)] }]]);
        if (what === 'convert')
          return block(
            at,
            [],
            [[tx, { ...converted(M, 9), conditions: QUESTIONS.map((one) => prepared(one)) }]],
          );
        const payouts: [bigint, bigint] = [price, M - price];
        const resolved = {
          blockNumber: at,
          blockTime: at,
          txHash: tx,
          logIndex: 1,
          conditionId: id,
        };
        return block(at, [{ kind: 'resolution', ...resolved, payouts }], []);
      });
      const whole = movements();
      const expected = blocks.map((one) => whole.complete(one));
      const again = movements();
      const rest = blocks.slice(restartAt);
      for (const event of expected.slice(0, restartAt).flat()) again.learn(event);
      expect(rest.map((one) => again.complete(one))).toEqual(expected.slice(restartAt));
    }),
    { numRuns: runs(300) },
  );
});
