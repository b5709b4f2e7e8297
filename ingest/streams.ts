/**
 * The JetStream streams that ingest writes. Whichever process starts first creates them. Polygon has about 10 matches
 * a second; a match takes about 4 KB in FEED, its final event included, and 300 bytes in LEDGER.
 */
import type { Nats } from '../infra/nats/connection.ts';
import { ensureStream } from '../infra/nats/streams.ts';
import {
  FEED_STREAM,
  FEED_SUBJECTS,
  METADATA_AGE_MAX_MS,
  METADATA_STREAM,
  METADATA_SUBJECTS,
} from './contract.ts';
import { LEDGER_MESSAGE_BYTES_MAX, LEDGER_STREAM, LEDGER_SUBJECTS } from './ledger.ts';

/** Bucket for the state of ingest: operators, the first block of the feed. */
export const INGEST_BUCKET = 'ingest';
/** Key of the first block whose matches FEED shows. It is deleted when LEDGER begins, and decided again. */
export const FEED_START_KEY = 'feed_start_block';

/**
 * Creates LEDGER (kept forever, or until its older months are archived), FEED (`feedHours`: how far back a cursor can
 * resume) and METADATA (30 days), or updates their configuration. Throws the errors of `ensureStream`.
 */
export async function ensureStreams(nats: Nats, replicas: number, feedHours = 72): Promise<void> {
  await ensureStream(nats, {
    name: LEDGER_STREAM,
    subjects: [LEDGER_SUBJECTS],
    maxMessageBytes: LEDGER_MESSAGE_BYTES_MAX,
    replicas,
  });
  await ensureStream(nats, {
    name: FEED_STREAM,
    subjects: [FEED_SUBJECTS],
    maxAgeMs: feedHours * 3_600_000,
    replicas,
  });
  await ensureStream(nats, {
    name: METADATA_STREAM,
    subjects: [METADATA_SUBJECTS],
    maxAgeMs: METADATA_AGE_MAX_MS,
    replicas,
  });
}
