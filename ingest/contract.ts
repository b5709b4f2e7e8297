/**
 * What ingest publishes to the JetStream stream LEDGER: events, subjects, message ids and codec; FEED's are
 * in contract-feed.ts, METADATA's in contract-metadata.ts. The projector and the api import these files and nothing else of ingest.
 * Amounts are decimal strings on the wire and bigint in memory, in micro-units (1 USDC or
 * 1 share = 1_000_000). Everything in LEDGER is final.
 */
import { z } from 'zod';
import { parseMatch } from './match-parser.ts';

export const LEDGER_STREAM = 'LEDGER';
export const LEDGER_SUBJECTS = 'ledger.>';
export const BLOCK_SUBJECT = 'ledger.block';
export const REFUSED_SUBJECT = 'ledger.refused';

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

export const LedgerEvent = z.discriminatedUnion('kind', [Match, Resolution, BlockMarker, Refused]);
export type LedgerEvent = z.infer<typeof LedgerEvent>;

/** Label of the winning outcome: '50-50' where both outcomes are paid alike. */
export function winningOutcome(
  outcomes: readonly [string, string],
  payouts: readonly [bigint, bigint],
): string {
  if (payouts[0] === payouts[1]) return '50-50';
  return payouts[0] > payouts[1] ? outcomes[0] : outcomes[1];
}

/** Subject of a LEDGER event: by market, or one for the whole chain. */
export function ledgerSubject(event: LedgerEvent): string {
  switch (event.kind) {
    case 'match':
    case 'resolution':
      return `ledger.${partitionOf(event.conditionId)}.${event.kind}`;
    case 'block':
      return BLOCK_SUBJECT;
    case 'refused':
      return REFUSED_SUBJECT;
  }
}

/** Message id of a chain fact: the same fact always has the same id. */
export function ledgerMessageId(event: LedgerEvent): string {
  switch (event.kind) {
    case 'match':
    case 'resolution':
    case 'refused':
      return `${event.kind}:${event.txHash}:${event.logIndex}`;
    case 'block':
      return `block:${event.blockNumber}`;
  }
}

/** JSON text of an event; bigint as a decimal string. */
export function encodeEvent(event: LedgerEvent): string {
  if (event.kind === 'match') return encodeMatch(event);
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
