/**
 * What combos pay. A combo has up to fifty legs, each an outcome of another market; Yes pays the product of what the legs pay.
 * The module works in parts of 10^36, rounds the product down for Yes and up for No, and so do we.
 */
import { AMOUNT_MAX } from '../../contract.ts';

/** The parts in which combos are paid. */
export const PARTS = 10n ** 36n;
/** The parts of one payout where a product needs more digits than a payout has. */
const ROUNDED_PARTS = 10n ** 15n;

/** What a leg pays: `paid` of `total`. Undefined while its market is open. */
export type Leg = { readonly paid: bigint; readonly total: bigint } | undefined;

/** What Yes and No pay, in parts of PARTS; undefined while that is open. One losing leg decides. */
export function comboParts(legs: readonly Leg[]): readonly [bigint, bigint] | undefined {
  if (legs.some((leg) => leg?.paid === 0n)) return [0n, PARTS];
  let [down, up] = [PARTS, PARTS];
  for (const leg of legs) {
    if (leg === undefined) return undefined;
    const { paid, total } = leg;
    down = (down * paid) / total;
    up = (up * paid + total - 1n) / total;
  }
  return [down, PARTS - up];
}

/**
 * The same as payouts in lowest terms, and the parts themselves where payouts had to be rounded: what Yes pays rounds down to
 * parts of 10^15.
 */
export function comboPayouts(parts: readonly [bigint, bigint]): {
  readonly payouts: [bigint, bigint];
  readonly parts?: [bigint, bigint];
} {
  const [yes, no] = parts;
  const divisor = commonDivisor(yes, no);
  const [zero, one] = [yes / divisor, no / divisor];
  if (yes + no === PARTS && zero + one <= AMOUNT_MAX) return { payouts: [zero, one] };
  const rounded = (yes * ROUNDED_PARTS) / PARTS;
  return { payouts: [rounded, ROUNDED_PARTS - rounded], parts: [yes, no] };
}

function commonDivisor(a: bigint, b: bigint): bigint {
  let [one, other] = [a, b];
  while (other !== 0n) [one, other] = [other, one % other];
  return one;
}
