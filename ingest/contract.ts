/**
 * The final events of the chain that LEDGER holds; ledger.ts has its messages, contract-feed.ts the events of FEED,
 * contract-metadata.ts those of METADATA. The projector and the api import these files and nothing else of ingest.
 * Amounts are decimal strings in JSON and bigint in memory, in micro-units (1 USDC or 1 share = 1_000_000).
 */
import { z } from 'zod';

/** Number of partitions by market or trader; fixed for the life of the tables. */
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

export const Amount = z
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
export const TokenId = z.string().regex(/^\d{1,78}$/);
export const Index = z.int().nonnegative();
const OutcomeIndex = z.union([z.literal(0), z.literal(1)]);
/** `YYYY-MM-DDTHH:MM:SSZ`, or '' where the source has none. */
export const IsoSecond = z.string().regex(/^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ)?$/);

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

/** Label of the winning outcome: '50-50' where both outcomes are paid alike. */
export function winningOutcome(
  outcomes: readonly [string, string],
  payouts: readonly [bigint, bigint],
): string {
  if (payouts[0] === payouts[1]) return '50-50';
  return payouts[0] > payouts[1] ? outcomes[0] : outcomes[1];
}
