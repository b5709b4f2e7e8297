/** The members of an event that say which match, market or trader it is about. */
import type { FeedMatch, FeedTrader } from '../../../ingest/contract.ts';

export function marketData({ conditionId, market }: FeedMatch) {
  return {
    condition_id: conditionId,
    id: market.marketId,
    question: market.question,
    slug: market.slug,
    event_slug: market.eventSlug,
    outcomes: market.outcomes,
  };
}

export function traderData({ address, name }: FeedTrader) {
  return { address, name };
}
