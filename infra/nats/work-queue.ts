/**
 * A work queue: a stream whose messages stay until somebody says that the work is done. Each subject has a consumer of its own, so
 * that a subject whose work fails does not hold up another. Work that is neither done nor refused within ACK_WAIT_MS, because its
 * process died, is delivered again, to whichever process asks next.
 */
import {
  AckPolicy,
  type Consumer,
  JetStreamApiCodes,
  JetStreamApiError,
  type JsMsg,
  RetentionPolicy,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError } from './connection.ts';
import { fetched } from './reader.ts';
import { ensureStream, type StreamSpec } from './streams.ts';

/** Longer than any attempt, with its waiting. */
const ACK_WAIT_MS = 40_000;
/** How long a request for work stays open; the library's minimum is 1 s. */
const FETCH_MS = 5_000;
/** Within this time, a message with an id that was stored before is dropped, also when its work is done. */
const DUPLICATE_WINDOW_MS = 600_000;
const PUBLISH_MS_MAX = 2_000;
/** The same id was published before, and the replicas have not agreed on it yet. */
const STILL_STORING = 10158;

export type Work = {
  readonly subject: string;
  readonly data: Uint8Array;
  /** 1 for the first delivery. */
  readonly attempt: number;
  /** When the message was stored, milliseconds since the epoch. */
  readonly storedAtMs: number;
  /** Removes the message. If the server does not hear of it, the message is delivered again. */
  done(): void;
  /** Delivers the message again after this time. */
  again(afterMs: number): void;
};

/** Streams to which the same message may be published twice and is stored once. */
export async function ensureDeduplicated(nats: Nats, spec: StreamSpec): Promise<void> {
  const extra = { duplicate_window: nanos(DUPLICATE_WINDOW_MS), ...spec.extra };
  await ensureStream(nats, { ...spec, extra });
}

export async function ensureWorkQueue(nats: Nats, spec: StreamSpec): Promise<void> {
  await ensureDeduplicated(nats, { ...spec, extra: { retention: RetentionPolicy.Workqueue } });
}

/**
 * Stores a message, unless one with its id was stored within DUPLICATE_WINDOW_MS. Resolves with its sequence, or with that of the earlier
 * one and `isRepeated`. Rejects with NatsUnavailableError if it may not be stored; then repeat it with the same id.
 */
export async function publishOnce(
  nats: Nats,
  stream: string,
  { subject, id, data }: { readonly subject: string; readonly id: string; readonly data: string },
): Promise<{ readonly sequence: number; readonly isRepeated: boolean }> {
  const options = {
    msgID: id,
    expect: { streamName: stream },
    retries: 0,
    timeout: PUBLISH_MS_MAX,
  };
  try {
    const ack = await answered(nats, stream, () => nats.js.publish(subject, data, options));
    // Without a quorum, nats-server 2.10 may acknowledge sequence 0 although nothing is stored.
    if (ack.seq > 0) return { sequence: ack.seq, isRepeated: ack.duplicate };
  } catch (error) {
    if (!(error instanceof JetStreamApiError) || error.code !== STILL_STORING) throw error;
  }
  throw new NatsUnavailableError(`${stream} has not stored a message yet`);
}

/** The consumer of a subject, which is created if necessary. At most `pendingMax` of its messages are delivered and not done. */
export async function queueOf(
  nats: Nats,
  stream: string,
  {
    name,
    subject,
    pendingMax,
  }: { readonly name: string; readonly subject: string; readonly pendingMax: number },
): Promise<Consumer> {
  const config = {
    durable_name: name,
    filter_subject: subject,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_WAIT_MS),
    max_ack_pending: pendingMax,
  };
  const info = await answered(nats, stream, () => nats.jsm.consumers.add(stream, config));
  return nats.js.consumers.getConsumerFromInfo(info);
}

/** Up to `count` messages that wait, or arrive within 5 s; each time some are there, yields them. Throws NatsUnavailableError. */
export async function* workFrom(
  nats: Nats,
  consumer: Consumer,
  count: number,
  signal: AbortSignal,
): AsyncGenerator<readonly Work[]> {
  for await (const batch of fetched(nats, consumer, count, FETCH_MS, signal)) {
    yield batch.map(workOf);
  }
}

/** The number of messages of each subject that are not done. */
export async function waitingBySubject(
  nats: Nats,
  stream: string,
  subjects: string,
): Promise<ReadonlyMap<string, number>> {
  const filter = { subjects_filter: subjects };
  const { state } = await answered(nats, stream, () => nats.jsm.streams.info(stream, filter));
  return new Map(Object.entries(state.subjects ?? {}));
}

/** Removes a subject's consumer and messages. */
export async function removeQueue(
  nats: Nats,
  stream: string,
  { name, subject }: { readonly name: string; readonly subject: string },
): Promise<void> {
  try {
    await answered(nats, stream, () => nats.jsm.consumers.delete(stream, name));
  } catch (error) {
    const isGone =
      error instanceof JetStreamApiError && error.code === JetStreamApiCodes.ConsumerNotFound;
    if (!isGone) throw error;
  }
  await answered(nats, stream, () => nats.jsm.streams.purge(stream, { filter: subject }));
}

/** Calls `report` with the subject of each message that is published to these subjects, maybe before it is stored. */
export function onPublished(
  nats: Nats,
  subjects: string,
  report: (subject: string) => void,
): () => void {
  const subscription = nats.connection.subscribe(subjects, {
    callback: (error, { subject }) => {
      if (error === null) report(subject);
    },
  });
  return () => subscription.unsubscribe();
}

function workOf(message: JsMsg): Work {
  const { data, info, subject } = message;
  return {
    ...{ subject, data, attempt: info.deliveryCount },
    storedAtMs: Math.floor(info.timestampNanos / 1_000_000),
    done: () => message.ack(),
    again: (afterMs) => message.nak(afterMs),
  };
}
