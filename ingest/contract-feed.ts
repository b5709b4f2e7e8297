/**
 * What ingest publishes to the JetStream stream FEED: each match when it is first seen, and what became of
 * one that was shown and did not happen. The api imports this file and contract.ts, and nothing else of
 * ingest. Amounts are as in contract.ts; a match of FEED may still be pending.
 */
import { z } from 'zod';
import { Address, Amount, Fill, Hash, Index, IsoSecond } from './contract.ts';
import { Listing, Profile } from './contract-metadata.ts';

export const FEED_STREAM = 'FEED';
export const FEED_SUBJECTS = 'feed.>';
export const FEED_MATCH_SUBJECT = 'feed.match';
export const FEED_VOID_SUBJECT = 'feed.void';
export const FEED_RESTORED_SUBJECT = 'feed.restored';

/** An order may offer any amount; what is filled of it is bounded. */
const OrderAmount = z
  .string()
  .regex(/^\d{1,78}$/)
  .transform((text) => BigInt(text));

/** The order behind a fill, from calldata: original capacity and notional. */
export const Order = z.object({
  shares: OrderAmount,
  usdc: OrderAmount,
  signatureType: z.int().min(0).max(255),
  /** Milliseconds since the epoch; 0 when the order carries none. */
  timestampMs: z.int().nonnegative(),
});
export type Order = z.infer<typeof Order>;

const FeedTrader = Profile.pick({
  address: true,
  name: true,
  profileImage: true,
  xUsername: true,
  createdAt: true,
});
export type FeedTrader = z.infer<typeof FeedTrader>;

const FeedFill = Fill.omit({ logIndex: true, trader: true, isTaker: true }).extend({
  trader: FeedTrader,
  /** null where only logs were seen: a block's match whose calldata could not be read. */
  order: Order.nullable(),
});
export type FeedFill = z.infer<typeof FeedFill>;

/** A match when first seen: from the mempool, or from a block where the mempool missed it. */
export const FeedMatch = z.object({
  kind: z.literal('match'),
  txHash: Hash,
  conditionId: Hash,
  /** Milliseconds since the epoch: when we saw the transaction. */
  detectedAtMs: z.int().nonnegative(),
  /** False: it was first seen in a block. */
  pending: z.boolean(),
  /** Of a match that was not final: who sends it, and the nonce that another call may use up instead. */
  sent: z.object({ sender: Address, nonce: Index }).optional(),
  market: Listing.omit({ kind: true, conditionId: true }).extend({
    /** '' while unresolved; both of the market's outcome labels are in `outcomes`. */
    resolvedAt: IsoSecond,
    winningOutcome: z.string(),
  }),
  taker: FeedFill,
  makers: z.array(FeedFill),
});
export type FeedMatch = z.infer<typeof FeedMatch>;

/** Names a match of FEED and carries what its filters looked at, as it was when it was shown. */
const AboutMatch = {
  /** Message id of the match in FEED. */
  matchId: z.string(),
  txHash: Hash,
  conditionId: Hash,
  detectedAtMs: z.int().nonnegative(),
  traders: z.array(Address),
  tags: z.array(z.string()),
  seriesSlug: z.string(),
  /** Of the taker. */
  usdc: Amount,
  shares: Amount,
};

/**
 * A match that was shown while pending and did not happen. `never_mined` may still be followed by
 * FeedRestored; the other reasons are read from final blocks and are the last word: `reverted`,
 * `replaced` by another transaction of the same nonce, `unmatched` = mined without this match.
 */
export const FeedVoid = z.object({
  kind: z.literal('void'),
  reason: z.enum(['reverted', 'replaced', 'never_mined', 'unmatched']),
  ...AboutMatch,
});
export type FeedVoid = z.infer<typeof FeedVoid>;
export type VoidReason = FeedVoid['reason'];

/** A match that was voided as never mined and then was mined after all; it is final. */
export const FeedRestored = z.object({ kind: z.literal('restored'), ...AboutMatch });
export type FeedRestored = z.infer<typeof FeedRestored>;

export const FeedEvent = z.discriminatedUnion('kind', [FeedMatch, FeedVoid, FeedRestored]);
export type FeedEvent = z.infer<typeof FeedEvent>;

/**
 * Message id of a match in FEED, the same from calldata and from logs. `ordinal` counts matches
 * of the same taker order inside one transaction, from 0.
 */
export function feedMessageId(txHash: string, takerOrderHash: string, ordinal: number): string {
  return ordinal === 0
    ? `${txHash}:${takerOrderHash}`
    : `${txHash}:${takerOrderHash}:${ordinal + 1}`;
}

/** Message id of what is told of a shown match later: at most one of each kind. */
export function feedSequelId(kind: 'void' | 'restored', matchId: string): string {
  return `${kind}:${matchId}`;
}

/** JSON text of a FEED event; bigint as a decimal string. */
export function encodeFeedEvent(event: FeedEvent): string {
  return JSON.stringify(event, (_key, value) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

const text = new TextDecoder();

/** Parses a FEED message. Throws ZodError or SyntaxError where it is none of ours. */
export function decodeFeedEvent(data: Uint8Array): FeedEvent {
  return FeedEvent.parse(JSON.parse(text.decode(data)));
}
