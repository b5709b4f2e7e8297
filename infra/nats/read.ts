/**
 * Finite reads of a stream: one message by sequence, subject or time, and ranges. `undefined` and lists that
 * end early mean that the stream's leader holds nothing more; a replica that lags behind is not
 * believed (docs/decisions/0012). An absent server causes NatsUnavailableError.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { ConsumerMessages, MsgRequest, SeqMsgRequest, StoredMsg } from '@nats-io/jetstream';
import { answered, type Nats, NatsUnavailableError } from './connection.ts';
import {
  type ConsumerOptions,
  fromDelivered,
  HARMLESS,
  HEARTBEAT_MS,
  openConsumer,
  type Start,
  TailMessage,
} from './reader.ts';

const FETCH_MESSAGES = 2_048;
const FETCH_MS_MAX = 5_000;
const RANGE_MESSAGES_MAX = 65_536;
const READ_RESTARTS_MAX = 3;
const LAG_POLL_MS = 20;
// A replica that was away may take longer: callers then retry.
const LAG_MS_MAX = 5_000;

/** The message at a sequence; undefined when it was removed or does not exist yet. */
export async function getMessage(
  nats: Nats,
  stream: string,
  sequence: number,
): Promise<TailMessage | undefined> {
  assertSequence(sequence);
  const request = { seq: sequence };
  // Any replica may answer a direct get. A message that it returns is right; its absence is not.
  const message = (await direct(nats, stream, request)) ?? (await ofLeader(nats, stream, request));
  return message === null ? undefined : fromStored(message);
}

/** The newest message of a subject (wildcards allowed); undefined when there is none. */
export async function lastMessage(
  nats: Nats,
  stream: string,
  subject: string,
): Promise<TailMessage | undefined> {
  const message = await ofLeader(nats, stream, { last_by_subj: subject });
  return message === null ? undefined : fromStored(message);
}

/** The first message stored at or after a time (milliseconds since 1970); undefined if none. */
export async function firstMessageAtOrAfter(
  nats: Nats,
  stream: string,
  timeMs: number,
): Promise<TailMessage | undefined> {
  const [first] = await read(nats, { stream, start: { timeMs }, count: 1 });
  return first;
}

/**
 * Up to `count` messages (at most 65,536) from sequence `from` on, as far as the stream holds them.
 *
 * Where retention removed the beginning, the list starts later. Beyond the end it is empty. `filterSubject` takes one subject, wildcards allowed.
 */
export async function readRange(
  nats: Nats,
  stream: string,
  from: number,
  count: number,
  filterSubject?: string,
): Promise<TailMessage[]> {
  assertSequence(from);
  if (!Number.isSafeInteger(count) || count < 0 || count > RANGE_MESSAGES_MAX) {
    throw new RangeError(`count must be from 0 to ${RANGE_MESSAGES_MAX}, not ${count}`);
  }
  if (count === 0) return [];
  const filter = filterSubject === undefined ? {} : { filterSubject };
  return read(nats, { stream, start: { sequence: from }, count, ...filter });
}

/** Everything from a start to the end of the stream at the time the reader gets there. */
export async function* storedSince(
  nats: Nats,
  stream: string,
  start: Start,
): AsyncGenerator<TailMessage> {
  let next = start;
  for (;;) {
    const messages = await read(nats, { stream, start: next, count: FETCH_MESSAGES });
    yield* messages;
    const last = messages.at(-1);
    if (last === undefined || messages.length < FETCH_MESSAGES) return;
    next = { sequence: last.sequence + 1 };
  }
}

/** The newest message of each subject, in stream order. */
export async function lastPerSubject(
  nats: Nats,
  stream: string,
  filterSubject: string,
): Promise<TailMessage[]> {
  const count = Number.POSITIVE_INFINITY;
  return read(nats, { stream, start: { lastPerSubject: true }, filterSubject, count });
}

type Read = ConsumerOptions & { readonly count: number };

/**
 * Up to `count` messages; fewer only where the stream has no more. Consumers read from any replica, so a
 * short list is compared with the leader's newest message.
 */
