import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RecentSet } from '../../ingest/recent-set.ts';

describe('RecentSet', () => {
  test('has the newest members, at least sizeMin and less than twice as many, and no others', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(30).map(String)),
        fc.integer({ min: 1, max: 8 }),
        (added, min) => {
          const set = new RecentSet(min);
          for (const member of added) set.add(member);
          const newestFirst = [...new Set(added.toReversed())];
          const held = newestFirst.filter((member) => set.has(member));
          expect(newestFirst.slice(0, min).every((member) => set.has(member))).toBe(true);
          expect(held.length).toBeLessThan(2 * min + 1);
          expect(set.has('31')).toBe(false);
        },
      ),
    );
  });
});
