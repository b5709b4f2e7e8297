/** What rules look up about the past, apart from the matches that they saw. */

import { Portfolios, PositionBook } from '../../../api/analytics/position-book.ts';
import type { Reading } from '../../../api/analytics/query.ts';
import type { FeedMatch } from '../../../ingest/contract.ts';
import { PriceBook } from './prices.ts';

export type Lookups = { readonly positions: PositionBook; readonly prices: PriceBook };

export function createLookups(reading: Reading): Lookups {
  return { positions: new PositionBook(new Portfolios(reading)), prices: new PriceBook() };
}

/** Reads what the rules want for these matches. Throws Problem 503. */
export async function load(
  { positions, prices }: Lookups,
  reading: Reading,
  matches: readonly FeedMatch[],
): Promise<void> {
  await positions.load(reading, matches);
  await prices.load(reading);
}

/** Forgets what was read for the last batch of matches. */
export function clear({ positions, prices }: Lookups): void {
  positions.clear();
  prices.clear();
}
