/** The listing of a combo, which the metadata API does not know: its legs, named by their markets. */
import type { Hash, Listing } from '../contract.ts';
import { structuredTokens } from '../events/structured-ids.ts';

/** A leg: an outcome of a market, and the market's listing if it is known. */
export type Leg = {
  readonly conditionId: string;
  readonly outcomeIndex: 0 | 1;
  readonly listing: Listing | undefined;
};

/** Longer texts are cut, as those of the metadata API are. */
const TEXT_MAX = 4_000;

/** A combo ends with the last of its legs. */
export function comboListing(conditionId: Hash, legs: readonly Leg[]): Listing {
  const ends = legs.map(({ listing }) => listing?.endDate ?? '');
  const [zero, one] = structuredTokens(conditionId);
  return {
    ...{ kind: 'listing', conditionId, marketId: '0', negRisk: false },
    question: legs.map(nameOf).join(' + ').slice(0, TEXT_MAX).toWellFormed(),
    // The digits of the hash.
    slug: `combo-${conditionId.slice(4, 36)}`,
    ...{ startDate: '', endDate: ends.reduce((last, end) => (end > last ? end : last), '') },
    icon: legs.find(({ listing }) => listing?.icon)?.listing?.icon ?? '',
    ...{ eventSlug: '', eventTitle: '', eventIcon: '', seriesSlug: '', tags: [] },
    ...{ outcomes: ['Yes', 'No'], tokenIds: [zero, one] },
    ...{ groupItemTitle: `${legs.length} legs`, sportsMarketType: '' },
  };
}

function nameOf({ conditionId, outcomeIndex, listing }: Leg): string {
  const outcome = listing?.outcomes[outcomeIndex] || (outcomeIndex === 0 ? 'Yes' : 'No');
  return `${listing?.question || conditionId}: ${outcome}`;
}
