// Finite reads of a stream: one message by sequence, subject or time, and ranges.
// Invariant: `undefined` and an empty list mean that the stream's leader holds nothing there;
// a replica that lags behind is never believed, and an absent server is NatsUnavailableError.
import type { StoredMsg } from '@nats-io/jetstream';
import { answered, type Nats, NatsUnavailableError } from './nats.ts';
import { openPull, type PullStart, TailMessage } from './nats-pull.ts';

const PULL_MESSAGES = 2_048;
const RANGE_MESSAGES_MAX = 65_536;
const READ_RESTARTS_MAX = 3;

/** The message at a sequence; undefined when it was removed or does not exist yet. */
export async function getMessage(
  nats: Nats,
  stream: string,
  sequence: number,
): Promise<TailMessage | undefined> {
  assertSequence(sequence);
  return stored(nats, stream, { seq: sequence });
}

/** The newest message of a subject (wildcards allowed); undefined when there is none. */
export async function lastMessage(
  nats: Nats,
  stream: string,
  subject: string,
): Promise<TailMessage | undefined> {
  return stored(nats, stream, { last_by_subj: subject });
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
 * Where retention removed the beginning, the list starts later: compare its first sequence. Beyond
 * the end it is empty. `filterSubject` takes one subject, wildcards allowed.
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
  const messages = await read(nats, { stream, start: { sequence: from }, count, ...filter });
  // The server clamps a start beyond the end to the end.
  return messages.filter((message) => message.sequence >= from);
}

/** Everything from a start to the end that the stream has when the reading gets there. */
export async function* storedSince(
  nats: Nats,
  stream: string,
  start: PullStart,
): AsyncGenerator<TailMessage> {
  let next = start;
  for (;;) {
    const messages = await read(nats, { stream, start: next, count: PULL_MESSAGES });
    const last = messages.at(-1);
    if (last === undefined) return;
    if ('sequence' in next && last.sequence < next.sequence) return;
    yield* messages;
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

type Read = {
  readonly stream: string;
  readonly start: PullStart;
  readonly count: number;
  readonly filterSubject?: string;
};

/** Reads again from the start after a lost session, a few times. */
async function read(nats: Nats, options: Read): Promise<TailMessage[]> {
  for (let restarts = 0; ; restarts += 1) {
    const messages = await readOnce(nats, options);
    if (messages !== undefined) return messages;
    if (restarts === READ_RESTARTS_MAX) {
      throw new NatsUnavailableError(`reading ${options.stream} was interrupted ${restarts} times`);
    }
  }
}

/** Undefined when the session was lost on the way. */
async function readOnce(nats: Nats, options: Read): Promise<TailMessage[] | undefined> {
  const { stream, start, filterSubject } = options;
  const messages: TailMessage[] = [];
  const { promise, resolve } = Promise.withResolvers<TailMessage[] | undefined>();
  let wanted = Number.POSITIVE_INFINITY;
  const session = await openPull(nats, {
    stream,
    start,
    ...(filterSubject === undefined ? {} : { filterSubject }),
    sink: {
      message: (message) => {
        messages.push(message);
        if (messages.length === wanted) resolve(messages);
        else refill();
      },
      lost: () => resolve(undefined),
    },
  });
  // What was pending at the start is there for sure: no waiting for a message that never comes.
  wanted = Math.min(options.count, session.pending);

  function refill(): void {
    const left = wanted - messages.length - session.outstanding;
    if (left > 0 && session.outstanding < PULL_MESSAGES)
      session.pull(Math.min(left, PULL_MESSAGES));
  }
  try {
    if (wanted === 0) return messages;
    refill();
    return await promise;
  } finally {
    session.close();
  }
}

type Request = { readonly seq: number } | { readonly last_by_subj: string };

async function stored(
  nats: Nats,
  stream: string,
  request: Request,
): Promise<TailMessage | undefined> {
  // Any replica may answer a direct get, and one that lags does not know the newest messages:
  // only the leader's "not found" counts.
  const message =
    (await direct(nats, stream, request)) ??
    (await answered(nats, stream, () => nats.jsm.streams.getMessage(stream, request)));
  return message === null ? undefined : fromStored(message);
}

async function direct(nats: Nats, stream: string, request: Request): Promise<StoredMsg | null> {
  try {
    return await answered(nats, stream, () => nats.jsm.direct.getMessage(stream, request));
  } catch (error) {
    // Nobody answers for a stream that does not exist or has no direct gets. The leader knows.
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
