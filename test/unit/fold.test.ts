import { describe, expect, test } from 'vitest';
import { type Fill, type Match, partitionOf, type Resolution } from '../../ingest/contract.ts';
import { BATCH_ROWS_MAX, batchesOf, OpenPositions } from '../../projector/fold.ts';
import { blockHash } from '../support/ledger-generator.ts';

const CONDITION = `0x${'c0'.repeat(32)}` as const;
const TX = `0x${'aa'.repeat(32)}` as const;
const trader = (n: number) => `0x${n.toString(16).padStart(40, '0')}` as const;

function match(blockNumber: number, fills: readonly Partial<Fill>[], blockTime = 1_000): Match {
  return {
    kind: 'match',
    blockNumber,
    blockTime,
    txHash: TX,
    logIndex: 10,
    exchange: trader(99),
    conditionId: CONDITION,
    fills: fills.map((fill, i) => ({
      logIndex: i,
      orderHash: TX,
      trader: trader(1),
      isTaker: i === fills.length - 1,
      side: 'BUY',
      outcomeIndex: 0,
      tokenId: '1',
      shares: 100n,
      usdc: 40n,
      fee: 1n,
      ...fill,
    })),
  };
}

const resolved = (blockNumber: number, payouts: [bigint, bigint] = [1n, 0n]): Resolution => ({
  kind: 'resolution',
  blockNumber,
  blockTime: 2_000,
  txHash: TX,
  logIndex: 3,
  conditionId: CONDITION,
  payouts,
});

describe('OpenPositions', () => {
  test('books every fill of a match in log order, including a trader on both sides', () => {
    const positions = new OpenPositions();
    const rows = positions.apply(match(1, [{}, { side: 'SELL', usdc: 60n }]));
    expect(
      rows.map(({ leg, positionShares, realisedPnl }) => [leg, positionShares, realisedPnl]),
    ).toEqual([
      [0, 100n, 0n],
      [1, 0n, 60n - 40n - 1n - 1n],
    ]);
    expect(rows.every((row) => row.partition === partitionOf(CONDITION))).toBe(true);
  });

  test('drops an event that is not after the last one of its partition', () => {
    const positions = new OpenPositions();
    positions.apply(match(5, [{}]));
    expect(positions.apply(match(5, [{}]))).toEqual([]);
    expect(positions.apply(match(4, [{}]))).toEqual([]);
    expect(positions.apply(match(6, [{}]))).toHaveLength(1);
  });

  test('a resolution settles every open position once; a second one changes nothing', () => {
    const positions = new OpenPositions();
    positions.apply(match(1, [{}, { trader: trader(2), outcomeIndex: 1, usdc: 60n }]));
    const rows = positions.apply(resolved(2));
    expect(rows.map((row) => [row.kind, row.trader, row.usdc, row.realisedPnl])).toEqual([
      ['settlement', trader(1), 100n, 59n],
      ['settlement', trader(2), 0n, -61n],
    ]);
    expect(positions.openPositions()).toBe(0);
    expect(positions.apply(resolved(3, [0n, 1n]))).toEqual([]);
  });

  test('a fill after the resolution settles at once at the known payout', () => {
    const positions = new OpenPositions();
    positions.apply(resolved(1));
    const rows = positions.apply(match(2, [{}]));
    expect(rows.map((row) => [row.kind, row.leg, row.realisedPnl, row.positionShares])).toEqual([
      ['fill', 0, 0n, 100n],
      ['settlement', 1, 59n, 0n],
    ]);
  });

  test('continues from a restored state as if it had not stopped', () => {
    const [first, second] = [match(1, [{}]), match(2, [{ side: 'SELL', usdc: 55n }])];
    const whole = new OpenPositions();
    whole.apply(first);
    const restored = new OpenPositions();
    restored.restorePosition(CONDITION, trader(1), {
      outcome: 0,
      shares: 100n,
      costBasis: 40n,
      openFees: 1n,
    });
    restored.restoreLast(partitionOf(CONDITION), { blockNumber: 1, logIndex: 10 });
    expect(restored.apply(first)).toEqual([]);
    expect(restored.apply(second)).toEqual(whole.apply(second));
  });
});

describe('batchesOf', () => {
  const booked = (block: number, blockTime: number, fills: number) => ({
    blockHash: blockHash(block),
    rows: new OpenPositions().apply(
      match(
        block,
        Array.from({ length: fills }, () => ({})),
        blockTime,
      ),
    ),
  });
  const JULY = Date.parse('2026-07-31T23:59:59Z') / 1_000;

  test('never splits an event and never mixes months', () => {
    const events = [booked(1, JULY, 3), booked(2, JULY, 2), booked(3, JULY + 1, 1)];
    const batches = batchesOf([...events, { blockHash: blockHash(4), rows: [] }]);
    expect(batches.map(({ rows }) => rows.length)).toEqual([5, 1]);
  });

  test('closes a batch before it exceeds the limit', () => {
    const half = Math.ceil(BATCH_ROWS_MAX / 2) + 1;
    const batches = batchesOf([booked(1, JULY, half), booked(2, JULY, half)]);
    expect(batches.map(({ rows }) => rows.length)).toEqual([half, half]);
  });

  test('gives equal rows the same id, and other rows another', () => {
    const [one, two] = [booked(1, JULY, 2), booked(2, JULY, 2)];
    const id = (events: Parameters<typeof batchesOf>[0]) =>
      batchesOf(events).map((batch) => batch.id);
    expect(id([one, two])).toEqual(id([one, two]));
    expect(id([one])).not.toEqual(id([one, two]));
    expect(id([one])[0]).toMatch(/^\d{1,20}$/);
  });
});
