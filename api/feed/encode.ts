/**
 * The formats of an event, each as JSON on one line, and the event-stream blocks around them. The order
 * feed has the compact array and the labelled object. Managed streams have the live transaction. Encoding is
 * pure: the same match gives the same text. Field order is part of the compact format. The labelled object
 * has the same order, and the live transaction lists its members alphabetically.
 */
import type { FeedFill, FeedMatch, FeedSequel, FeedTrader } from '../../ingest/contract.ts';
import { marketData, type TraderData } from '../analytics/match-data.ts';
import type { figuresOf, PositionChange } from '../analytics/position-changes.ts';
import type { Cursor } from './cursor.ts';

/** `tx` is the format of managed streams, the others are those of the order feed. */
export type Format = 'compact' | 'json' | 'tx';

/** Exchange V2 orders carry no fee rate. */
const FEE_RATE_BPS = '0';

/**
 * JSON of a match in the given format, without line breaks. `matchId` is its id in FEED, to which its `void`
 * refers. The compact array is fixed and cannot contain it.
 */
export function encodeMatch(match: FeedMatch, format: Format, matchId: string): string {
  switch (format) {
    case 'compact':
      return compact(match);
    case 'json':
      return labelled(match, matchId);
    case 'tx':
      return liveTransaction(match, matchId);
  }
}

/** An `order` or `tx` event. JSON has no raw line breaks, so one data line suffices. */
export function matchBlock(cursor: Cursor, json: string, format: Format): string {
  return `id: ${cursor}\nevent: ${format === 'tx' ? 'tx' : 'order'}\ndata: ${json}\n\n`;
}

/**
 * A `final`, `void` or `restored` event about a match that was delivered before. Its time has the format of the
 * stream's matches. Clients that only listen for `order` or `tx` ignore these events.
 */
export function sequelBlock(cursor: Cursor, sequel: FeedSequel, format: Format): string {
  const json = JSON.stringify({
    tx_hash: sequel.txHash,
    match_id: sequel.matchId,
    ...(sequel.kind === 'void' ? { reason: sequel.reason } : {}),
    ...(sequel.kind === 'final' ? { block_number: sequel.blockNumber } : {}),
    timestamp: format === 'tx' ? new Date(sequel.detectedAtMs).toISOString() : detectedAt(sequel),
  });
  return `id: ${cursor}\nevent: ${sequel.kind}\ndata: ${json}\n\n`;
}

/** A `position` event: what a match does to the position of a wallet. It has no id, because the match follows it. */
export function positionBlock(told: {
  readonly match: FeedMatch;
  readonly matchId: string;
  readonly trader: TraderData;
  readonly change: PositionChange;
  readonly figures: ReturnType<typeof figuresOf>;
  /** Whether the match is booked, so that the position before it is exact. */
  readonly isBooked: boolean;
}): string {
  const { change, figures, isBooked, match, matchId, trader } = told;
  const json = JSON.stringify({
    event: change.event,
    match_id: matchId,
    market: marketData(match),
    outcome: match.market.outcomes[figures.outcomeIndex],
    portfolio_share: figures.portfolioPermille / 10,
    portfolio_value: String(figures.portfolioValue),
    price: String(figures.price),
    shares_after: String(figures.sharesAfter),
    shares_before: String(figures.sharesBefore),
    state: isBooked ? 'final' : 'pending',
    timestamp: new Date(match.detectedAtMs).toISOString(),
    token_ids_index: figures.outcomeIndex,
    trader,
    tx_hash: match.txHash,
    value: String(figures.value),
    value_after: String(figures.valueAfter),
  });
  return `event: position\ndata: ${json}\n\n`;
}

/** The parts of a block that matchBlock or sequelBlock made. */
export function partsOf(block: string): { readonly event: string; readonly data: unknown } {
  const [, event = '', data = ''] = block.split('\n');
  return { event: event.slice('event: '.length), data: JSON.parse(data.slice('data: '.length)) };
}

/** Tells the client how long to wait before it reconnects, in milliseconds. */
export function retryBlock(ms: number): string {
  return `retry: ${ms}\n\n`;
}

/** A block that only moves the client's cursor. */
export function cursorBlock(cursor: Cursor): string {
  return `id: ${cursor}\n\n`;
}

/**
 * A `gap` event: the requested cursor, and where delivery continues. Set `resumeAt` if no stored event
 * follows, so that a client that is disconnected now resumes there. Otherwise the ids of the following
 * events do that.
 */
export function gapBlock(requested: bigint, firstAvailable: Cursor, resumeAt?: Cursor): string {
  const id = resumeAt === undefined || resumeAt === 0 ? '' : `id: ${resumeAt}\n`;
  const json = `{"requested":${requested},"first_available":${firstAvailable}}`;
  return `${id}event: gap\ndata: ${json}\n\n`;
}

