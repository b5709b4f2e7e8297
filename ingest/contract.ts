/**
 * What ingest publishes: the events of the two JetStream streams, their subjects, message ids
 * and codec. The projector and the api import this file and nothing else of ingest.
 * Amounts are decimal strings on the wire and bigint in memory, in micro-units (1 USDC or
 * 1 share = 1_000_000). Everything in LEDGER is final; a FEED match may still be pending.
 */
import { z } from 'zod';
import { parseMatch } from './match-parser.ts';

export const LEDGER_STREAM = 'LEDGER';
export const FEED_STREAM = 'FEED';
export const LEDGER_SUBJECTS = 'ledger.>';
export const FEED_SUBJECTS = 'feed.>';
export const BLOCK_SUBJECT = 'ledger.block';
export const REFUSED_SUBJECT = 'ledger.refused';
export const FEED_MATCH_SUBJECT = 'feed.match';
export const FEED_VOID_SUBJECT = 'feed.void';
export const FEED_RESTORED_SUBJECT = 'feed.restored';

/** Number of LEDGER partitions; fixed for the life of a stream. */
export const PARTITIONS = 16;

/** Largest amount of one fill in micro-units: 9 billion USDC, more than all pUSD; JSON-safe. */
export const AMOUNT_MAX = 9_007_199_254_740_991n;

/**
 * Partition of a market (by condition id) or of a trader (by address), 0 … PARTITIONS − 1:
 * FNV-1a 32 of the lower-case text, the server's own `{{partition}}` hash.
 */
export function partitionOf(key: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i++) {
    hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193) >>> 0;
  }
  return hash % PARTITIONS;
}

export type MicroUsdc = bigint & { readonly unit?: 'micro-USDC' };
export type MicroShares = bigint & { readonly unit?: 'micro-shares' };

const Amount = z
  .string()
  .regex(/^\d{1,16}$/)
  .transform((text) => BigInt(text));
export const Address = z
  .string()
  .regex(/^0x[0-9a-f]{40}$/)
  .transform((text) => text as `0x${string}`);
export const Hash = z
  .string()
  .regex(/^0x[0-9a-f]{64}$/)
  .transform((text) => text as `0x${string}`);
/** An order may offer any amount; what is filled of it is bounded. */
const OrderAmount = z
  .string()
  .regex(/^\d{1,78}$/)
  .transform((text) => BigInt(text));
const TokenId = z.string().regex(/^\d{1,78}$/);
const Index = z.int().nonnegative();
const OutcomeIndex = z.union([z.literal(0), z.literal(1)]);
/** `YYYY-MM-DDTHH:MM:SSZ`, or '' where the source has none. */
const IsoSecond = z.string().regex(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$/);

export type Address = z.infer<typeof Address>;
export type Hash = z.infer<typeof Hash>;

/** One execution of one order, as final. `usdc` excludes the fee; `fee` is always USDC. */
export const Fill = z.object({
  logIndex: Index,
  orderHash: Hash,
  trader: Address,
  isTaker: z.boolean(),
  side: z.enum(['BUY', 'SELL']),
  outcomeIndex: OutcomeIndex,
  tokenId: TokenId,
  shares: Amount,
  usdc: Amount,
  fee: Amount,
});
export type Fill = z.infer<typeof Fill>;

const ChainPosition = {
  blockNumber: Index,
  /** Block timestamp, seconds since the epoch. */
  blockTime: Index,
  txHash: Hash,
  /** The event's own place: of a match, the log index of its closing OrdersMatched. */
  logIndex: Index,
};

/** One `matchOrders` execution; `fills` in log order (makers first, the taker last). */
export const Match = z.object({
  kind: z.literal('match'),
  ...ChainPosition,
  exchange: Address,
  conditionId: Hash,
  fills: z.array(Fill).min(1),
});
export type Match = z.infer<typeof Match>;

/** A condition's payout per outcome: numerators over their sum; [1,1] pays half each. */
export const Resolution = z.object({
  kind: z.literal('resolution'),
  ...ChainPosition,
  conditionId: Hash,
  payouts: z.tuple([Amount, Amount]),
});
export type Resolution = z.infer<typeof Resolution>;

/** A market's metadata as last seen; a later listing of the same condition replaces it. */
export const Listing = z.object({
  kind: z.literal('listing'),
  conditionId: Hash,
  /** Numeric market id, decimal; '0' while the catalogue does not know the market. */
  marketId: z.string().regex(/^\d{1,19}$/),
  question: z.string(),
  slug: z.string(),
  startDate: IsoSecond,
  endDate: IsoSecond,
  icon: z.string(),
  negRisk: z.boolean(),
  eventSlug: z.string(),
  eventTitle: z.string(),
  eventIcon: z.string(),
  seriesSlug: z.string(),
  tags: z.array(z.string()),
  outcomes: z.tuple([z.string(), z.string()]),
  tokenIds: z.tuple([TokenId, TokenId]),
  groupItemTitle: z.string(),
  sportsMarketType: z.string(),
});
export type Listing = z.infer<typeof Listing>;

