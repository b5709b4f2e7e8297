/**
 * Reads a stream through a durable consumer: the server remembers which messages were acknowledged and delivers the
 * others again. For one reader at a time, and for work that is safe to repeat.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  AckPolicy,
  type ConsumerInfo,
  DeliverPolicy,
  JetStreamApiCodes,
  JetStreamApiError,
  type JsMsg,
} from '@nats-io/jetstream';
import { nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError, streamState } from './connection.ts';
import { fetched } from './reader.ts';

const BATCH_MESSAGES_MAX = 5_000;
/** How long a batch waits to fill up; the library's minimum. */
const GATHER_MS = 1_000;
/** A message that was delivered but not acknowledged is delivered again after this time. */
const ACK_WAIT_MS = 30_000;
/** The server deletes an unused consumer after this time; then the next one starts at the beginning. */
const INACTIVE_MS_MAX = 14 * 24 * 3_600_000;
const RETRY_MS = 250;

export type DurableBatch = {
  readonly messages: readonly { readonly sequence: number; readonly data: Uint8Array }[];
  /** Once this batch is processed, everything up to this sequence is. */
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
 * Yields the unacknowledged messages, oldest first, and then new ones. The first batch is empty; its `reached` says up
 * to where messages were acknowledged. A reader takes over at once from a predecessor that died. Waits while the server
 * is unavailable.
 */
export async function* durableBatches(
  nats: Nats,
  { stream, name, signal }: DurableOptions,
): AsyncGenerator<DurableBatch> {
  while (!signal.aborted) {
    try {
      yield await takeOver(nats, stream, name);
      const consumer = await answered(nats, stream, () => nats.js.consumers.get(stream, name));
      while (!signal.aborted) {
        const messages: JsMsg[] = [];
        for await (const some of fetched(nats, consumer, BATCH_MESSAGES_MAX, GATHER_MS, signal)) {
          messages.push(...some);
        }
        const last = messages.at(-1);
        if (last !== undefined && !signal.aborted) yield batchOf(messages, last);
      }
    } catch (error) {
      if (!(error instanceof NatsUnavailableError)) throw error;
    }
    await delay(RETRY_MS, undefined, { signal }).catch(() => undefined);
  }
}

function batchOf(messages: readonly JsMsg[], last: JsMsg): DurableBatch {
  return {
    messages: messages.map(({ seq, data }) => ({ sequence: seq, data })),
    reached: last.seq,
    pending: last.info.pending,
    acknowledge() {
      for (const message of messages) message.ack();
    },
  };
}

/**
 * Makes the consumer start right after the acknowledged messages, because those that a predecessor received would
 * otherwise be delivered only after ACK_WAIT_MS. Starts at the beginning if the stream lost its end.
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
    if (error instanceof JetStreamApiError && error.code === JetStreamApiCodes.ConsumerNotFound) {
      return undefined;
    }
    throw error;
  }
}