async function read(nats: Nats, options: Read): Promise<TailMessage[]> {
  const { stream, start, filterSubject = '>' } = options;
  const from = 'sequence' in start ? start.sequence : 1;
  const deadline = performance.now() + LAG_MS_MAX;
  let newest: TailMessage | undefined;
  for (;;) {
    const found = await readUndisturbed(nats, options);
    // A server clamps a start beyond the end that it knows to that end.
    const messages = found.filter(({ sequence }) => sequence >= from);
    if (messages.length === options.count) return messages;
    newest ??= await lastMessage(nats, stream, filterSubject);
    if (newest === undefined || !isBeyond(newest, messages, start)) return messages;
    if (performance.now() > deadline) {
      throw new NatsUnavailableError(`a replica of ${stream} lacks what its leader has`);
    }
    await delay(LAG_POLL_MS);
  }
}

/** Whether `newest` is missing from what was read from `start`. */
function isBeyond(newest: TailMessage, messages: TailMessage[], start: Start): boolean {
  const last = messages.at(-1);
  if (last !== undefined) return newest.sequence > last.sequence;
  if ('sequence' in start) return newest.sequence >= start.sequence;
  return !('timeMs' in start) || newest.timestampMs >= start.timeMs;
}

/** Starts again after a lost consumer, a few times. */
async function readUndisturbed(nats: Nats, options: Read): Promise<TailMessage[]> {
  for (let restarts = 0; ; restarts += 1) {
    const messages = await readOnce(nats, options);
    if (messages !== undefined) return messages;
    if (restarts === READ_RESTARTS_MAX) {
      throw new NatsUnavailableError(`reading ${options.stream} was interrupted ${restarts} times`);
    }
  }
}

/** Undefined when the consumer was lost on the way. */
async function readOnce(nats: Nats, options: Read): Promise<TailMessage[] | undefined> {
  const consumer = await openConsumer(nats, options);
  const messages: TailMessage[] = [];
  try {
    // Never wait for a message beyond what the stream held at the start.
    const { num_pending: pending } = await consumer.info(true);
    const wanted = Math.min(options.count, pending);
    while (messages.length < wanted) {
      const max_messages = Math.min(wanted - messages.length, FETCH_MESSAGES);
      const before = messages.length;
      const fetched = await consumer.fetch({
        max_messages,
        expires: FETCH_MS_MAX,
        idle_heartbeat: HEARTBEAT_MS,
      });
      const isWhole = await answered(nats, options.stream, () => collect(fetched, messages));
      // Nothing came where something was pending: it was removed meanwhile.
      if (!isWhole || messages.length === before) return undefined;
    }
    return messages;
  } finally {
    if (nats.connected) consumer.delete().catch(() => undefined);
  }
}

/** Adds what a fetch brings; false when its consumer may have been lost, see `openSession`. */
async function collect(fetched: ConsumerMessages, messages: TailMessage[]): Promise<boolean> {
  let isWhole = true;
  void (async () => {
    for await (const { type } of fetched.status()) {
      if (HARMLESS.has(type)) continue;
      isWhole = false;
      fetched.stop();
    }
  })();
  try {
    for await (const message of fetched) messages.push(fromDelivered(message));
  } catch {
    // The library found out itself.
    return false;
  }
  return isWhole;
}

function ofLeader(nats: Nats, stream: string, request: MsgRequest): Promise<StoredMsg | null> {
  return answered(nats, stream, () => nats.jsm.streams.getMessage(stream, request));
}

async function direct(
  nats: Nats,
  stream: string,
  request: SeqMsgRequest,
): Promise<StoredMsg | null> {
  try {
    return await answered(nats, stream, () => nats.jsm.direct.getMessage(stream, request));
  } catch (error) {
    // Nobody answers for a stream that does not exist or has no direct gets; the leader knows.
    if (error instanceof NatsUnavailableError && nats.connected) return null;
    throw error;
  }
}

function fromStored(message: StoredMsg): TailMessage {
  return new TailMessage(
    {
      sequence: message.seq,
      subject: message.subject,
      data: message.data,
      timestampMs: Date.parse(message.timestamp),
    },
    (name) => message.header?.get(name) ?? '',
  );
}

function assertSequence(sequence: number): void {
  if (!Number.isSafeInteger(sequence) || sequence < 1) {
    throw new RangeError(`a sequence is an integer from 1, not ${sequence}`);
  }
}