/** A trader's public profile as last seen; '' where the owner set nothing. */
export const Profile = z.object({
  kind: z.literal('profile'),
  address: Address,
  name: z.string(),
  profileImage: z.string(),
  xUsername: z.string(),
  createdAt: IsoSecond,
  takerTier: z.int().min(0).max(6),
  takerTierName: z.string(),
  /** Rolling 30-day weighted volume in USD; null until the public profile gave one. */
  weightedVolumeUsd: z.number().nullable(),
});
export type Profile = z.infer<typeof Profile>;

/** pUSD balance of a trader at the end of a block. */
export const Balance = z.object({
  kind: z.literal('balance'),
  address: Address,
  balance: z
    .string()
    .regex(/^\d{1,19}$/)
    .transform((text) => BigInt(text)),
  blockNumber: Index,
});
export type Balance = z.infer<typeof Balance>;

/** Closes a final block: everything of it is in LEDGER before this. The cursor after a restart. */
export const BlockMarker = z.object({
  kind: z.literal('block'),
  blockNumber: Index,
  blockHash: Hash,
  blockTime: Index,
  matches: Index,
  fills: Index,
  resolutions: Index,
});
export type BlockMarker = z.infer<typeof BlockMarker>;

/** A log or a call that could not be decoded: counted, kept raw, never folded. */
export const Refused = z.object({
  kind: z.literal('refused'),
  reason: z.string(),
  blockNumber: Index,
  txHash: Hash,
  logIndex: Index,
  detail: z.string(),
});
export type Refused = z.infer<typeof Refused>;

export const LedgerEvent = z.discriminatedUnion('kind', [
  Match,
  Resolution,
  Listing,
  Profile,
  Balance,
  BlockMarker,
  Refused,
]);
export type LedgerEvent = z.infer<typeof LedgerEvent>;

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

/** Label of the winning outcome: '50-50' where both outcomes are paid alike. */
export function winningOutcome(
  outcomes: readonly [string, string],
  payouts: readonly [bigint, bigint],
): string {
  if (payouts[0] === payouts[1]) return '50-50';
  return payouts[0] > payouts[1] ? outcomes[0] : outcomes[1];
}

/** Subject of a LEDGER event: by market, by trader, or one for the whole chain. */
export function ledgerSubject(event: LedgerEvent): string {
  switch (event.kind) {
    case 'match':
    case 'resolution':
    case 'listing':
      return `ledger.${partitionOf(event.conditionId)}.${event.kind}`;
    case 'profile':
    case 'balance':
      return `ledger.${partitionOf(event.address)}.${event.kind}`;
    case 'block':
      return BLOCK_SUBJECT;
    case 'refused':
      return REFUSED_SUBJECT;
  }
}

/**
 * Message id of a chain fact: the same fact always has the same id. Metadata is identified by
 * its content (`version`), so that an unchanged listing is not stored again at once.
 */
export function ledgerMessageId(event: LedgerEvent, version: string): string {
  switch (event.kind) {
    case 'match':
    case 'resolution':
    case 'refused':
      return `${event.kind}:${event.txHash}:${event.logIndex}`;
    case 'listing':
      return `listing:${event.conditionId}:${version}`;
    case 'profile':
      return `profile:${event.address}:${version}`;
    case 'balance':
      return `balance:${event.address}:${event.blockNumber}`;
    case 'block':
      return `block:${event.blockNumber}`;
  }
}

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

/** JSON text of an event; bigint as a decimal string. */
export function encodeEvent(event: LedgerEvent | FeedEvent): string {
  if (event.kind === 'match' && 'fills' in event) return encodeMatch(event);
  return JSON.stringify(event, (_key, value) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

/** Without a replacer, which costs three times as much: matches come by the million. */
function encodeMatch(match: Match): string {
  const fills = match.fills.map((fill) => ({
    ...fill,
    shares: fill.shares.toString(),
    usdc: fill.usdc.toString(),
    fee: fill.fee.toString(),
  }));
  return JSON.stringify({ ...match, fills });
}

const text = new TextDecoder();

/** Parses a LEDGER message. Throws ZodError, MalformedMatchError or SyntaxError if it is not ours. */
export function decodeLedgerEvent(data: Uint8Array): LedgerEvent {
  const event: unknown = JSON.parse(text.decode(data));
  return isMatch(event) ? parseMatch(event) : LedgerEvent.parse(event);
}

function isMatch(event: unknown): boolean {
  return typeof event === 'object' && event !== null && 'kind' in event && event.kind === 'match';
}

/** Parses a FEED message. Throws ZodError or SyntaxError where it is none of ours. */
export function decodeFeedEvent(data: Uint8Array): FeedEvent {
  return FeedEvent.parse(JSON.parse(text.decode(data)));
}
