// Rows from the columns of a response: detects statements that return other columns or values.
import { describe, expect, test } from 'vitest';
import { z } from 'zod';
import { fillColumns, fillsBy } from '../../api/analytics/fills.ts';
import {
  boolean,
  count,
  digits,
  hexText,
  int,
  number,
  rowOf,
  seconds,
  string,
  strings,
} from '../../api/analytics/rows.ts';

test.each([
  { name: 'int', column: int, takes: ['0', '-5', '1'.repeat(77)], refuses: ['a', null, '1.5'] },
  { name: 'digits', column: digits, takes: ['0', '18446744073709551615'], refuses: [5, '-1', ''] },
  {
    ...{ name: 'count', column: count, takes: [0, '7', Number.MAX_SAFE_INTEGER] },
    refuses: [-1, 1.5, 'a', '9007199254740993'],
  },
  { name: 'seconds', column: seconds, takes: [0, 4_294_967_295], refuses: [-1, 1.5, '7'] },
  { name: 'number', column: number, takes: [0.5, -1], refuses: ['1', null] },
  { name: 'boolean', column: boolean, takes: [true, false], refuses: [0, 'true'] },
  { name: 'string', column: string, takes: ['', 'a'], refuses: [1, null] },
  { name: 'hexText', column: hexText, takes: ['0x', '0xab'], refuses: ['ab', '0xAB', 1] },
  { name: 'strings', column: strings, takes: [[], ['a']], refuses: [['a', 1], 'a'] },
])('$name accepts $takes and rejects $refuses', ({ column, takes, refuses }) => {
  const { rows } = rowOf({ one: column('one') });
  const parsed = rows.parse([takes]).map(({ one }) => String(one));
  expect(parsed).toEqual(takes.map(String));
  for (const value of refuses) expect(() => rows.parse([[value]])).toThrow(z.ZodError);
});

describe('rows', () => {
  const row = rowOf({ hour: seconds('hour'), pnl: int('sum(pnl)') });

  test('have the columns of the response in the order of the statement', () => {
    expect(row.columns).toBe('toUnixTimestamp(hour),\n  sum(pnl)');
    expect(
      row.rows.parse([
        [7, 8],
        ['-5', '7'],
      ]),
    ).toEqual([
      { hour: 7, pnl: -5n },
      { hour: 8, pnl: 7n },
    ]);
  });

  test('are empty if the response is', () => {
    expect(row.rows.parse([])).toEqual([]);
    expect(row.rows.parse([[], []])).toEqual([]);
  });

  test.each([[[[7]]], [[[7], ['5'], [1]]], [{}]])('are rejected for %j', (response) => {
    expect(() => row.rows.parse(response)).toThrow(z.ZodError);
  });
});

describe('fills', () => {
  const names = Object.keys(fillColumns);
  const columns = [
    ...[['85671000'], [12], [7], [1], ['SELL'], ['5000000'], ['3100000'], ['0']],
    ...[['0xab'], [true], ['7130']],
  ];

  test('are read from their columns', () => {
    expect(rowOf(fillColumns).rows.parse(columns)).toEqual([
      {
        ...{ block: 85671000n, log: 12, time: 7, outcomeIndex: 1, side: 'SELL', shares: 5000000n },
        ...{ usdc: 3100000n, fee: 0n, orderHash: '0xab', isTaker: true, tokenId: 7130n },
      },
    ]);
  });

  test.each(names)('are rejected with a wrong %s', (name) => {
    const wrong = columns.map((column, at) => (names[at] === name ? [null] : column));
    expect(() => rowOf(fillColumns).rows.parse(wrong)).toThrow(z.ZodError);
  });

  test('of each key are returned in chain order', () => {
    const [fill] = rowOf(fillColumns).rows.parse(columns);
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
