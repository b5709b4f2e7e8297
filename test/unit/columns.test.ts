// Rows that are proved column by column say what zod's schemas would.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { count, int, rowOf, seconds, texts } from '../../api/analytics/columns.ts';
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
  expect(() => row.parse({ tags: ['a', 1], pnl: '5', hour: 7 })).toThrow(
    /list of texts .*\["a",1\]/,
  );
  expect(() => row.parse({ tags: [], pnl: 5, hour: 7 })).toThrow('a 64-bit integer expected');
});
