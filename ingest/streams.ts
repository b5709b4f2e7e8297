/**
 * The JetStream streams that ingest writes. Whichever process starts first creates them. Polygon has about 10 matches
 * a second; a match takes about 4 KB in FEED, its final event included, and 300 bytes in LEDGER.
 */
import type { Nats } from '../infra/nats/connection.ts';
import { createStream, ensureStream, type StreamSpec } from '../infra/nats/streams.ts';
import {
  FEED_STREAM,
  FEED_SUBJECTS,
  METADATA_AGE_MAX_MS,
  METADATA_STREAM,
  METADATA_SUBJECTS,
} from './contract.ts';
import { LEDGER_MESSAGE_BYTES_MAX, LEDGER_STREAM, LEDGER_SUBJECTS } from './ledger/ledger.ts';

/** Bucket for the state of ingest: operators, the first block of the feed. */
export const INGEST_BUCKET = 'ingest';
/** Key of the first block whose matches FEED shows. It is deleted when LEDGER begins, and decided again. */
export const FEED_START_KEY = 'feed_start_block';
/** Key of the block from which on all movements were read. It is deleted when they are not. */
export const MOVEMENTS_START_KEY = 'movements_start_block';

const FEED_HOURS_DEFAULT = 72;

/**
 * LEDGER (kept forever, or until its older months are archived), FEED (`feedHours`: how far back a cursor can resume) and
 * METADATA (30 days).
 */
function specsOf(replicas: number, feedHours: number): readonly StreamSpec[] {
  return [
    {
      name: LEDGER_STREAM,
      subjects: [LEDGER_SUBJECTS],
      maxMessageBytes: LEDGER_MESSAGE_BYTES_MAX,
      replicas,
    },
    {
      name: FEED_STREAM,
      subjects: [FEED_SUBJECTS],
      maxAgeMs: feedHours * 3_600_000,
      replicas,
    },
    {
      name: METADATA_STREAM,
      subjects: [METADATA_SUBJECTS],
      maxAgeMs: METADATA_AGE_MAX_MS,
      replicas,
    },
  ];
}

/** For ingest: creates the streams, or updates their configuration. Throws the errors of `ensureStream`. */
export async function ensureStreams(
  nats: Nats,
  replicas: number,
  feedHours = FEED_HOURS_DEFAULT,
): Promise<void> {
  for (const spec of specsOf(replicas, feedHours)) await ensureStream(nats, spec);
}

/**
 * For the other processes: creates the streams that do not exist, and leaves the others as they are. An update with a
 * shorter FEED_HOURS would delete events. Throws the errors of `createStream`.
 */
export async function createStreams(nats: Nats, replicas: number): Promise<void> {
  for (const spec of specsOf(replicas, FEED_HOURS_DEFAULT)) await createStream(nats, spec);
}
