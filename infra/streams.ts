/**
 * The JetStream streams and buckets that the service needs, created by whichever process comes
 * first. Sizes: a match is about 2 KB in FEED and 1 KB in LEDGER; Polygon has about 10 a second.
 */
import { LEDGER_STREAM, LEDGER_SUBJECTS } from '../ingest/contract.ts';
import { FEED_STREAM, FEED_SUBJECTS } from '../ingest/contract-feed.ts';
import {
  METADATA_AGE_MAX_MS,
  METADATA_STREAM,
  METADATA_SUBJECTS,
} from '../ingest/contract-metadata.ts';
import type { Nats } from './nats/connection.ts';
import { ensureStream } from './nats/streams.ts';

/** How far back a feed position can be resumed. */
const FEED_AGE_MAX_MS = 72 * 3_600_000;

/** API keys by SHA-256 of the key. */
export const KEYS_BUCKET = 'keys';
/** Managed streams. */
export const STREAMS_BUCKET = 'streams';
/** Open event streams, one record for each api process. */
export const SESSIONS_BUCKET = 'sessions';
/** Event streams that ended. */
export const SESSIONS_STREAM = 'SESSIONS';
/** Leases of the projectors, by partition. */
export const PROJECTORS_BUCKET = 'projectors';
/** What ingest must remember beside the streams: operators, the first block of the feed. */
export const INGEST_BUCKET = 'ingest';

/**
 * Creates LEDGER (kept for ever), FEED (72 hours) and METADATA (30 days), or checks that they are as
 * asked for.
 */
export async function ensureStreams(nats: Nats, replicas: number): Promise<void> {
  await ensureStream(nats, { name: LEDGER_STREAM, subjects: [LEDGER_SUBJECTS], replicas });
  await ensureStream(nats, {
    name: FEED_STREAM,
    subjects: [FEED_SUBJECTS],
    maxAgeMs: FEED_AGE_MAX_MS,
    replicas,
  });
  await ensureStream(nats, {
    name: METADATA_STREAM,
    subjects: [METADATA_SUBJECTS],
    maxAgeMs: METADATA_AGE_MAX_MS,
    replicas,
  });
}
