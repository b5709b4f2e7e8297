// The rows that FINAL would keep of rows that were read without it.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newestBy, newestOf } from '../../api/analytics/query.ts';

const rows = fc.array(fc.record({ key: fc.constantFrom('a', 'b'), sequence: fc.bigInt() }));

test('keeps the row with the greatest sequence of each key, in any order', () => {
  fc.assert(
    fc.property(rows, (all) => {
      const newest = newestBy(all, ({ key }) => key);
      expect(new Set(newest.keys())).toEqual(new Set(all.map(({ key }) => key)));
      for (const { key, sequence } of all) {
        expect(newest.get(key)?.sequence).toBeGreaterThanOrEqual(sequence);
        expect(newest.get(key)?.key).toBe(key);
      }
    }),
  );
});

test('returns nothing for no rows', () => {
  expect(newestOf([])).toBeUndefined();
  expect(newestOf([{ sequence: 1n }, { sequence: 3n }, { sequence: 2n }])).toEqual({
    sequence: 3n,
  });
});
