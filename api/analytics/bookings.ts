/** Conditions on rows of `bookings` and its copies. */

/** Rows that count in windows. Others only changed balances, or moved shares with their cost. */
export const IS_COUNTED = `(kind IN ('fill', 'settlement') OR realised_pnl != 0 OR realised_cost != 0)`;

/** Micro-shares by which a row changed the balance of its outcome. */
export const BALANCE_CHANGE =
  "if(is_covered AND side != 'NONE', if(side = 'BUY', shares, -shares), 0)";

/** The same as IS_COUNTED for rows of sums: whether any of them counts. */
export const HAS_COUNTED =
  '(fills > 0 OR settlements > 0 OR realised_pnl != 0 OR realised_cost != 0)';
