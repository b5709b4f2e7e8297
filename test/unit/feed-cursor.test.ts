// Cursors of the order feed: what an id contains, and which Last-Event-ID values are accepted.
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { attainable, cursorOf, parseCursor, sequenceOf } from '../../api/feed/cursor.ts';

describe('cursorOf', () => {
  test('is the sequence and four digits of the message id', () => {
    expect(cursorOf(7, 'a')).toBe(72_220);
    expect(cursorOf(1, '0xab:0xcd')).not.toBe(cursorOf(1, '0xab:0xce'));
  });

  test('keeps the sequence, grows with it and can be parsed back', () => {
    const sequence = fc.integer({ min: 1, max: 900_000_000_000 });
    fc.assert(
      fc.property(sequence, fc.string(), fc.string(), (number, id, nextId) => {
        const at = cursorOf(number, id);
        expect(Number.isSafeInteger(at)).toBe(true);
        expect(sequenceOf(at)).toBe(number);
        expect(cursorOf(number + 1, nextId)).toBeGreaterThan(at);
        expect(attainable(parseCursor(String(at)) ?? 0n)).toBe(at);
      }),
    );
  });

  test('spreads the checks of similar ids', () => {
    const checks = Array.from({ length: 10_000 }, (_, n) => cursorOf(1, `0x${n}:0x1`) % 10_000);
    // Random checks would use 1 − 1/e of the values: 6,321.
    expect(new Set(checks).size).toBeGreaterThan(5_500);
  });

  test.each([0, -1, 1.5, Number.NaN, 2 ** 53])('rejects sequence %d', (sequence) => {
    expect(() => cursorOf(sequence, 'a')).toThrow(RangeError);
  });
});

describe('parseCursor', () => {
  test.each(['', ' 1', '1.0', '-1', '+1', '0x1', '1e3', 'abc', '1'.repeat(21)])(
    'refuses %j',
    (text) => {
      expect(parseCursor(text)).toBeUndefined();
    },
  );

  test('accepts every u64', () => {
    expect(parseCursor('0')).toBe(0n);
    expect(parseCursor('18446744073709551615')).toBe(2n ** 64n - 1n);
    expect(attainable(2n ** 64n - 1n)).toBeUndefined();
    expect(attainable(2n ** 53n - 1n)).toBeUndefined();
    expect(attainable(0n)).toBeUndefined();
    expect(attainable(12_345n)).toBe(12_345);
  });
});
