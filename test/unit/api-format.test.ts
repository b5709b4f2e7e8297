import fc from 'fast-check';
import { getAddress, isAddress } from 'viem';
import { describe, expect, test } from 'vitest';
import {
  checksummed,
  hourText,
  isoSecond,
  percent,
  price,
  priceV1,
  safeInteger,
  spaced,
} from '../../api/analytics/format.ts';
import prices from '../fixtures/prices.json' with { type: 'json' };

describe('percent', () => {
  test('returns the published ROI of real positions', () => {
    // (shares − usdc − fees) over usdc of four buy-and-hold positions.
    expect(percent(247_303_086_429n, 176_045_224_398n)).toBe(140.47702076251807);
    expect(percent(19_724_647_360n, 19_151_800_800n)).toBe(102.99108457727903);
    expect(percent(-3_409_387_030n, 3_360_988_800n)).toBe(-101.43999974055254);
  });

  test('is 0 unless the whole is above 0', () => {
    expect(percent(5n, 0n)).toBe(0);
    // A gain beside a negative cost is not a loss.
    expect(percent(5n, -5n)).toBe(0);
  });
});

describe('price', () => {
  const amount = fc.bigInt({ min: 1n, max: 9_007_199_254_740_991n });

  test('of v1 rounds down', () => {
    expect(priceV1(2n, 3n)).toBe(666_666n);
    expect(priceV1(154_171_171n, 249_012_600n)).toBe(619_129n);
  });

  test('rounds to nearest', () => {
    expect(price(2n, 3n)).toBe(666_667n);
    fc.assert(
      fc.property(amount, amount, (usdc, shares) => {
        const twice = 2n * (price(usdc, shares) * shares - usdc * 1_000_000n);
        expect(twice <= shares && twice > -shares).toBe(true);
      }),
    );
  });

  test.each(prices.legs)(
    'of $shares shares for $usdc is $price cents',
    ({ price: cents, ...leg }) => {
      expect(Number(price(BigInt(leg.usdc), BigInt(leg.shares)))).toBe(cents * 10_000);
    },
  );

  test('of v1 is the highest price at which the shares cost no more than was paid', () => {
    fc.assert(
      fc.property(amount, amount, (usdc, shares) => {
        const micro = priceV1(usdc, shares);
        expect(micro * shares <= usdc * 1_000_000n).toBe(true);
        expect((micro + 1n) * shares > usdc * 1_000_000n).toBe(true);
      }),
    );
  });
});

test('a sum beyond the integers of JSON is shown as the largest', () => {
  const most = Number.MAX_SAFE_INTEGER;
  expect(safeInteger(BigInt(most))).toBe(most);
  expect(safeInteger(BigInt(most) + 1n)).toBe(most);
  expect(safeInteger(-(2n ** 60n))).toBe(-most);
});

describe('times', () => {
  test('have the three forms of the API', () => {
    expect(isoSecond(1_777_593_661)).toBe('2026-05-01T00:01:01Z');
    expect(spaced(isoSecond(1_777_593_661))).toBe('2026-05-01 00:01:01Z');
    expect(hourText(1_777_593_600)).toBe('2026-05-01 00:00:00');
  });

  test('are empty for 0', () => {
    expect([isoSecond(0), spaced(''), hourText(0)]).toEqual(['', '', '']);
  });
});

describe('checksummed', () => {
  // https://eips.ethereum.org/EIPS/eip-55, "Test Cases".
  test.each([
    '0x52908400098527886E0F7030069857D2E4169EE7',
    '0xde709f2102306220921060314715629080e2fb77',
    '0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed',
    '0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359',
    '0xdbF03B407c01E7cD3CBea99509d93f8DDDC8C6FB',
    '0xD1220A0cf47c7B9Be7A2E6BA89F429762e7b9aDb',
  ])('writes %s with its checksum', (address) => {
    expect(checksummed(address.toLowerCase())).toBe(address);
    expect(checksummed(address)).toBe(address);
  });

  test('returns the same as viem for any address', () => {
    const bytes = fc.uint8Array({ minLength: 20, maxLength: 20 });
    fc.assert(
      fc.property(bytes, (address) => {
        const text = `0x${Buffer.from(address).toString('hex')}`;
        if (!isAddress(text)) throw new Error('not an address');
        expect(checksummed(text)).toBe(getAddress(text));
      }),
    );
  });
});
