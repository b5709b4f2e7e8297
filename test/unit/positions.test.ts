import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Position } from '../../projector/position.ts';
import { Positions } from '../../projector/positions.ts';

const INT64_MAX = 2n ** 63n - 1n;
const amount = fc.bigInt({ min: -INT64_MAX - 1n, max: INT64_MAX });
const position: fc.Arbitrary<Position> = fc.record({
  outcome: fc.constantFrom(0, 1),
  shares: amount,
  costBasis: amount,
  openFees: amount,
});
/** Few keys, so that they often collide. */
const key = fc.record({ market: fc.nat(12), trader: fc.nat(40) });
const step = fc.oneof(
  fc.record({ kind: fc.constant('set' as const), key, position }),
  fc.record({ kind: fc.constant('delete' as const), key }),
);

describe('Positions', () => {
  test('behaves like a map from market and trader, after any insertions and deletions', () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 300 }), (steps) => {
        const positions = new Positions();
        const model = new Map<string, Position>();
        for (const one of steps) {
          const { market, trader } = one.key;
          if (one.kind === 'set') {
            positions.set(market, trader, one.position);
            model.set(`${market}-${trader}`, one.position);
          } else {
            positions.delete(market, trader);
            model.delete(`${market}-${trader}`);
          }
        }
        expect(positions.size).toBe(model.size);
        expect(contents(positions, 13)).toEqual(model);
      }),
    );
  });

  test('keeps everything while it grows, and reuses freed slots', () => {
    const positions = new Positions();
    const model = new Map<string, Position>();
    const one = (i: number): Position => ({
      outcome: i % 2 === 0 ? 0 : 1,
      shares: BigInt(i),
      costBasis: BigInt(-i),
      openFees: 1n,
    });
    for (let i = 0; i < 20_000; i++) {
      const [market, trader] = [i % 3_001, i % 7_919];
      positions.set(market, trader, one(i));
      model.set(`${market}-${trader}`, one(i));
      if (i % 3 !== 0) continue;
      const gone = i / 3;
      positions.delete(gone % 3_001, gone % 7_919);
      model.delete(`${gone % 3_001}-${gone % 7_919}`);
    }
    expect(positions.size).toBe(model.size);
    expect(contents(positions, 3_001)).toEqual(model);
    for (const name of model.keys()) {
      const [market = 0, trader = 0] = name.split('-').map(Number);
      expect(positions.get(market, trader)).toEqual(model.get(name));
    }
  });

  test('rejects an amount beyond 64 bits, which the tables cannot hold', () => {
    const held: Position = { outcome: 0, shares: INT64_MAX + 1n, costBasis: 0n, openFees: 0n };
    expect(() => new Positions().set(0, 0, held)).toThrow(RangeError);
  });
});

function contents(positions: Positions, markets: number): Map<string, Position> {
  const all = new Map<string, Position>();
  for (let market = 0; market < markets; market++) {
    for (const [trader, held] of positions.of(market)) all.set(`${market}-${trader}`, held);
  }
  return all;
}
