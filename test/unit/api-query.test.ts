// Selects the rows that FINAL would keep from rows that were read without FINAL.
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { newestBy, newestOf } from '../../api/analytics/query.ts';

const rows = fc.array(fc.record({ key: fc.constantFrom('a', 'b'), version: fc.bigInt() }));

test('keeps the row with the highest version of each key, in any order', () => {
  fc.assert(
    fc.property(rows, (all) => {
      const newest = newestBy(all, ({ key }) => key);
      expect(new Set(newest.keys())).toEqual(new Set(all.map(({ key }) => key)));
      for (const { key, version } of all) {
        expect(newest.get(key)?.version).toBeGreaterThanOrEqual(version);
        expect(newest.get(key)?.key).toBe(key);
      }
    }),
  );
});

test('returns nothing for no rows', () => {
  expect(newestOf([])).toBeUndefined();
  expect(newestOf([{ version: 1n }, { version: 3n }, { version: 2n }])).toEqual({
    version: 3n,
  });
});
