/** What rules look up about the past, apart from the matches that they saw. */
import type { Reading } from '../../../api/analytics/query.ts';
import { PositionBook } from './positions.ts';
import { PriceBook } from './prices.ts';

export type Lookups = { readonly positions: PositionBook; readonly prices: PriceBook };

export function createLookups(): Lookups {
  return { positions: new PositionBook(), prices: new PriceBook() };
}

/** Reads what the rules want for matches that were detected at this time or later. Throws Problem 503. */
export async function load(
  { positions, prices }: Lookups,
  reading: Reading,
  fromMs: number,
): Promise<void> {
  await positions.load(reading, fromMs);
  await prices.load(reading);
}

/** Forgets what was read for the last batch of matches. */
export function clear({ positions, prices }: Lookups): void {
  positions.clear();
  prices.clear();
}
