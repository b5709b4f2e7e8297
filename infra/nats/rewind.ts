// Deletes the end of a stream: JetStream can purge a beginning only. For the repair of a log and nothing
// else; the stream must have no publisher meanwhile.
import { answered, type Nats } from './connection.ts';

const CONCURRENT_MAX = 64;

/** Deletes the messages with these sequences, the highest first. May be repeated after an interruption. */
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
}
