/**
 * The forms of an event: of the order feed (specification 2.14) a match as the compact array and as
 * the labelled object, of a managed stream the live transaction (encode-transaction.ts), each as
 * JSON text on one line, and the event-stream blocks around them. Pure: the same match gives the
 * same text. Field order is part of the compact form and is kept in the labelled one.
 */
import type {
  FeedFill,
  FeedMatch,
  FeedRestored,
  FeedTrader,
  FeedVoid,
} from '../../ingest/contract-feed.ts';
import type { Position } from './cursor.ts';
import { encodeTransaction } from './encode-transaction.ts';

/** `tx` is the form of managed streams, the others are those of the order feed. */
export type Format = 'compact' | 'json' | 'tx';

/** Exchange V2 orders carry no fee rate. */
const FEE_RATE_BPS = '0';

/** `retry:` of the first block, milliseconds. */
const RETRY_MS = 2_000;

export const RETRY_BLOCK = retryBlock(RETRY_MS);
export const HEARTBEAT_BLOCK = ': heartbeat\n\n';

/** JSON of a match in the given form, without line breaks. */
export function encodeMatch(match: FeedMatch, format: Format): string {
  switch (format) {
    case 'compact':
      return compact(match);
    case 'json':
      return labelled(match);
    case 'tx':
      return encodeTransaction(match);
  }
}

/** An `order` or `tx` event: one data line, as JSON has no raw line breaks. */
export function matchBlock(at: Position, json: string, format: Format): string {
  return `id: ${at}\nevent: ${format === 'tx' ? 'tx' : 'order'}\ndata: ${json}\n\n`;
}

/**
 * A `void` or `restored` event: what became of a match that was delivered before it was final, from
 * the mempool or from a block. The same in all forms; clients that know only `order` or `tx` ignore
 * it.
 */
export function sequelBlock(at: Position, sequel: FeedVoid | FeedRestored): string {
  const json = JSON.stringify({
    tx_hash: sequel.txHash,
    match_id: sequel.matchId,
    ...(sequel.kind === 'void' ? { reason: sequel.reason } : {}),
    timestamp: detectedAt(sequel),
  });
  return `id: ${at}\nevent: ${sequel.kind}\ndata: ${json}\n\n`;
}

/** Tells how long a client that lost its connection waits, milliseconds. */
export function retryBlock(ms: number): string {
  return `retry: ${ms}\n\n`;
}

/** A block that only moves the client's position. */
export function positionBlock(at: Position): string {
  return `id: ${at}\n\n`;
}

/**
 * A `gap` event: what was asked for, and where delivery goes on.
 *
 * `resumeAt` is set where nothing more of the past is delivered, so that a client that is cut now
 * resumes there; otherwise the ids of what follows do that.
 */
export function gapBlock(requested: bigint, firstAvailable: Position, resumeAt?: Position): string {
  const id = resumeAt === undefined || resumeAt === 0 ? '' : `id: ${resumeAt}\n`;
  const json = `{"requested":${requested},"first_available":${firstAvailable}}`;
  return `${id}event: gap\ndata: ${json}\n\n`;
}

function compact(match: FeedMatch): string {
  const { market } = match;
  const afterId = [
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
  ];
  const head = JSON.stringify([match.txHash, detectedAt(match)]).slice(0, -1);
  // A market id may exceed 2^53: its digits go into the text as they are.
  const id = BigInt(match.market.marketId);
  const rest = JSON.stringify(afterId).slice(1);
  const orders = JSON.stringify([
    compactOrder(match, match.taker),
    match.makers.map((maker) => compactOrder(match, maker)),
  ]).slice(1);
  return `${head},[${id},${rest},${orders}`;
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

function labelled(match: FeedMatch): string {
  const { market } = match;
  return JSON.stringify({
    tx_hash: match.txHash,
    timestamp: detectedAt(match),
    market: {
      id: String(BigInt(market.marketId)),
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

/** `YYYY-MM-DD HH:MM:SS.mmmZ`. */
function detectedAt({ detectedAtMs }: { readonly detectedAtMs: number }): string {
  return spaced(new Date(detectedAtMs).toISOString());
}

/** The v1 feed writes a space where ISO 8601 has T; '' stays ''. */
function spaced(iso: string): string {
  return iso.replace('T', ' ');
}
