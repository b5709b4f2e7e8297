/**
 * Reads and writes METADATA: every new or changed listing and profile, and balances. After a restart, ingest reads
 * listings and profiles back, so that it neither fetches nor publishes them again.
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Nats, streamState } from '../infra/nats/connection.ts';
import {
  firstMessageAtOrAfter,
  lastMessage,
  readRange,
  type StreamMessage,
} from '../infra/nats/reader.ts';
import type { StreamWriter } from '../infra/nats/writer.ts';
import type { Resolution } from './contract.ts';
import {
  decodeObservation,
  encodeObservation,
  METADATA_STREAM,
  type MetadataEvent,
  metadataSubject,
} from './contract.ts';
import {
  type Block,
  decodeRange,
  LEDGER_STREAM,
  messageAt,
  newestMessage,
  RESOLUTIONS_SUBJECT,
  storedMessages,
} from './ledger.ts';

/** Limits the duration of a restart; older metadata is fetched again when needed. */
const RESTORED_MESSAGES_MAX = 5_000_000;
const READ_MESSAGES = 10_000;
/** After a catch-up, LEDGER has messages of up to 100 KB. */
const READ_LEDGER_MESSAGES = 200;
const PROGRESS_MS = 2_000;

/**
 * How far back resolutions are read: about a day of Polygon, because few trades happen in markets that were resolved
 * before that.
 */
const RESOLUTION_BLOCKS = 43_200;

const LISTINGS_SUBJECT = 'metadata.*.listing';
const PROFILES_SUBJECT = 'metadata.*.profile';
/** Responses of the metadata API may be this late. */
const LATE_MS = 3_600_000;

/** Stores an event in METADATA, with the current time as its observation time. Rejects with the errors of `append`. */
export async function storeMetadata(writer: StreamWriter, event: MetadataEvent): Promise<void> {
  const data = encodeObservation({ observedAtMs: Date.now(), event });
  await writer.append({ id: randomUUID(), subject: metadataSubject(event), data });
}

/**
 * Calls `onEvent` with the listings and profiles of METADATA and the recent resolutions of LEDGER, oldest first.
 */
export async function restoreMetadata(
  nats: Nats,
  logger: Logger,
  onEvent: (event: MetadataEvent | Resolution) => void,
): Promise<void> {
  const startedAt = performance.now();
  const seconds = () => Math.round((performance.now() - startedAt) / 100) / 10;
  let loggedAt = startedAt;
  let events = 0;
  const restore = async (
    read: (from: number) => Promise<readonly StreamMessage[]>,
    first: number,
    eventsOf: (message: StreamMessage) => readonly (MetadataEvent | Resolution)[],
  ) => {
    for (let messages = await read(first); messages.length > 0; ) {
      for (const event of messages.flatMap(eventsOf)) {
        events += 1;
        onEvent(event);
      }
      messages = await read((messages.at(-1)?.sequence ?? 0) + 1);
      if (performance.now() - loggedAt < PROGRESS_MS) continue;
      loggedAt = performance.now();
      logger.info({ events, seconds: seconds() }, 'restoring metadata');
    }
  };
  const { lastSequence } = await streamState(nats, METADATA_STREAM);
  const first = Math.max(1, lastSequence - RESTORED_MESSAGES_MAX);
  for (const subject of [LISTINGS_SUBJECT, PROFILES_SUBJECT]) {
    await restore(
      (from) => readRange(nats, METADATA_STREAM, from, READ_MESSAGES, subject),
      first,
      ({ data }) => [decodeObservation(data).event],
    );
  }
  await restore(
    (from) => readRange(nats, LEDGER_STREAM, from, READ_LEDGER_MESSAGES, RESOLUTIONS_SUBJECT),
    await recentSequence(nats),
    (message) => decodeRange(message).blocks.flatMap(({ resolutions }) => resolutions),
  );
  if (events > 0) logger.info({ events, seconds: seconds() }, 'metadata restored');
}

/**
 * Blocks of LEDGER whose markets and traders an earlier process may have left without metadata, because it ended before
 * the metadata API responded: those since LATE_MS before the newest listing or profile, at most RESOLUTION_BLOCKS.
 */
export async function* unansweredBlocks(nats: Nats): AsyncGenerator<Block> {
  const newest = await Promise.all(
    [LISTINGS_SUBJECT, PROFILES_SUBJECT].map((one) => lastMessage(nats, METADATA_STREAM, one)),
  );
  const storedMs = Math.max(...newest.map((message) => message?.timestampMs ?? 0));
  const sinceMs = Math.max(0, storedMs - LATE_MS);
  const since = await firstMessageAtOrAfter(nats, LEDGER_STREAM, sinceMs);
  if (since === undefined) return;
  const sequence = Math.max(since.sequence, await recentSequence(nats));
  for await (const { range } of storedMessages(nats, { sequence })) {
    if (range.kind === 'blocks') yield* range.blocks;
  }
}

/** The LEDGER message of the block RESOLUTION_BLOCKS before the newest one. */
async function recentSequence(nats: Nats): Promise<number> {
  const newest = await newestMessage(nats);
  if (newest === undefined) return 1;
  const message = await messageAt(nats, newest.range.to - RESOLUTION_BLOCKS);
  return message?.sequence ?? 1;
}
