/**
 * Reads a stream: finite reads (one message, a range) and tails, which follow a stream through restarts of the server.
 * Both deliver messages in stream order, each once, and skip none that the stream still holds.
 *
 * Both use a consumer without acknowledgements that lives in the memory of one server. The library's ordered consumer
 * stalls for up to 45 s after a restart of the server, because it does not reset its count of pending messages
 * (https://github.com/nats-io/nats-architecture-and-design/issues/162). So `deliveries` uses plain fetches, checks the
 * delivery sequence itself and throws at the first sign of trouble; its callers then open a new consumer after the last
 * delivered message.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  AckPolicy,
  type Consumer,
  type ConsumerConfig,
  DeliverPolicy,
  type JsMsg,
  type MsgRequest,
} from '@nats-io/jetstream';
import { type MsgHdrs, nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError, streamState } from './connection.ts';

/** Header with the id that a StreamWriter gives each message. */
export const ID_HEADER = 'Fillstream-Id';

/** A message of a stream. `data` is a view of a network buffer, so copy it if you keep it for long. */
export type StreamMessage = {
  /** Position in the stream, from 1. */
  readonly sequence: number;
  readonly subject: string;
  readonly data: Uint8Array;
  /** When the server stored it, milliseconds since 1970. */
  readonly timestampMs: number;
  /** The writer's id for the message; '' if none. */
  readonly messageId: string;
  /** The value of a header, '' if absent. */
  header(name: string): string;
};

type Start = { readonly sequence: number } | { readonly timeMs: number };

export type TailOptions = {
  readonly stream: string;
  /** First sequence to deliver, at least 1. If it is beyond the end, the tail waits for it. */
  readonly fromSequence: number;
  /** One subject, wildcards allowed. Servers before 2.10 cannot filter by several. */
  readonly filterSubject?: string;
  /** Ends the iteration without an error. */
  readonly signal: AbortSignal;
  /** Called each time a lost consumer is replaced; for logs and metrics. */
  readonly onRestart?: (restart: { readonly next: number; readonly reason: string }) => void;
};

/**
 * The stream ends before a message that was already delivered: it lost messages or was recreated, and will reuse
 * sequences. Earlier sequences are meaningless.
 */
export class StreamRewoundError extends Error {
  override readonly name = 'StreamRewoundError';
  constructor(stream: string, delivered: number, lastSequence: number) {
    super(`stream ${stream} ends at ${lastSequence}, but ${delivered} was delivered`);
  }
}

/** The server holds a message that it cannot read, because its file is damaged, and maybe others that follow it. */
export class StreamDamagedError extends Error {
  override readonly name = 'StreamDamagedError';
  readonly sequence: number;
  /** The last of the messages from `sequence` on that are known to be damaged. */
  readonly through: number;
  constructor(stream: string, sequence: number, through: number) {
    super(
      `${stream} is damaged: the server holds message ${sequence} and cannot read it. ` +
        'Restore or remove it: docs/operations.md, "Damaged data"',
    );
    this.sequence = sequence;
    this.through = through;
  }
}

const FETCH_MESSAGES_MAX = 1_024;
/** Limits the memory of a tail: it never requests more messages than fit, however large they are. */
const FETCH_BYTES_MAX = 64 * 1_048_576;
const FETCH_MS_MAX = 5_000;
/** After this long without a message, a new consumer is tried, because another replica may have it. */
const FINITE_FETCH_MS_MAX = 2_000;
/** The library gives up a fetch after two silent intervals. */
const HEARTBEAT_MS = 500;
/** The server removes an unused consumer after this time, in case we failed to delete it. */
const INACTIVE_MS_MAX = 30_000;
const RETRY_MS = 100;
const RANGE_MESSAGES_MAX = 65_536;
const STORED_MESSAGES = 256;
/** How long a read waits for a replica that lags behind; afterwards the caller may retry. */
const LAG_MS_MAX = 5_000;

/** Yields messages one by one; `tailBatches` is cheaper. */
export async function* tail(nats: Nats, options: TailOptions): AsyncGenerator<StreamMessage> {
  for await (const batch of tailBatches(nats, options)) yield* batch;
}

/**
 * Yields messages as they arrive. Each batch holds everything since the previous one and never waits to fill up.
 * Sequences have gaps where retention removed messages. Throws StreamMissingError, StreamRewoundError, and errors of
 * the client library for invalid options. Waits while the server is unavailable.
 */
