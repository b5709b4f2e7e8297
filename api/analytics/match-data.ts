/** Parts of a match of FEED, and the members of an event that say which market and trader it is about. */
import type { FeedFill, FeedMatch, FeedTrader } from '../../ingest/contract.ts';

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

/** All fills of a match, the taker's first. */
export function fillsOf({ makers, taker }: FeedMatch): readonly FeedFill[] {
  return [taker, ...makers];
}
