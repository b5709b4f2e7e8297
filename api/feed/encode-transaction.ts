/**
 * The live transaction (specification 2.13): a match as the `tx` event of a managed stream, as JSON
 * text on one line. Pure. Members are in alphabetical order, as the specification lists them.
 */
import type { FeedFill, FeedMatch } from '../../ingest/contract-feed.ts';

/** JSON of a match as a live transaction, without line breaks. */
export function encodeTransaction(match: FeedMatch): string {
  const { market } = match;
  const before = {
    condition_id: match.conditionId,
    event_slug: market.eventSlug,
    group_item_title: market.groupItemTitle,
  };
  const after = {
    neg_risk: market.negRisk,
    outcomes: market.outcomes,
    question: market.question,
    series_slug: market.seriesSlug,
    slug: market.slug,
    sports_market_type: market.sportsMarketType,
    start_date: market.startDate,
    tags_slug: market.tags,
    token_ids: market.tokenIds,
  };
  // A market id may exceed 2^53: its digits go into the text as they are.
  const id = `"id":${BigInt(market.marketId)}`;
  const marketText = `${JSON.stringify(before).slice(0, -1)},${id},${JSON.stringify(after).slice(1)}`;
  const makers = JSON.stringify(match.makers.map((maker) => participant(match, maker)));
  const rest = JSON.stringify({
    taker: participant(match, match.taker),
    timestamp: new Date(match.detectedAtMs).toISOString(),
    tx_hash: match.txHash,
  }).slice(1);
  return `{"makers":${makers},"market":${marketText},${rest}`;
}

function participant(match: FeedMatch, fill: FeedFill) {
  return {
    fee: String(fill.fee),
    order: orderOf(fill),
    outcome: match.market.outcomes[fill.outcomeIndex],
    shares: String(fill.shares),
    side: fill.side,
    token_ids_index: fill.outcomeIndex,
    usdc: String(fill.usdc),
    user: { address: fill.trader.address, name: fill.trader.name },
  };
}

/** What calldata tells of the order; without it a capacity of "0", which no order has. */
function orderOf({ order, orderHash }: FeedFill) {
  if (order === null) {
    return { order_hash: orderHash, shares: '0', signature_type: 0, timestamp: '', usdc: '0' };
  }
  const { shares, signatureType, timestampMs, usdc } = order;
  return {
    order_hash: orderHash,
    shares: String(shares),
    signature_type: signatureType,
    timestamp: isoOf(timestampMs),
    usdc: String(usdc),
  };
}

/** An order may carry any number of milliseconds; one that is no date is none. */
function isoOf(timestampMs: number): string {
  const time = new Date(timestampMs);
  return timestampMs === 0 || Number.isNaN(time.getTime()) ? '' : time.toISOString();
}
