// Takes messages out of a stream for good, newest first: JetStream can purge a beginning, never an end.
// Invariant: afterwards the ids of what was removed are free again, which the server alone would keep
// refusing as duplicates for the whole duplicate window. For the repair of a log and nothing else; the
// stream must have no publisher meanwhile.
import { setTimeout as delay } from 'node:timers/promises';
import { nanos } from '@nats-io/transport-node';
import { answered, type Nats, NatsUnavailableError } from './connection.ts';
import { getMessage } from './read.ts';

const CONCURRENT_MAX = 64;
const PUBLISH_MS_MAX = 5_000;
/** The least that servers allow. */
const WINDOW_MS_MIN = 100;
/** Servers look for ids that are too old once a window; 2.9 and 2.10 need under 0.5 s. */
const FORGET_MS = 2_000;

/**
 * Removes the messages with these sequences, the highest first, and makes their ids free again.
 * May be repeated after any interruption: what is gone already is passed over.
 */
export async function removeMessages(
  nats: Nats,
  stream: string,
  sequences: readonly number[],
): Promise<void> {
  const descending = sequences.toSorted((a, b) => b - a);
  for (let i = 0; i < descending.length; i += CONCURRENT_MAX) {
    const some = descending.slice(i, i + CONCURRENT_MAX);
    await Promise.all(
      some.map((sequence) =>
        answered(nats, stream, () => nats.jsm.streams.deleteMessage(stream, sequence, false)),
      ),
    );
  }
  await forgetIds(nats, stream);
}

/**
 * Stores a message again at the end of the stream and removes it where it was. Servers of 2.9 no longer
 * find the newest message of a subject whose end was removed; a new one makes them find it again.
 */
export async function moveToEnd(nats: Nats, stream: string, sequence: number): Promise<void> {
  const message = await getMessage(nats, stream, sequence);
  if (message === undefined) throw new RangeError(`${stream} holds no message ${sequence}`);
  const { subject, data, messageId } = message;
  const ack = await answered(nats, stream, () =>
    nats.js.publish(subject, data, { msgID: messageId, timeout: PUBLISH_MS_MAX }),
  );
  // Where the server still refuses the id, the message stays where it is: nothing is lost.
  if (ack.duplicate)
    throw new NatsUnavailableError(`${stream} still knows ${messageId}: try again`);
  await answered(nats, stream, () => nats.jsm.streams.deleteMessage(stream, sequence, false));
}

/** Empties the stream's memory of message ids by shortening its duplicate window for a moment. */
async function forgetIds(nats: Nats, stream: string): Promise<void> {
  const { config } = await answered(nats, stream, () => nats.jsm.streams.info(stream));
  const change = (window: number) =>
    answered(nats, stream, () =>
      nats.jsm.streams.update(stream, { ...config, duplicate_window: window }),
    );
  await change(nanos(WINDOW_MS_MIN));
  try {
    await delay(FORGET_MS);
  } finally {
    await change(config.duplicate_window);
  }
}
