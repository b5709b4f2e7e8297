/**
 * The events of the JetStream stream METADATA: listings of markets, profiles and balances of traders,
 * as last observed. They are not facts of the chain: a later observation of the same key replaces an
 * earlier one, so a repeated or reordered message does no harm.
 *
 * Subjects are per partition, not per key: a million keys cost a server of 2.9 or 2.10 between 220 MB
 * at rest and 970 MB while a fifth of them is replaced, and reading them back takes three times as
 * long (docs/decisions/0005-metadata.md).
 */
import { z } from 'zod';
import { Address, Hash, Index, IsoSecond, partitionOf, TokenId } from './contract.ts';

export const METADATA_STREAM = 'METADATA';
export const METADATA_SUBJECTS = 'metadata.>';
/** ClickHouse keeps what is older; ingest fetches it again when it is used. */
export const METADATA_AGE_MAX_MS = 30 * 24 * 3_600_000;

/** A market's metadata as last seen; a later listing of the same condition replaces it. */
export const Listing = z.object({
  kind: z.literal('listing'),
  conditionId: Hash,
  /** Numeric market id, decimal; '0' while the metadata API does not know the market. */
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

/** pUSD balance of a trader at the end of a block, micro-pUSD. */
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

export const MetadataEvent = z.discriminatedUnion('kind', [Listing, Profile, Balance]);
export type MetadataEvent = z.infer<typeof MetadataEvent>;

export const Observation = z.object({
  /** When ingest learned it, milliseconds since the epoch: the newest one of a key is valid. */
  observedAtMs: Index,
  event: MetadataEvent,
});
export type Observation = z.infer<typeof Observation>;

/** `metadata.<partition of the market or trader>.<kind>` */
export function metadataSubject(event: MetadataEvent): string {
  const key = event.kind === 'listing' ? event.conditionId : event.address;
  return `metadata.${partitionOf(key)}.${event.kind}`;
}

/** JSON text of an observation; bigint as a decimal string. */
export function encodeObservation(observation: Observation): string {
  return JSON.stringify(observation, (_key, value) =>
    typeof value === 'bigint' ? value.toString() : value,
  );
}

const text = new TextDecoder();

/** Parses a message of METADATA. Throws ZodError or SyntaxError if it is not ours. */
export function decodeObservation(data: Uint8Array): Observation {
  return Observation.parse(JSON.parse(text.decode(data)));
}
