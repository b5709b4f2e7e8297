/** Pages of a list that continue after the key of their last row. */

/**
 * Splits off the row beyond the page. Statements read `limit + 1` rows, so that the last page is known as such even if it is
 * full. `last` is the row whose key is the cursor of the next page, undefined on the last page.
 */
export function pageOf<Row>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly last: Row | undefined } {
  const page = rows.slice(0, limit);
  return { page, last: rows.length > limit ? page.at(-1) : undefined };
}
