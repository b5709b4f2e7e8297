import { describe, expect, test } from 'vitest';
import { type Fill, type Match, partitionOf, type Resolution } from '../../ingest/contract.ts';
import { BATCH_ROWS_MAX, batchesOf } from '../../projector/fold/batches.ts';
import { OpenPositions } from '../../projector/fold/positions.ts';
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

const HELD = {
  position: { outcome: 0, shares: 100n, costBasis: 40n, openFees: 1n },
  balances: [0n, 0n],
} as const;

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
    const [, settlement] = positions.apply(match(4, [{}]));
    expect(settlement).toMatchObject({ kind: 'settlement', usdc: 100n, realisedPnl: 59n });
  });

  test('a fill after the resolution settles at once at the known payout', () => {
    const positions = new OpenPositions();
    positions.apply(resolved(1));
    const rows = positions.apply(match(2, [{}]));
    expect(rows.map((row) => [row.kind, row.leg, row.realisedPnl, row.positionShares])).toEqual([
      ['fill', 0, 0n, 100n],
      ['settlement', 1, 59n, 0n],
    ]);
    // Nothing of it is left for the next one.
    const more = positions.apply(match(3, [{}]));
    expect(more.map((row) => [row.kind, row.realisedPnl])).toEqual([
      ['fill', 0n],
      ['settlement', 59n],
    ]);
  });

  test('continues from a restored market as if it had not stopped', () => {
    const [first, second] = [match(1, [{}]), match(2, [{ side: 'SELL', usdc: 55n }])];
    const whole = new OpenPositions();
    whole.apply(first);
    const restored = new OpenPositions();
    restored.restoreLast(partitionOf(CONDITION), { blockNumber: 1, logIndex: 10 });
    restored.restoreMarket(CONDITION, {
      held: new Map([[trader(1), HELD]]),
      resolution: undefined,
    });
    expect(restored.apply(first)).toEqual([]);
    expect(restored.apply(second)).toEqual(whole.apply(second));
  });

  test('a stored resolution counts only if it was applied, so that its settlements are not lost', () => {
    const held = () => new Map([[trader(1), HELD]]);
    const positions = new OpenPositions();
    positions.restoreLast(partitionOf(CONDITION), { blockNumber: 1, logIndex: 10 });
    positions.restoreMarket(CONDITION, { held: held(), resolution: resolved(2) });
    expect(positions.isResolved(CONDITION)).toBe(false);
    expect(positions.apply(resolved(2))).toHaveLength(1);

    const later = new OpenPositions();
    later.restoreLast(partitionOf(CONDITION), { blockNumber: 2, logIndex: 3 });
    later.restoreMarket(CONDITION, { held: new Map(), resolution: resolved(2) });
    expect(later.isResolved(CONDITION)).toBe(true);
    expect(later.apply(match(3, [{}])).map(({ kind }) => kind)).toEqual(['fill', 'settlement']);
  });

  test('forgets what was not named for longest, but nothing of the newest chunk', () => {
    const positions = new OpenPositions(8);
    const named = (chunk: number, n: number) => {
      const conditionId = `0x${n.toString(16).padStart(64, '0')}` as const;
      // Each market has three positions, so it counts as four.
      const fills = [1, 2, 3].map((i) => ({ trader: trader(i) }));
      positions.apply({ ...match(chunk, fills), conditionId });
      return conditionId;
    };
    positions.beginChunk();
    const [first, second] = [named(1, 1), named(2, 2)];
    expect(positions.surplus()).toEqual([]);
    positions.beginChunk();
    named(3, 1);
    const third = named(4, 3);
    expect(positions.surplus()).toEqual([second]);
    positions.beginChunk();
    const fourth = named(5, 4);
    expect(positions.surplus()).toEqual([second, first, third]);
    positions.forget([second, first, third]);
    expect([first, second, third, fourth].map((id) => positions.knows(id))).toEqual([
      ...[false, false, false],
      true,
    ]);
    expect(positions.openPositions()).toBe(3);
  });

  test('while nothing is stored, every market is known, until some are forgotten', () => {
    const positions = new OpenPositions();
    expect(positions.knows(CONDITION)).toBe(true);
    positions.forget([]);
    expect(positions.knows(CONDITION)).toBe(false);
    const restarted = new OpenPositions();
    restarted.restoreLast(0, { blockNumber: 1, logIndex: 1 });
    expect(restarted.knows(CONDITION)).toBe(false);
  });

  test('a resolved market without positions is forgotten, too', () => {
    const positions = new OpenPositions(0);
    positions.beginChunk();
    positions.apply(resolved(1));
    expect(positions.surplus()).toEqual([]);
    positions.beginChunk();
    expect(positions.surplus()).toEqual([CONDITION]);
  });

  test('rejects an amount beyond 64 bits, which the tables cannot hold', () => {
    const positions = new OpenPositions();
    const fill = { shares: 2n ** 63n - 1n, usdc: 0n, fee: 0n };
    positions.apply(match(1, [fill]));
    expect(() => positions.apply(match(2, [{ ...fill, shares: 1n }]))).toThrow(RangeError);
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
