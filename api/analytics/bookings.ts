/** Conditions on rows of `bookings` and its copies. */

/** Rows that count in windows. Others only changed balances, or moved shares with their cost. */
export const IS_COUNTED = `(kind IN ('fill', 'settlement') OR realised_pnl != 0 OR realised_cost != 0)`;

/** The same for rows of sums: whether any of them counts. */
export const HAS_COUNTED =
  '(fills > 0 OR settlements > 0 OR realised_pnl != 0 OR realised_cost != 0)';
