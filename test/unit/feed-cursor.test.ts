// Positions of the order feed: what an id says, and what a Last-Event-ID may be.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { attainable, parsePosition, position, sequenceOf } from '../../api/feed/cursor.ts';

describe('position', () => {
  test('is the sequence and four digits of the message id', () => {
    expect(position(7, 'a')).toBe(72_220);
    expect(position(1, '0xab:0xcd')).not.toBe(position(1, '0xab:0xce'));
  });

  test('keeps the sequence, ascends with it, and survives its text', () => {
    const sequence = fc.integer({ min: 1, max: 900_000_000_000 });
    fc.assert(
      fc.property(sequence, fc.string(), fc.string(), (number, id, nextId) => {
        const at = position(number, id);
        expect(Number.isSafeInteger(at)).toBe(true);
        expect(sequenceOf(at)).toBe(number);
        expect(position(number + 1, nextId)).toBeGreaterThan(at);
        expect(attainable(parsePosition(String(at)) ?? 0n)).toBe(at);
      }),
    );
  });

  test('spreads the checks of similar ids', () => {
    const checks = Array.from({ length: 10_000 }, (_, n) => position(1, `0x${n}:0x1`) % 10_000);
    // Random checks would leave 1 − 1/e of the values in use: 6,321.
    expect(new Set(checks).size).toBeGreaterThan(5_500);
  });

  test.each([0, -1, 1.5, Number.NaN, 2 ** 53])('refuses sequence %d', (sequence) => {
    expect(() => position(sequence, 'a')).toThrow(RangeError);
  });
});

describe('parsePosition', () => {
  test.each(['', ' 1', '1.0', '-1', '+1', '0x1', '1e3', 'abc', '1'.repeat(21)])(
    'refuses %j',
    (text) => {
      expect(parsePosition(text)).toBeUndefined();
    },
  );

  test('takes every u64, though no feed has them all', () => {
    expect(parsePosition('0')).toBe(0n);
    expect(parsePosition('18446744073709551615')).toBe(2n ** 64n - 1n);
    expect(attainable(2n ** 64n - 1n)).toBeUndefined();
    expect(attainable(2n ** 53n - 1n)).toBeUndefined();
    expect(attainable(0n)).toBeUndefined();
    expect(attainable(12_345n)).toBe(12_345);
  });
});
