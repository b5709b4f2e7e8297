/**
 * What a conversion is worth in each of its markets. No of some questions of a neg-risk event becomes Yes of all others and
 * cash: in each market that is a sale of No or a purchase of Yes, and their cash adds up to what was paid out. The values come
 * with the event, because they depend on the prices of several markets at that moment.
 */

/** A question of a conversion: its payout once it is resolved, else the price of Yes in micro-USDC, if there was a match. */
export type Question = {
  readonly payouts: readonly [bigint, bigint] | undefined;
  readonly mark: bigint | undefined;
};

/**
 * The value of Yes in each question of a conversion, in micro-USDC, which add up to `out`. Resolved questions count their payout.
 * The rest goes to the others in proportion to their marks, the remainder of the divisions to the last of them. Without a mark a
 * question counts as the mean of those with one; without any, all count the same.
 */
export function conversionValues(out: bigint, questions: readonly Question[]): readonly bigint[] {
  const marks = questions.flatMap(({ payouts, mark }) =>
    payouts === undefined && mark !== undefined ? [mark] : [],
  );
  const total = marks.reduce((sum, mark) => sum + mark, 0n);
  const mean = marks.length === 0 || total === 0n ? 1n : total / BigInt(marks.length);
  const weights = questions.map(({ payouts, mark }) => {
    if (payouts !== undefined) return 0n;
    return total === 0n ? 1n : (mark ?? mean);
  });
  const paid = questions.map(({ payouts }) =>
    payouts === undefined ? 0n : (out * payouts[0]) / (payouts[0] + payouts[1]),
  );
  const rest = paid.reduce((left, value) => left - value, out);
  const weight = weights.reduce((sum, one) => sum + one, 0n);
  const values = paid.map((value, at) =>
    weight === 0n ? value : value + (rest * (weights[at] ?? 0n)) / weight,
  );
  const last = questions.findLastIndex(({ payouts }) => payouts === undefined);
  const remainder = values.reduce((left, value) => left - value, out);
  return values.map((value, at) => (at === last ? value + remainder : value));
}
