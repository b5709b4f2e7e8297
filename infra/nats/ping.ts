// Whether another process is connected right now, asked over the server itself: it knows at once
// when nobody listens on a subject any more. Nothing is stored.
import { errors } from '@nats-io/transport-node';
import type { Nats } from './connection.ts';

const ANSWER_MS_MAX = 150;
/** A ping may get lost with a connection that is just breaking. */
const PINGS_MAX = 3;

/** Answers pings on a subject until the returned function is called. */
export function answerPings(nats: Nats, subject: string): () => void {
  const subscription = nats.connection.subscribe(subject, {
    callback: (error, message) => {
      if (error === null) message.respond();
    },
  });
  return () => subscription.unsubscribe();
}

/**
 * 'nobody' only where the server says that nobody listens on the subject; a process that does not
 * answer in time, or a server that is away, is 'unknown'.
 */
export async function ping(
  nats: Nats,
  subject: string,
): Promise<'answered' | 'nobody' | 'unknown'> {
  for (let pings = 0; pings < PINGS_MAX && nats.connected; pings += 1) {
    try {
      await nats.connection.request(subject, undefined, { timeout: ANSWER_MS_MAX });
      return 'answered';
    } catch (error) {
      const nobody =
        error instanceof errors.NoRespondersError ||
        (error instanceof errors.RequestError && error.isNoResponders());
      if (nobody) return 'nobody';
    }
  }
  return 'unknown';
}
