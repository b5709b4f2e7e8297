// Reads a stream through a durable consumer: the server remembers what was acknowledged and delivers
// the rest again. For one reader at a time; for work that may be repeated. The library's consumer is
// used as it is: unlike its ordered consumer it recovers from a server's restart by itself.
import { setTimeout as delay } from 'node:timers/promises';
import {
  AckPolicy,
  type ConsumerInfo,
  DeliverPolicy,
  JetStreamApiError,
  type JsMsg,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError, streamState } from './connection.ts';

const BATCH_MESSAGES_MAX = 5_000;
/** How long the first message of a batch waits for others. */
const GATHER_MS = 250;
const HEARTBEAT_MS = 1_000;
/** What was delivered and not acknowledged for so long is delivered again. */
const ACK_WAIT_MS = 30_000;
/** The server forgets a consumer that nobody used for so long; the next one starts at the beginning. */
const INACTIVE_MS_MAX = 14 * 24 * 3_600_000;
const RETRY_MS = 250;
const CONSUMER_NOT_FOUND = 10_014;

export type DurableBatch = {
  readonly messages: readonly { readonly sequence: number; readonly data: Uint8Array }[];
  /** Once the batch is processed, everything up to this sequence is. */
  readonly reached: number;
  /** Messages of the stream that follow the batch. */
  readonly pending: number;
  acknowledge(): void;
};

export type DurableOptions = {
  readonly stream: string;
  /** Name of the consumer: letters, digits, - and _. */
  readonly name: string;
  /** Ends the iteration, without an error. */
  readonly signal: AbortSignal;
};

/**
 * Yields what is not acknowledged yet, from the oldest message on, and then each new message. The first
 * batch is empty and says what is acknowledged. A reader takes over at once from a predecessor that
 * died. An absent server is waited for.
 */
export async function* durableBatches(
  nats: Nats,
  { stream, name, signal }: DurableOptions,
): AsyncGenerator<DurableBatch> {
  while (!signal.aborted) {
    try {
      yield await takeOver(nats, stream, name);
      yield* batches(nats, stream, name, signal);
    } catch (error) {
      if (!(error instanceof NatsUnavailableError)) throw error;
    }
    await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
  }
}

async function* batches(
  nats: Nats,
  stream: string,
  name: string,
  signal: AbortSignal,
): AsyncGenerator<DurableBatch> {
  const consumer = await answered(nats, stream, () => nats.js.consumers.get(stream, name));
  // Bounded by the consumer's max_ack_pending.
  const waiting: JsMsg[] = [];
  let isOver = false;
  let wake: () => void = () => undefined;
  const messages = await answered(nats, stream, () =>
    consumer.consume({
      max_messages: BATCH_MESSAGES_MAX,
      idle_heartbeat: HEARTBEAT_MS,
      callback: (message) => {
        waiting.push(message);
        wake();
      },
    }),
  );
  const stop = () => {
    isOver = true;
    messages.stop();
    wake();
  };
  signal.addEventListener('abort', stop);
  void messages.closed().then(stop);
  void (async () => {
    // The consumer is gone: a rebuilt server, or somebody deleted it.
    for await (const { type } of messages.status()) {
      if (type === 'consumer_not_found' || type === 'consumer_deleted') stop();
    }
  })();
  try {
    while (!isOver && !signal.aborted) {
      if (waiting.length === 0) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      if (waiting.length < BATCH_MESSAGES_MAX / 2) {
        await delay(GATHER_MS, undefined, { signal }).catch(() => undefined);
      }
      if (signal.aborted) return;
      yield batchOf(waiting.splice(0, BATCH_MESSAGES_MAX));
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stop();
  }
}

function batchOf(messages: readonly JsMsg[]): DurableBatch {
  return {
    messages: messages.map(({ seq, data }) => ({ sequence: seq, data })),
    reached: messages.at(-1)?.seq ?? 0,
    pending: messages.at(-1)?.info.pending ?? 0,
    acknowledge() {
      for (const message of messages) message.ack();
    },
  };
}

/**
 * Makes the consumer start right after what was acknowledged: what a predecessor had received would
 * otherwise be delivered only after ACK_WAIT_MS. After a stream lost its end it starts anew.
 */
async function takeOver(nats: Nats, stream: string, name: string): Promise<DurableBatch> {
  const { lastSequence } = await streamState(nats, stream);
  const { consumers } = nats.jsm;
  let info = await answered(nats, stream, () => infoOf(nats, stream, name));
  const isAhead = (info?.delivered.stream_seq ?? 0) > lastSequence;
  if (info !== undefined && (isAhead || info.num_ack_pending > 0)) {
    await answered(nats, stream, () => consumers.delete(stream, name));
  }
  if (info === undefined || isAhead || info.num_ack_pending > 0) {
    const first = isAhead ? 1 : (info?.ack_floor.stream_seq ?? 0) + 1;
    info = await answered(nats, stream, () =>
      consumers.add(stream, {
        durable_name: name,
        ack_policy: AckPolicy.Explicit,
        ack_wait: nanos(ACK_WAIT_MS),
        max_ack_pending: 4 * BATCH_MESSAGES_MAX,
        inactive_threshold: nanos(INACTIVE_MS_MAX),
        deliver_policy: DeliverPolicy.StartSequence,
        opt_start_seq: first,
      }),
    );
  }
  const reached = info.num_pending === 0 ? lastSequence : info.ack_floor.stream_seq;
  return { messages: [], reached, pending: info.num_pending, acknowledge: () => undefined };
}

async function infoOf(nats: Nats, stream: string, name: string): Promise<ConsumerInfo | undefined> {
  try {
    return await nats.jsm.consumers.info(stream, name);
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === CONSUMER_NOT_FOUND) return undefined;
    throw error;
  }
}
