import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Mark, markPrice, valueAt } from '../../api/analytics/marks.ts';

function mark(usdc: bigint, shares: bigint): Mark {
  return { source: 'last_match', time: 1, usdc, shares };
}

describe('a mark', () => {
  test('rounds the price of outcome 0 to nearest, and both outcomes add up to 1 USD', () => {
    const third = mark(1n, 3n);
    expect([markPrice(third, 0), markPrice(third, 1)]).toEqual([333_333n, 666_667n]);
    const twoThirds = mark(2n, 3n);
    expect([markPrice(twoThirds, 0), markPrice(twoThirds, 1)]).toEqual([666_667n, 333_333n]);
  });

  test('values a position by the exact fraction, rounded down', () => {
    const third = mark(1n, 3n);
    expect(valueAt(third, { outcome: 0, shares: 3_000_000n })).toBe(1_000_000n);
    expect(valueAt(third, { outcome: 1, shares: 3_000_000n })).toBe(2_000_000n);
    expect(valueAt(third, { outcome: 0, shares: 2n })).toBe(0n);
    expect(valueAt(third, { outcome: 1, shares: 2n })).toBe(1n);
  });

  test('of a match above 1 USD shows a price of 1 USD, but values by the match', () => {
    const above = mark(5n, 4n);
    expect([markPrice(above, 0), markPrice(above, 1)]).toEqual([1_000_000n, 0n]);
    expect(valueAt(above, { outcome: 1, shares: 10n })).toBe(-3n);
  });

  test('of a resolution without a payout gives a value of 0', () => {
    const nothing: Mark = { source: 'resolution', time: 1, usdc: 0n, shares: 0n };
    expect([0, 1].map((outcome) => markPrice(nothing, outcome as 0 | 1))).toEqual([0n, 0n]);
    expect(valueAt(nothing, { outcome: 1, shares: 7n })).toBe(0n);
  });

  test('values both outcomes together at what they are worth, less at most one micro-USD', () => {
    const amount = fc.bigInt({ min: 0n, max: 2n ** 53n - 1n });
    fc.assert(
      fc.property(amount, amount, amount, (held, shares, usdc) => {
        const at = mark(usdc <= shares ? usdc : shares, shares + 1n);
        const both = ([0, 1] as const).map((outcome) => valueAt(at, { outcome, shares: held }));
        const lost = held - (both[0] ?? 0n) - (both[1] ?? 0n);
        expect([0n, 1n]).toContain(lost);
      }),
    );
  });
});
