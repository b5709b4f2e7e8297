// Rows that are proved column by column: a statement that answers other columns or values is found out.
import { describe, expect, test } from 'vitest';
import { fillColumns, fillsBy } from '../../api/analytics/fills.ts';
import {
  boolean,
  count,
  hexText,
  int,
  list,
  number,
  oneOf,
  rowOf,
  seconds,
  string,
  texts,
} from '../../api/analytics/rows.ts';

test.each([
  { column: int, takes: [0n, -5n, 2n ** 255n], refuses: [5, '5', null] },
  { column: count, takes: [0, 7, Number.MAX_SAFE_INTEGER], refuses: [-1, 1.5, '7', 2n ** 53n] },
  { column: seconds, takes: [0, 4_294_967_295], refuses: [-1, 4_294_967_296, 7n, '7'] },
  { column: number, takes: [0.5, -1], refuses: ['1', 1n] },
  { column: boolean, takes: [true, false], refuses: [0, 'true'] },
  { column: string, takes: ['', 'a'], refuses: [1, null] },
  { column: hexText, takes: ['0x', '0xab'], refuses: ['ab', 1n] },
  { column: list, takes: [[], [1]], refuses: ['a', {}] },
  { column: texts, takes: [[], ['a']], refuses: [['a', 1], 'a'] },
])('$column.name takes $takes and refuses $refuses', ({ column, takes, refuses }) => {
  for (const value of takes) expect(column(value)).toEqual(value);
  for (const value of refuses) expect(() => column(value)).toThrow(TypeError);
});

test('a count of 64 bits becomes a number', () => {
  expect(count(7n)).toBe(7);
});

test('one of some values is no other', () => {
  expect(oneOf(['BUY', 'SELL'], 'SELL')).toBe('SELL');
  expect(() => oneOf(['BUY', 'SELL'], 'NONE')).toThrow('a BUY or SELL expected in a row, got NONE');
});

describe('rows', () => {
  const row = rowOf({ hour: seconds, pnl: int });

  test('have the columns of the answer, whatever their order there', () => {
    const table = new Map([
      ['pnl', [-5n, 7n]],
      ['hour', [7, 8]],
    ] as [string, unknown[]][]);
    expect(row.rowsOf(table)).toEqual([
      { hour: 7, pnl: -5n },
      { hour: 8, pnl: 7n },
    ]);
  });

  test('are none where the answer had none', () => {
    expect(row.rowsOf(new Map())).toEqual([]);
    expect(row.rowsOf(new Map([...['hour', 'pnl'].map((name) => [name, []] as const)]))).toEqual(
      [],
    );
  });

  test.each([
    { got: { hour: [7] }, names: 'hour' },
    { got: { hour: [7], cost: [5n] }, names: 'hour, cost' },
    { got: { hour: [7], pnl: [5n], more: [1] }, names: 'hour, pnl, more' },
  ])('are refused with the columns $names', ({ got, names }) => {
    expect(() => row.rowsOf(new Map(Object.entries(got)))).toThrow(
      `the columns hour, pnl expected, got ${names}`,
    );
  });
});

describe('fills', () => {
  const columns = {
    ...{ block: 85671000n, log: 12, time: 7, outcomeIndex: 1, side: 'SELL', shares: 5000000n },
    ...{ usdc: 3100000n, fee: 0n, orderHash: '0xab', isTaker: true, tokenId: 7130n },
  };
  const tableOf = (values: object) =>
    new Map(Object.entries(values).map(([name, value]) => [name, [value]]));

  test('are read from their columns', () => {
    expect(rowOf(fillColumns).rowsOf(tableOf(columns))).toEqual([columns]);
  });

  test.each(Object.keys(columns))('are refused with a wrong %s', (name) => {
    expect(() => rowOf(fillColumns).rowsOf(tableOf({ ...columns, [name]: null }))).toThrow(
      TypeError,
    );
  });

  test('of each key are in chain order', () => {
    const [fill] = rowOf(fillColumns).rowsOf(tableOf(columns));
    if (fill === undefined) throw new Error('a fill expected');
    const at = (key: string, block: bigint, log: number) => ({ ...fill, key, block, log });
    const late = at('a', 2n ** 40n, 0);
    const sorted = fillsBy(
      [late, at('b', 1n, 1), at('a', 3n, 12), at('a', 3n, 2)],
      (one) => one.key,
    );
    expect(
      [...sorted].map(([key, all]) => [key, all.map(({ block, log }) => [block, log])]),
    ).toEqual([
      ['b', [[1n, 1]]],
      [
        'a',
        [
          [3n, 2],
          [3n, 12],
          [2n ** 40n, 0],
        ],
      ],
    ]);
  });
});