/** An `end` event with the reason why the server is about to end the stream. */
export function endBlock(reason: string): string {
  return `event: end\ndata: ${JSON.stringify({ reason })}\n\n`;
}

function compact(match: FeedMatch): string {
  const { market } = match;
  return JSON.stringify([
    match.txHash,
    detectedAt(match),
    [
      exactNumber(market.marketId),
      market.question,
      market.slug,
      spaced(market.startDate),
      spaced(market.endDate),
      market.icon,
      market.negRisk,
      market.eventSlug,
      market.seriesSlug,
      market.tags,
      market.outcomes[0],
      market.outcomes[1],
      market.groupItemTitle,
      market.eventTitle,
      market.eventIcon,
    ],
    compactOrder(match, match.taker),
    match.makers.map((maker) => compactOrder(match, maker)),
  ]);
}

function compactOrder(match: FeedMatch, fill: FeedFill) {
  return [
    fill.side,
    compactTrader(fill.trader),
    match.market.outcomes[fill.outcomeIndex],
    fill.tokenId,
    String(fill.usdc),
    String(fill.shares),
    String(fill.fee),
    FEE_RATE_BPS,
  ];
}

function compactTrader(trader: FeedTrader) {
  const { address, name, profileImage, xUsername, createdAt } = trader;
  return [address, name, profileImage, xUsername, spaced(createdAt)];
}

function labelled(match: FeedMatch, matchId: string): string {
  const { market } = match;
  return JSON.stringify({
    tx_hash: match.txHash,
    match_id: matchId,
    timestamp: detectedAt(match),
    market: {
      id: String(BigInt(market.marketId)),
      condition_id: match.conditionId,
      question: market.question,
      slug: market.slug,
      start_date: spaced(market.startDate),
      end_date: spaced(market.endDate),
      icon: market.icon,
      neg_risk: market.negRisk,
      event_slug: market.eventSlug,
      series_slug: market.seriesSlug,
      tags: market.tags,
      outcome_1: market.outcomes[0],
      outcome_2: market.outcomes[1],
      group_item_title: market.groupItemTitle,
      event_title: market.eventTitle,
      event_icon: market.eventIcon,
      resolved_at: spaced(market.resolvedAt),
      winning_outcome: market.winningOutcome,
    },
    taker_order: labelledOrder(match, match.taker),
    maker_orders: match.makers.map((maker) => labelledOrder(match, maker)),
  });
}

function labelledOrder(match: FeedMatch, fill: FeedFill) {
  const { address, name, xUsername, profileImage, createdAt } = fill.trader;
  return {
    side: fill.side,
    usdc: String(fill.usdc),
    shares: String(fill.shares),
    trader: {
      address,
      name,
      x_username: xUsername,
      profile_image: profileImage,
      profile_created_at: spaced(createdAt),
    },
    outcome: match.market.outcomes[fill.outcomeIndex],
    fee: String(fill.fee),
    token_id: fill.tokenId,
    fee_rate_bps: FEE_RATE_BPS,
  };
}

function liveTransaction(match: FeedMatch, matchId: string): string {
  const { market } = match;
  return JSON.stringify({
    makers: match.makers.map((maker) => participant(match, maker)),
    market: {
      condition_id: match.conditionId,
      event_slug: market.eventSlug,
      group_item_title: market.groupItemTitle,
      id: exactNumber(market.marketId),
      neg_risk: market.negRisk,
      outcomes: market.outcomes,
      question: market.question,
      series_slug: market.seriesSlug,
      slug: market.slug,
      sports_market_type: market.sportsMarketType,
      start_date: market.startDate,
      tags_slug: market.tags,
      token_ids: market.tokenIds,
    },
    match_id: matchId,
    taker: participant(match, match.taker),
    timestamp: new Date(match.detectedAtMs).toISOString(),
    tx_hash: match.txHash,
  });
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

/** A JSON number with all digits: a market id may exceed 2^53. */
function exactNumber(digits: string): unknown {
  // TypeScript does not know `rawJSON` yet.
  return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(String(BigInt(digits)));
}

/** The order from calldata. Without calldata its capacity is "0", which no real order has. */
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

/** An order can contain any number of milliseconds; a number that is not a valid date becomes ''. */
function isoOf(timestampMs: number): string {
  const time = new Date(timestampMs);
  return timestampMs === 0 || Number.isNaN(time.getTime()) ? '' : time.toISOString();
}

/** `YYYY-MM-DD HH:MM:SS.mmmZ`. */
function detectedAt({ detectedAtMs }: { readonly detectedAtMs: number }): string {
  return spaced(new Date(detectedAtMs).toISOString());
}

/** The v1 feed has a space where ISO 8601 has T; '' stays ''. */
function spaced(iso: string): string {
  return iso.replace('T', ' ');
}
