/**
 * Prices shares that become shares of other markets. In protocol version 2, No of a market becomes Yes of all others of
 * its event, money becomes Yes of all, and combos are taken apart and put together. In each market that is a sale or a purchase,
 * and their cash adds up to what was paid. The values come with the event, because they depend on the prices of several markets.
 */

/** Shares of a market that were given or received. */
export type Exchanged = {
  /** Micro-shares, below 0 if given. */
  readonly shares: bigint;
  /** What one of them is worth, micro-USDC; undefined without a price. */
  readonly price: bigint | undefined;
};

const ONE = 1_000_000n;
const HALF = ONE / 2n;

/**
 * The trader's cash for each, negative for a purchase; it adds up to `cash`. Given shares are sold at their price. Received shares
 * cost the rest, split in proportion to their prices. If nothing is received, the given shares are sold for `cash`. A share without
 * a price counts as the mean of the others, or as ½ if no price is known; received shares that are all worth nothing count the same.
 * Divisions round down, and the last one on each side takes the remainder.
 */
export function valuesOf(cash: bigint, exchanged: readonly Exchanged[]): readonly bigint[] {
  const known = exchanged.flatMap(({ price }) => price ?? []);
  const sum = known.reduce((total, price) => total + price, 0n);
  const mean = known.length === 0 ? HALF : sum / BigInt(known.length);
  const worth = exchanged.map(({ shares, price }) => {
    const value = ((shares < 0n ? -shares : shares) * (price ?? mean)) / ONE;
    return { isGiven: shares < 0n, value };
  });
  const totalOf = (given: boolean) =>
    worth.reduce((total, { isGiven, value }) => (isGiven === given ? total + value : total), 0n);
  const isOneSided = worth.every(({ isGiven }) => isGiven);
  // Received shares never have a negative cost.
  const given = isOneSided || totalOf(true) < cash ? cash : totalOf(true);
  const shareOut = (total: bigint, side: boolean) => {
    const weight = totalOf(side);
    const places = worth.flatMap(({ isGiven }, at) => (isGiven === side ? [at] : []));
    let left = total;
    return places.map((at, n) => {
      const part =
        weight === 0n ? total / BigInt(places.length) : (total * (worth[at]?.value ?? 0n)) / weight;
      const own = n === places.length - 1 ? left : part;
      left -= own;
      return [at, side ? own : -own] as const;
    });
  };
  const paid = new Map([...shareOut(given, true), ...shareOut(given - cash, false)]);
  return exchanged.map((_, at) => paid.get(at) ?? 0n);
}