export async function* tailBatches(
  nats: Nats,
  { stream, fromSequence, filterSubject, signal, onRestart }: TailOptions,
): AsyncGenerator<readonly StreamMessage[]> {
  assertSequence(fromSequence);
  let delivered = 0;
  let next = fromSequence;
  let lost: string | undefined;
  while (!signal.aborted) {
    try {
      const { lastSequence, messageBytesMax } = await streamState(nats, stream, delivered);
      if (lastSequence < delivered) throw new StreamRewoundError(stream, delivered, lastSequence);
      if (lost !== undefined) onRestart?.({ next, reason: lost });
      lost = undefined;
      const start = { sequence: next };
      const fetchMessages = Math.max(1, Math.floor(FETCH_BYTES_MAX / messageBytesMax));
      const options = { stream, start, filterSubject, fetchMessages, signal };
      for await (const batch of deliveries(nats, options)) {
        if (signal.aborted) return;
        delivered = batch.at(-1)?.sequence ?? delivered;
        next = delivered + 1;
        yield batch;
      }
    } catch (error) {
      if (!(error instanceof NatsUnavailableError)) throw error;
      if (error instanceof ConsumerLostError) lost = error.message;
    }
    await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
  }
}

/*
 * Finite reads. If they return undefined or a short list, the stream's leader has no more messages; a replica that lags
 * behind does not decide this (docs/decisions/0009). They throw StreamMissingError, and NatsUnavailableError if the
 * server is unavailable.
 */

/** The message at a sequence; undefined if it was removed or does not exist yet. */
export async function getMessage(
  nats: Nats,
  stream: string,
  sequence: number,
): Promise<StreamMessage | undefined> {
  assertSequence(sequence);
  return ofLeader(nats, stream, { seq: sequence });
}

/** The newest message of a subject (wildcards allowed); undefined if there is none. */
export async function lastMessage(
  nats: Nats,
  stream: string,
  subject: string,
): Promise<StreamMessage | undefined> {
  return ofLeader(nats, stream, { last_by_subj: subject });
}

/** The first message stored at or after a time (milliseconds since 1970); undefined if there is none. */
export async function firstMessageAtOrAfter(
  nats: Nats,
  stream: string,
  timeMs: number,
): Promise<StreamMessage | undefined> {
  const [first] = await read(nats, { stream, start: { timeMs }, count: 1 });
  return first;
}

/**
 * Up to `count` messages (at most 65,536) from sequence `from`. The list starts later if retention removed the
 * beginning, and is empty beyond the end. `filterSubject` is one subject, wildcards allowed; with it, `to` is the last
 * sequence to read.
 */
export async function readRange(
  nats: Nats,
  stream: string,
  from: number,
  count: number,
  filterSubject?: string,
  to = Number.POSITIVE_INFINITY,
): Promise<StreamMessage[]> {
  assertSequence(from);
  if (!Number.isSafeInteger(count) || count < 0 || count > RANGE_MESSAGES_MAX) {
    throw new RangeError(`count must be from 0 to ${RANGE_MESSAGES_MAX}, not ${count}`);
  }
  if (count === 0) return [];
  const messages = await read(nats, {
    stream,
    start: { sequence: from },
    count,
    filterSubject,
    to,
  });
  return messages.filter(({ sequence }) => sequence <= to);
}

/** All messages from a start to the end of the stream, including those that are stored during the read. */
export async function* storedSince(
  nats: Nats,
  stream: string,
  start: Start,
): AsyncGenerator<StreamMessage> {
  let next = start;
  for (;;) {
    const messages = await read(nats, { stream, start: next, count: STORED_MESSAGES });
    yield* messages;
    const last = messages.at(-1);
    if (last === undefined || messages.length < STORED_MESSAGES) return;
    next = { sequence: last.sequence + 1 };
  }
}

type Source = {
  readonly stream: string;
  readonly start: Start;
  readonly filterSubject?: string | undefined;
};

type Read = Source & { readonly count: number; readonly to?: number };

/** Up to `count` messages; fewer only if the leader has no more, whichever replica delivers them. */
async function read(nats: Nats, options: Read): Promise<StreamMessage[]> {
  const { stream, start, count } = options;
  const deadline = performance.now() + LAG_MS_MAX;
  for (;;) {
    const messages: StreamMessage[] = [];
    try {
      for await (const batch of deliveries(nats, options)) messages.push(...batch);
      return messages;
    } catch (error) {
      if (!(error instanceof ConsumerLostError) || !nats.connected) throw error;
    }
    const last = messages.at(-1)?.sequence;
    const first = 'sequence' in start ? start.sequence : undefined;
    const next = last === undefined ? first : last + 1;
    if (next !== undefined) await refuseDamage(nats, stream, next, (first ?? next) + count - 1);
    if (performance.now() > deadline) {
      throw new NatsUnavailableError(
        `no server delivers the messages that the leader of ${stream} has`,
      );
    }
    await delay(RETRY_MS);
  }
}

