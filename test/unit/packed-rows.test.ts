import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Holding } from '../../api/analytics/holdings.ts';
import { MarketIds, PackedHoldings } from '../../api/analytics/packed-holdings.ts';
import { PackedRows } from '../../api/analytics/packed-rows.ts';

const step = fc.record({
  key: fc.integer({ min: 0, max: 20 }),
  value: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  isRemoved: fc.boolean(),
});

const amount = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n });
const second = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const holding = fc.record({
  conditionId: fc.constantFrom('0x1', '0x2', '0x3', '0x4', '0x5'),
  version: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  outcome: fc.constantFrom(0 as const, 1 as const),
  shares: fc.oneof(fc.constant(0n), amount),
  ...{ cost: amount, fees: amount, realised: amount, realisedCost: amount, volume: amount },
  ...{ firstAt: second, lastAt: second, settled: fc.nat(), balance0: amount, balance1: amount },
});

describe('packed rows', () => {
  test('are a map in the order of its keys', () => {
    const property = fc.property(fc.nat(3), fc.array(step), (room, steps) => {
      const rows = new PackedRows(2, room);
      const expected = new Map<number, bigint>();
      for (const { key, value, isRemoved } of steps) {
        const known = rows.find(key);
        expect(known !== undefined).toBe(expected.has(key));
        if (isRemoved && known !== undefined) {
          rows.remove(known);
          expected.delete(key);
        } else {
          const row = rows.open(key);
          if (known === undefined) expect(rows.get(row, 1)).toBe(0n);
          rows.set(row, 1, value);
          expected.set(key, value);
        }
        const found = Array.from({ length: rows.size }, (_, row) => [
          rows.key(row),
          rows.get(row, 1),
        ]);
        expect(found).toEqual([...expected].sort(([a], [b]) => a - b));
      }
    });
    fc.assert(property);
  });
});

describe('packed holdings', () => {
  test('are the holdings that were set last in each market', () => {
    const byId = (a: Holding, b: Holding) => (a.conditionId < b.conditionId ? -1 : 1);
    const property = fc.property(fc.array(holding), fc.array(holding), (read, later) => {
      const ids = new MarketIds();
      ids.numberOf('0x5');
      const first = [...new Map(read.map((one) => [one.conditionId, one])).values()];
      const packed = new PackedHoldings(ids, first);
      const expected = new Map(first.map((one) => [one.conditionId, one]));
      for (const one of later) {
        packed.set(one);
        expected.set(one.conditionId, one);
      }
      const all = [...expected.values()].sort(byId);
      const open = all.filter(({ shares }) => shares > 0n);
      expect(packed.size).toBe(all.length);
      expect(packed.all().sort(byId)).toEqual(all);
      expect(packed.open().sort(byId)).toEqual(open);
      expect(packed.openIds().sort()).toEqual(open.map(({ conditionId }) => conditionId));
      expect(packed.find('0x5')).toEqual(expected.get('0x5'));
      expect(packed.version).toBe(
        Math.max(0, ...[...first, ...later].map(({ version }) => version)),
      );
      expect(packed.traded()).toHaveLength(all.length);
    });
    fc.assert(property);
  });
});
