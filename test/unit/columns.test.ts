// Rows that are proved column by column say what zod's schemas would.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { count, int, rowOf, seconds, texts } from '../../api/analytics/columns.ts';
import { fill, fills } from '../../api/analytics/fills.ts';
import { Count, Int, Seconds } from '../../api/analytics/wire.ts';

test.each([
  { name: 'int', column: int, schema: Int },
  { name: 'count', column: count, schema: Count },
  { name: 'seconds', column: seconds, schema: Seconds },
])('$name takes what the schema takes, as the same value', ({ column, schema }) => {
  const number = fc.oneof(fc.maxSafeInteger(), fc.double());
  const digits = fc.bigInt(-(2n ** 63n), 2n ** 64n - 1n).map(String);
  fc.assert(
    fc.property(fc.oneof(digits, number, fc.constantFrom('', 'x', '1.5', -1, 0)), (value) => {
      const said = schema.safeParse(value);
      // Only what ClickHouse writes: zod coerces the empty text to 0 as Number does.
      if (said.success) expect(column(value)).toEqual(said.data);
      else expect(() => column(value)).toThrow(TypeError);
    }),
  );
});

test('a row has its columns and no others, and a wrong one is named', () => {
  const row = rowOf({ hour: seconds, pnl: int, tags: texts });
  expect(row.parse({ tags: ['a'], pnl: '-5', hour: 7, more: 1 })).toEqual({
    hour: 7,
    pnl: -5n,
    tags: ['a'],
  });
  expect(() => row.parse({ tags: ['a', 1], pnl: '5', hour: 7 })).toThrow('a text expected in');
  expect(() => row.parse({ tags: 'a', pnl: '5', hour: 7 })).toThrow('a list expected in a row');
  expect(() => row.parse({ tags: [], pnl: 5, hour: 7 })).toThrow('a 64-bit integer expected');
});

describe('a fill', () => {
  const tuple = ['85671000', 12, 7, 1, 'SELL', '5000000', '3100000', '0', 'AB', true, '7130'];

  test('is read from its tuple', () => {
    const read = {
      ...{ block: 85671000n, log: 12, time: 7, outcomeIndex: 1, side: 'SELL', shares: 5000000n },
      ...{ usdc: 3100000n, fee: 0n, orderHash: '0xab', isTaker: true, tokenId: '7130' },
    };
    expect(fills([tuple])).toEqual([read]);
  });

  test('is refused with an order hash that is no hexadecimal text', () => {
    expect(() => fill(tuple.with(8, 'ag'))).toThrow('a hexadecimal text expected in a row');
  });

  test.each(tuple.map((_, index) => index))('is refused with a wrong column %i', (index) => {
    expect(() => fill(tuple.with(index, null as never))).toThrow(TypeError);
    expect(() => fill(tuple.slice(0, index))).toThrow(TypeError);
  });
});