/**
 * Throws StreamDamagedError if the stream holds an unreadable message with this sequence, and names those that follow it up
 * to `most`. The server does not report damage: it responds as if the message had been deleted, and consumers skip it.
 */
export async function refuseDamage(
  nats: Nats,
  stream: string,
  sequence: number,
  most = sequence,
): Promise<void> {
  if ((await getMessage(nats, stream, sequence)) !== undefined) return;
  const details = { deleted_details: true };
  const { state } = await answered(nats, stream, () => nats.jsm.streams.info(stream, details));
  const { first_seq, last_seq, messages, deleted = [] } = state;
  const isHeld = sequence >= first_seq && sequence <= last_seq && !deleted.includes(sequence);
  // Messages that a server lost during recovery count neither as held nor as deleted.
  const isCounted = messages + deleted.length === last_seq - first_seq + 1;
  if (!isHeld || !isCounted) return;
  let through = sequence;
  while (through < Math.min(most, last_seq) && !deleted.includes(through + 1)) {
    if ((await getMessage(nats, stream, through + 1)) !== undefined) break;
    through += 1;
  }
  throw new StreamDamagedError(stream, sequence, through);
}

/**
 * Throws StreamDamagedError if any message from `start` to `end` that is missing from the sequences in `read` turns out
 * to be unreadable.
 */
export async function refuseHoles(
  nats: Nats,
  stream: string,
  range: { readonly start: number; readonly end: number; readonly read: readonly number[] },
): Promise<void> {
  if (range.read.length > range.end - range.start) return;
  const details = { deleted_details: true };
  const { state } = await answered(nats, stream, () => nats.jsm.streams.info(stream, details));
  const known = new Set([...range.read, ...(state.deleted ?? [])]);
  for (let at = Math.max(range.start, state.first_seq); at <= range.end; at += 1) {
    if (!known.has(at)) await refuseDamage(nats, stream, at);
  }
}

/** The consumer may be gone, together with messages in flight. */
class ConsumerLostError extends NatsUnavailableError {}

type Deliveries = Source & {
  /** Ends after this many messages, or at the message that was the leader's newest at the start. Endless by default. */
  readonly count?: number;
  /** Ends a finite read at the first message with this sequence or a later one. */
  readonly to?: number;
  /** Most messages in flight; FETCH_MESSAGES_MAX is the default and the maximum. */
  readonly fetchMessages?: number;
  /** Ends the iteration, without an error. */
  readonly signal?: AbortSignal;
};

/**
 * Yields the messages of one consumer, in order and without gaps. Throws ConsumerLostError, StreamMissingError and
 * NatsUnavailableError, and StreamDamagedError if a finite read without a filter misses a message.
 */
async function* deliveries(nats: Nats, options: Deliveries): AsyncGenerator<StreamMessage[]> {
  const { stream, start, filterSubject, count, to = ENDLESS.sequence, signal } = options;
  const first = 'sequence' in start ? start.sequence : 1;
  const fetchMessages = Math.min(options.fetchMessages ?? FETCH_MESSAGES_MAX, FETCH_MESSAGES_MAX);
  const fetchMs = count === undefined ? FETCH_MS_MAX : FINITE_FETCH_MS_MAX;
  const config = consumerConfig(options);
  const info = await answered(nats, stream, () => nats.jsm.consumers.add(stream, config));
  const consumer = nats.js.consumers.getConsumerFromInfo(info);
  const counted = Math.min(count ?? 0, info.num_pending);
  const read: number[] = [];
  let delivered = 0;
  let last = 0;
  try {
    const newest = count === undefined ? ENDLESS : await endOf(nats, options, count, counted);
    const end = { ...newest, sequence: Math.min(newest.sequence, to) };
    while (delivered < end.count && last < end.sequence) {
      const before = delivered;
      const most = Math.min(fetchMessages, end.count - before);
      for await (const batch of fetched(nats, consumer, most, fetchMs, signal)) {
        for (const { info } of batch) {
          delivered += 1;
          if (info.deliverySequence !== delivered) throw new ConsumerLostError('missing message');
          last = info.streamSequence;
          if (count !== undefined) read.push(last);
        }
        // The server clamps a start beyond the end to the end.
        const messages = batch.map(fromDelivered).filter(({ sequence }) => sequence >= first);
        if (messages.length > 0) yield messages;
        if (last >= end.sequence) break;
      }
      if (signal?.aborted === true) return;
      if (count !== undefined && delivered === before) {
        throw new ConsumerLostError(`messages of ${stream} were removed during the read`);
      }
    }
    // With a filter, finding a missing message would require reading all other messages.
    if (delivered < counted && delivered < end.count && filterSubject === undefined) {
      const start = 'sequence' in options.start ? first : (read[0] ?? last);
      await refuseHoles(nats, stream, { start, end: last, read });
    }
  } finally {
    if (nats.connected) consumer.delete().catch(() => undefined);
  }
}

