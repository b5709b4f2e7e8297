/** Prices in micro-units a share, as the API should show them. */

/** Rounded to nearest, halves up. */
export function nearest(usdc: bigint, shares: bigint): number {
  return Math.floor((roundedDown(usdc * 10n, shares) + 5) / 10);
}

/** Rounded down, like the stored extremes of a minute. */
export function roundedDown(usdc: bigint, shares: bigint): number {
  return Number((usdc * 1_000_000n) / shares);
}
