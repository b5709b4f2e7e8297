import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { jacobi } from '../../ingest/jacobi.ts';

/** Euler's criterion, for a prime. */
function legendre(value: bigint, prime: bigint): number {
  let [power, base] = [1n, value % prime];
  for (let exponent = (prime - 1n) / 2n; exponent > 0n; exponent >>= 1n) {
    if (exponent & 1n) power = (power * base) % prime;
    base = (base * base) % prime;
  }
  return power === prime - 1n ? -1 : Number(power);
}

/** By its definition: the product over the modulus' prime factors. */
function byFactors(value: bigint, modulus: bigint): number {
  let [symbol, rest] = [1, modulus];
  for (let factor = 3n; rest > 1n; factor += 2n) {
    for (; rest % factor === 0n; rest /= factor) symbol *= legendre(value, factor);
  }
  // Never −0.
  return symbol + 0;
}

describe('jacobi', () => {
  test('equals the definition for any small odd modulus', () => {
    for (let modulus = 1n; modulus < 200n; modulus += 2n) {
      for (let value = 0n; value < modulus; value++) {
        expect(jacobi(value, modulus)).toBe(byFactors(value, modulus));
      }
    }
  });

  test.each([
    [
      'the base field of alt_bn128',
      21888242871839275222246405745257275088696311157297823662689037894645226208583n,
    ],
    ['2²⁵⁵ − 19', 2n ** 255n - 19n],
    ['2¹²⁷ − 1', 2n ** 127n - 1n],
  ])("equals Euler's criterion over %s", (_name, prime) => {
    const anyValue = fc.oneof(
      fc.bigInt({ min: 0n, max: prime - 1n }),
      fc.nat(250).map((bits) => 2n ** BigInt(bits) % prime),
    );
    fc.assert(
      fc.property(anyValue, (value) => {
        expect(jacobi(value, prime)).toBe(legendre(value, prime));
      }),
      { numRuns: 500 },
    );
  });
});
