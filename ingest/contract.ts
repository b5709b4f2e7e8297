/**
 * The events of the JetStream streams: final events of the chain (LEDGER, whose messages are in ledger.ts),
 * METADATA, and FEED. The projector and the api import only this file, ledger.ts and streams.ts of ingest. Amounts
 * are decimal strings in JSON and bigint in memory, in micro-units (1 USDC or 1 share = 1_000_000).
 */
import { z } from 'zod';
import { fnv1a } from '../infra/fnv.ts';

/** Number of partitions by market or trader. It can never change, because the tables depend on it. */
export const PARTITIONS = 16;

/** Largest amount of one fill in micro-units: 9 billion USDC, which is more than all pUSD and safe in JSON. */
export const AMOUNT_MAX = 9_007_199_254_740_991n;

/**
 * Partition of a market (by condition id) or of a trader (by address), 0 … PARTITIONS − 1. Uses FNV-1a 32 of the
 * lower-case text, as the NATS server's `{{partition}}` does.
 */
export function partitionOf(key: string): number {
  return fnv1a(key) % PARTITIONS;
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
const TokenId = z.string().regex(/^\d{1,78}$/);
export const Index = z.int().nonnegative();
const OutcomeIndex = z.union([z.literal(0), z.literal(1)]);
/** `YYYY-MM-DDTHH:MM:SSZ`, or '' if the source has none. */
const IsoSecond = z.string().regex(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$/);

export type Address = z.infer<typeof Address>;
export type Hash = z.infer<typeof Hash>;

/** One final execution of one order. `usdc` excludes the fee; `fee` is always USDC. */
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
  /** The log index of the event; for a match, that of its closing OrdersMatched. */
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

const Parts = z
  .string()
  .regex(/^\d{1,37}$/)
  .transform((text) => BigInt(text));

/** A condition's payout per outcome: numerators over their sum; [1,1] pays half each. */
export const Resolution = z.object({
  kind: z.literal('resolution'),
  ...ChainPosition,
  conditionId: Hash,
  payouts: z.tuple([Amount, Amount]),
  /** What both outcomes of a combo pay, in parts of 10^36, if `payouts` has to round it. */
  parts: z.tuple([Parts, Parts]).optional(),
  /** Number among the results of that log, if others come first: results of other markets may follow from one. */
  part: Index.optional(),
});
export type Resolution = z.infer<typeof Resolution>;

/**
 * What a log tells about a market. Its tokens are those of its condition whose ids contain this collateral; a later one of a
 * condition replaces it. A market of protocol version 2 has none, because its id says its tokens.
 */
export const LedgerMarket = z.object({
  kind: z.literal('market'),
  ...ChainPosition,
  conditionId: Hash,
  collateral: Address.optional(),
  /** Of conversions, in 10,000ths, if this is question 0 of a neg-risk market with such a fee. */
  feeBips: Index.optional(),
  /** Of a combo, which pays the product of these tokens, in ascending order. */
  legs: z.array(TokenId).optional(),
  /** The condition of ConditionalTokens that this one of protocol version 2 continues. All events have that one's id. */
  legacyConditionId: Hash.optional(),
});
export type LedgerMarket = z.infer<typeof LedgerMarket>;

const SignedAmount = z
  .string()
  .regex(/^-?\d{1,16}$/)
  .transform((text) => BigInt(text));

/** Why shares moved without a fill; docs/pnl.md explains what each does to a position. */
export const MOVEMENT_REASONS = [
  'split',
  'merge',
  'redeem',
  'convert',
  'transfer',
  'refund',
  'unexplained',
] as const;

/**
 * Shares of a market that moved without a fill, for one trader. For each wallet and token of a transaction, what its
 * transfers moved equals its fills plus its movements.
 */
export const Movement = z.object({
  kind: z.literal('movement'),
  ...ChainPosition,
  /** Number among the movements of that log, from 0: a batch of transfers may be part of several. */
  part: Index,
  reason: z.enum(MOVEMENT_REASONS),
  conditionId: Hash,
  trader: Address,
  /** The receiver of a transfer, or the contract of an unexplained movement; else ''. */
  counterparty: Address.or(z.literal('')),
  /** Of the balances of outcome 0 and outcome 1. */
  change: z.tuple([SignedAmount, SignedAmount]),
  /** Paid to the trader, or by the trader if below 0; the value that a conversion has in this market; else 0. */
  usdc: SignedAmount,
  /**
   * Micro-USDC per share of outcome 0, rounded down: the payout of a resolved market, else the price of the newest final
   * match before. Null if there was none.
   */
  mark: Amount.nullable(),
});
export type Movement = z.infer<typeof Movement>;

/**
 * The kinds of events that LEDGER stores, by the name of their list in a block (docs/ledger.md). Each belongs to a
 * market. ingest/events decodes them, projector/fold books them.
 */
export const LEDGER_EVENTS = {
  matches: Match,
  resolutions: Resolution,
  markets: LedgerMarket,
  movements: Movement,
} as const;
export type EventList = keyof typeof LEDGER_EVENTS;
export type LedgerEvent = z.infer<(typeof LEDGER_EVENTS)[EventList]>;
/** The events that the exchanges and resolutions log. */
export type TradingEvent = Match | Resolution;

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

/** Whether a condition is of protocol version 2, and its markets are traded on an exchange of version 3. */
export { isStructured } from './events/structured-ids.ts';

/** Label of the winning outcome; '50-50' if both outcomes pay the same. */
export function winningOutcome(
  outcomes: readonly [string, string],
  payouts: readonly [bigint, bigint],
): string {
  if (payouts[0] === payouts[1]) return '50-50';
  return payouts[0] > payouts[1] ? outcomes[0] : outcomes[1];
}

/**
 * METADATA: listings of markets, profiles and balances of traders, as last observed, and balances of shares to compare. The newest observation of a
 * key wins, so repeated or reordered messages are harmless.
 *
 * Subjects are per partition, not per key. With a million keys, a nats-server 2.9 or 2.10 would need 220 MB at rest
 * and 980 MB while a fifth of them is replaced, and reading them back would take three times as long
 * (docs/decisions/0005-metadata.md).
 */

export const METADATA_STREAM = 'METADATA';
export const METADATA_SUBJECTS = 'metadata.>';
/** ClickHouse keeps older observations; ingest fetches a value again when it needs it. */
export const METADATA_AGE_MAX_MS = 30 * 24 * 3_600_000;

/** A market's metadata as last seen; a later listing of the same condition replaces it. */
export const Listing = z.object({
  kind: z.literal('listing'),
  conditionId: Hash,
  /** Numeric market id, decimal; '0' if the metadata API does not know the market. */
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

/** A trader's public profile as last seen; '' for fields that the owner did not set. */
export const Profile = z.object({
  kind: z.literal('profile'),
  address: Address,
  name: z.string(),
  profileImage: z.string(),
  xUsername: z.string(),
  createdAt: IsoSecond,
  takerTier: z.int().min(0).max(6),
  takerTierName: z.string(),
  /** Rolling 30-day weighted volume in USD; null until a public profile contained one. */
  weightedVolumeUsd: z.number().nullable(),
});
export type Profile = z.infer<typeof Profile>;

const BalanceAmount = z
  .string()
  .regex(/^\d{1,19}$/)
  .transform((text) => BigInt(text));

/**
 * pUSD balances of traders at the end of a block, in micro-pUSD. A message of its own for each would be four times as
 * large: most traders of a match need one.
 */
export const BalanceBatch = z.object({
  kind: z.literal('balances'),
  blockNumber: Index,
  balances: z.array(z.tuple([Address, BalanceAmount])),
});
export type BalanceBatch = z.infer<typeof BalanceBatch>;

/** Balances of both outcomes of a market at the end of a block, read from the chain for a sample of the traders. */
export const ShareBalances = z.object({
  kind: z.literal('share_balances'),
  blockNumber: Index,
  /** The movements of all blocks from here to `blockNumber` were read. */
  coveredFrom: Index,
  /** Trader, condition id, and micro-shares of outcome 0 and outcome 1. */
  balances: z.array(z.tuple([Address, Hash, BalanceAmount, BalanceAmount])),
});
export type ShareBalances = z.infer<typeof ShareBalances>;

export const MetadataEvent = z.discriminatedUnion('kind', [
  Listing,
  Profile,
  BalanceBatch,
  ShareBalances,
]);
export type MetadataEvent = z.infer<typeof MetadataEvent>;

export const Observation = z.object({
  /** When ingest observed it, milliseconds since the epoch; the newest observation of a key wins. */
  observedAtMs: Index,
  event: MetadataEvent,
});
export type Observation = z.infer<typeof Observation>;

/** `metadata.<partition of the market or trader>.<kind>`, or `metadata.<kind>` of several balances. */
export function metadataSubject(event: MetadataEvent): string {
  if ('balances' in event) return `metadata.${event.kind}`;
  const key = event.kind === 'listing' ? event.conditionId : event.address;
  return `metadata.${partitionOf(key)}.${event.kind}`;
}

/** JSON text of an observation; bigint as a decimal string. */
export function encodeObservation(observation: Observation): string {
  return toJson(observation);
}

/** Parses a message of METADATA. Throws ZodError or SyntaxError if it is invalid. */
export function decodeObservation(data: Uint8Array): Observation {
  return Observation.parse(parseJson(data));
}

/**
 * FEED: each match when it is first seen, possibly while pending, and later whether it became final or was voided.
 */

export const FEED_STREAM = 'FEED';
export const FEED_SUBJECTS = 'feed.>';
export const FEED_MATCH_SUBJECT = 'feed.match';
export const FEED_VOID_SUBJECT = 'feed.void';
export const FEED_RESTORED_SUBJECT = 'feed.restored';
export const FEED_FINAL_SUBJECT = 'feed.final';

/** An order may offer any amount; only the filled amount is limited. */
const OrderAmount = z
  .string()
  .regex(/^\d{1,78}$/)
  .transform((text) => BigInt(text));

/** The order behind a fill, from calldata, with its original size. */
const Order = z.object({
  shares: OrderAmount,
  usdc: OrderAmount,
  signatureType: z.int().min(0).max(255),
  /** Milliseconds since the epoch; 0 when the order carries none. */
  timestampMs: z.int().nonnegative(),
});

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
  /** null if the calldata could not be read and only logs are known. */
  order: Order.nullable(),
});
export type FeedFill = z.infer<typeof FeedFill>;

/** A match when first seen: from the mempool, or from a block if the mempool missed it. */
export const FeedMatch = z.object({
  kind: z.literal('match'),
  txHash: Hash,
  conditionId: Hash,
  /** When ingest first saw the transaction, milliseconds since the epoch. */
  detectedAtMs: z.int().nonnegative(),
  /** False if it was first seen in a block. */
  pending: z.boolean(),
  /** Only if it was not final yet: the sender, and the nonce that another transaction may use instead. */
  sent: z.object({ sender: Address, nonce: Index }).optional(),
  market: Listing.omit({ kind: true, conditionId: true }).extend({
    /** '' while unresolved. */
    resolvedAt: IsoSecond,
    winningOutcome: z.string(),
  }),
  taker: FeedFill,
  makers: z.array(FeedFill),
});
export type FeedMatch = z.infer<typeof FeedMatch>;

/** Identifies a match of FEED, with the fields that filters use as they were when it was shown. */
const AboutMatch = {
  /** Message id of the match in FEED. */
  matchId: z.string(),
  txHash: Hash,
  conditionId: Hash,
  detectedAtMs: z.int().nonnegative(),
  traders: z.array(Address),
  tags: z.array(z.string()),
  seriesSlug: z.string(),
  /** `usdc` and `shares` are the taker's. */
  usdc: Amount,
  shares: Amount,
};
export type AboutMatch = z.infer<z.ZodObject<typeof AboutMatch>>;

/**
 * A match that was shown while pending and did not happen. FeedRestored may still follow `never_mined`. The other
 * reasons are read from final blocks and are definitive: `reverted`, `replaced` by another transaction of the same
 * nonce, `unmatched` = mined without this match.
 */
export const FeedVoid = z.object({
  kind: z.literal('void'),
  reason: z.enum(['reverted', 'replaced', 'never_mined', 'unmatched']),
  ...AboutMatch,
});
export type FeedVoid = z.infer<typeof FeedVoid>;
export type VoidReason = FeedVoid['reason'];
export const VOID_REASONS = FeedVoid.shape.reason.options;

/** A match that was voided as never mined and was mined after all; it is final. */
export const FeedRestored = z.object({ kind: z.literal('restored'), ...AboutMatch });
export type FeedRestored = z.infer<typeof FeedRestored>;

/** A shown match is in this final block. Analytics include it within moments. */
export const FeedFinal = z.object({
  kind: z.literal('final'),
  blockNumber: Index,
  ...AboutMatch,
});
export type FeedFinal = z.infer<typeof FeedFinal>;

/** The outcome of a match that was shown. */
export type FeedSequel = FeedVoid | FeedRestored | FeedFinal;

export const FeedEvent = z.discriminatedUnion('kind', [
  FeedMatch,
  FeedVoid,
  FeedRestored,
  FeedFinal,
]);
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

/** Message id of a later event of a shown match: at most one of each kind. */
export function feedSequelId(kind: FeedSequel['kind'], matchId: string): string {
  return `${kind}:${matchId}`;
}

/** Whether the message with this id is a match, not a sequel of one. */
export function isMatch(messageId: string): boolean {
  return messageId.startsWith('0x');
}

/** Whether the message with this id says that a match is final. */
export function isFinality(messageId: string): boolean {
  return messageId.startsWith(feedSequelId('final', ''));
}

/** JSON text of a FEED event; bigint as a decimal string. */
export function encodeFeedEvent(event: FeedEvent): string {
  return toJson(event);
}

/** Parses a FEED message. Throws ZodError or SyntaxError if it is invalid. */
export function decodeFeedEvent(data: Uint8Array): FeedEvent {
  return FeedEvent.parse(parseJson(data));
}

/** JSON text; bigint as a decimal string. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, item) => (typeof item === 'bigint' ? item.toString() : item));
}

const text = new TextDecoder();

function parseJson(data: Uint8Array): unknown {
  return JSON.parse(text.decode(data));
}
