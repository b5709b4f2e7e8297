/**
 * Reads and writes METADATA: every new or changed listing and profile, and balances. After a restart, ingest reads
 * listings and profiles back, so that it neither fetches nor publishes them again.
 */
import { randomUUID } from 'node:crypto';
import type { Logger } from 'pino';
import { type Nats, streamState } from '../../infra/nats/connection.ts';
import { firstMessageAtOrAfter, lastMessage, readRange } from '../../infra/nats/reader.ts';
import type { StreamWriter } from '../../infra/nats/writer.ts';
import type { Resolution } from '../contract.ts';
import {
  decodeObservation,
  encodeObservation,
  METADATA_STREAM,
  type MetadataEvent,
  metadataSubject,
} from '../contract.ts';
import {
  type Block,
  decodeRange,
  eventsOf,
  LEDGER_STREAM,
  messageAt,
  newestMessage,
  RESOLUTIONS_SUBJECT,
  storedMessages,
} from '../ledger/ledger.ts';

/** Read at a time, from the newest messages to the oldest. */
const READ_SEQUENCES = 10_000;
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
 * Calls `onEvent` with the newest listings and profiles of METADATA, up to these numbers, and the recent resolutions of
 * LEDGER: one event per key, the most recently changed last.
 */
export async function restoreMetadata(
  nats: Nats,
  logger: Logger,
  most: { readonly listings: number; readonly profiles: number },
  onEvent: (event: MetadataEvent | Resolution) => void,
): Promise<void> {
  const startedAt = performance.now();
  const seconds = () => Math.round((performance.now() - startedAt) / 100) / 10;
  let loggedAt = startedAt;
  let events = 0;
  const progress = (count: number) => {
    events += count;
    if (performance.now() - loggedAt < PROGRESS_MS) return;
    loggedAt = performance.now();
    logger.info({ events, seconds: seconds() }, 'restoring metadata');
  };
  for (const [subject, count] of [
    [LISTINGS_SUBJECT, most.listings],
    [PROFILES_SUBJECT, most.profiles],
  ] as const) {
    for (const event of await newestEvents(nats, subject, count, progress)) onEvent(event);
  }
  for (let from = await recentSequence(nats); ; ) {
    const messages = await readRange(
      nats,
      LEDGER_STREAM,
      from,
      READ_LEDGER_MESSAGES,
      RESOLUTIONS_SUBJECT,
    );
    for (const message of messages) {
      const resolutions = eventsOf('resolutions', decodeRange(message).blocks);
      resolutions.forEach(onEvent);
      progress(resolutions.length);
    }
    const last = messages.at(-1);
    if (last === undefined) break;
    from = last.sequence + 1;
  }
  if (events > 0) logger.info({ events, seconds: seconds() }, 'metadata restored');
}

/** The newest event of each key of a subject, at most `most`, the most recently changed last. */
async function newestEvents(
  nats: Nats,
  subject: string,
  most: number,
  onRead: (messages: number) => void,
): Promise<readonly MetadataEvent[]> {
  const { firstSequence, lastSequence } = await streamState(nats, METADATA_STREAM);
  const newest = new Map<string, MetadataEvent>();
  for (let to = lastSequence; to >= firstSequence && newest.size < most; ) {
    const from = Math.max(firstSequence, to - READ_SEQUENCES + 1);
    const messages = await readRange(nats, METADATA_STREAM, from, READ_SEQUENCES, subject, to);
    for (const { data } of messages.reverse()) {
      const { event } = decodeObservation(data);
      if ('balances' in event) continue;
      const key = event.kind === 'listing' ? event.conditionId : event.address;
      if (!newest.has(key)) newest.set(key, event);
    }
    onRead(messages.length);
    to = from - 1;
  }
  return [...newest.values()].slice(0, most).reverse();
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
