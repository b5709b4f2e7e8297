/**
 * The format of amounts, ratios, times and addresses in responses.
 * Amounts stay bigint from the row to the decimal text; only a ratio becomes a double, at the end.
 */
import { keccak256Hex } from '../../infra/keccak.ts';

export const MICRO = 1_000_000n;

/** 100 · part / whole as a double, 0 unless the whole is above 0: ROI and win rate. */
export function percent(part: bigint, whole: bigint): number {
  return whole <= 0n ? 0 : Number(100n * part) / Number(whole);
}

/** Price of v1 in micro-USDC a share, rounded down; 0 if no share was traded. */
export function priceV1(usdc: bigint, shares: bigint): bigint {
  return shares === 0n ? 0n : (usdc * MICRO) / shares;
}

/**
 * Price in micro-USDC a share, rounded to nearest, so that a market buy, which spends whole micro-USDC, is at its tick;
 * 0 if no share was traded.
 */
export function price(usdc: bigint, shares: bigint): bigint {
  return shares === 0n ? 0n : floored(2n * usdc * MICRO + shares, 2n * shares);
}

/** Floor of a / b for b > 0; plain bigint division rounds towards zero. */
export function floored(a: bigint, b: bigint): bigint {
  const quotient = a / b;
  return a < 0n && quotient * b !== a ? quotient - 1n : quotient;
}

/** `YYYY-MM-DDTHH:MM:SSZ`, '' for 0. */
export function isoSecond(seconds: number): string {
  return seconds === 0 ? '' : `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`;
}

/** `YYYY-MM-DD HH:MM:SS`, '' for 0. */
export function hourText(seconds: number): string {
  return spaced(isoSecond(seconds)).slice(0, 19);
}

/** An ISO 8601 time with a space in place of T, as in the v1 trader profile. */
export function spaced(iso: string): string {
  return iso.replace('T', ' ');
}

/**
 * An amount as a JSON number, as in v2, which is exact up to ±(2^53 − 1). A sum beyond is shown as that bound, because one
 * absurd match must not take a list down. v1 has every amount as text.
 */
export function safeInteger(amount: bigint): number {
  const number = Number(amount);
  if (Number.isSafeInteger(number)) return number;
  return amount > 0n ? Number.MAX_SAFE_INTEGER : Number.MIN_SAFE_INTEGER;
}

/**
 * An address with the ERC-55 checksum, as in v2: a letter is upper case if the digit at its place in the hash of
 * the 40 digits is 8 or more. The api does not load viem for this, because viem takes 35 MB.
 */
export function checksummed(address: string): string {
  const digits = address.slice(2).toLowerCase();
  const hash = keccak256Hex(Buffer.from(digits));
  let text = '0x';
  for (let at = 0; at < digits.length; at++) {
    const digit = digits[at] ?? '';
    text += (hash[2 + at] ?? '') >= '8' ? digit.toUpperCase() : digit;
  }
  return text;
}