const ENDLESS = { count: Number.POSITIVE_INFINITY, sequence: Number.POSITIVE_INFINITY };

/**
 * Where a finite read ends: after a number of messages, or at a sequence. The leader's newest message decides, because
 * a replica may lag behind, and nats-server 2.9 counts messages that it lost. `counted` is used only if there is no
 * newest message: the stream is empty, or that message was deleted or is damaged.
 */
async function endOf(
  nats: Nats,
  { stream, start, filterSubject = '>' }: Source,
  count: number,
  counted: number,
): Promise<typeof ENDLESS> {
  const newest = await lastMessage(nats, stream, filterSubject);
  if (newest === undefined) return { ...ENDLESS, count: counted };
  const isBefore =
    'sequence' in start ? newest.sequence < start.sequence : newest.timestampMs < start.timeMs;
  return isBefore ? { count: 0, sequence: 0 } : { count, sequence: newest.sequence };
}

/**
 * Makes one fetch and yields batches of the messages that arrived since the last batch. Ends after `messages` messages
 * or `waitMs`, or when the signal aborts. Throws ConsumerLostError if the connection breaks or the server falls silent.
 */
export async function* fetched(
  nats: Nats,
  consumer: Consumer,
  messages: number,
  waitMs: number,
  signal?: AbortSignal,
): AsyncGenerator<JsMsg[]> {
  if (!nats.connected) throw new ConsumerLostError('not connected');
  const fetch = await consumer.fetch({
    max_messages: messages,
    expires: waitMs,
    idle_heartbeat: HEARTBEAT_MS,
  });
  // After a restart, the server may have forgotten the consumer.
  const removeListener = nats.onStatus(({ type }) => {
    if (type === 'disconnect' || type === 'close') fetch.stop(new ConsumerLostError(type));
  });
  const abort = () => fetch.stop();
  signal?.addEventListener('abort', abort);
  if (signal?.aborted === true) abort();
  let batch: JsMsg[] = [];
  try {
    for await (const message of fetch) {
      batch.push(message);
      if (fetch.getPending() > 0) continue;
      yield batch;
      batch = [];
    }
    if (batch.length > 0) yield batch;
  } catch (error) {
    throw new ConsumerLostError(error instanceof Error ? error.message : String(error), {
      cause: error,
    });
  } finally {
    removeListener();
    signal?.removeEventListener('abort', abort);
    fetch.stop();
  }
}

function consumerConfig({ start, filterSubject }: Source): Partial<ConsumerConfig> {
  return {
    ...('sequence' in start
      ? { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: start.sequence }
      : {
          deliver_policy: DeliverPolicy.StartTime,
          opt_start_time: new Date(start.timeMs).toISOString(),
        }),
    ...(filterSubject === undefined ? {} : { filter_subject: filterSubject }),
    ack_policy: AckPolicy.None,
    max_deliver: 1,
    mem_storage: true,
    num_replicas: 1,
    inactive_threshold: nanos(INACTIVE_MS_MAX),
  };
}

function fromDelivered({ subject, data, headers, info }: JsMsg): StreamMessage {
  const timestampMs = Math.floor(info.timestampNanos / 1_000_000);
  return streamMessage({ sequence: info.streamSequence, subject, data, timestampMs }, headers);
}

async function ofLeader(
  nats: Nats,
  stream: string,
  request: MsgRequest,
): Promise<StreamMessage | undefined> {
  const message = await answered(nats, stream, () => nats.jsm.streams.getMessage(stream, request));
  if (message === null) return undefined;
  const { seq: sequence, subject, data, timestamp, header } = message;
  return streamMessage({ sequence, subject, data, timestampMs: Date.parse(timestamp) }, header);
}

function streamMessage(
  fields: Pick<StreamMessage, 'sequence' | 'subject' | 'data' | 'timestampMs'>,
  headers: MsgHdrs | undefined,
): StreamMessage {
  const header = (name: string) => headers?.get(name) ?? '';
  // Messages of version 0.1 have a Nats-Msg-Id; FEED keeps them for 72 hours after an upgrade.
  return { ...fields, header, messageId: header(ID_HEADER) || header('Nats-Msg-Id') };
}

function assertSequence(sequence: number): void {
  if (!Number.isSafeInteger(sequence) || sequence < 1) {
    throw new RangeError(`a sequence is an integer from 1, not ${sequence}`);
  }
}
