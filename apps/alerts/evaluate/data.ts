/** The members of an event that say which match, market or trader it is about. */
import type { FeedMatch, FeedTrader } from '../../../ingest/contract.ts';

export type MarketData = {
  readonly condition_id: string;
  readonly id: string;
  readonly question: string;
  readonly slug: string;
  readonly event_slug: string;
  readonly outcomes: readonly [string, string];
};

export type TraderData = { readonly address: string; readonly name: string };

export function marketData({ conditionId, market }: FeedMatch): MarketData {
  return {
    condition_id: conditionId,
    id: market.marketId,
    question: market.question,
    slug: market.slug,
    event_slug: market.eventSlug,
    outcomes: market.outcomes,
  };
}

export function traderData({ address, name }: FeedTrader): TraderData {
  return { address, name };
}
