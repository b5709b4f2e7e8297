/**
 * The streams and buckets of alerts. ALERTS has the events of each account, for its event stream. DELIVERIES is a work queue: a
 * message for each destination of an event, which stays until it is delivered. DELIVERY_ATTEMPTS has the latest attempts of each
 * destination.
 */
import { hash } from 'node:crypto';
import { z } from 'zod';
import { type Nats, NatsUnavailableError } from '../../infra/nats/connection.ts';
import { parseValue } from '../../infra/nats/kv.ts';
import { getMessage } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { ensureDeduplicated, ensureWorkQueue, publishOnce } from '../../infra/nats/work-queue.ts';
import { retry } from '../../infra/retry.ts';
import { AlertEvent } from './event.ts';

export const ALERTS_STREAM = 'ALERTS';
export const DELIVERIES_STREAM = 'DELIVERIES';
export const ATTEMPTS_STREAM = 'DELIVERY_ATTEMPTS';

export const ALERTS_BUCKET = 'alerts';
export const DESTINATIONS_BUCKET = 'alert_destinations';
/** Who evaluates the rules. */
export const LEASES_BUCKET = 'alert_leases';
/** How far they are evaluated. */
export const PROGRESS_BUCKET = 'alert_progress';

/** Ids of the messages that messengers show, so that later events can edit them. */
export const MESSAGES_BUCKET = 'alert_messages';
export const MESSAGES_KEPT_MS = 7 * 24 * 3_600_000;

/** The keys that sign requests to push services. */
export const PUSH_BUCKET = 'alert_push';

export const DELIVERIES_SUBJECTS = 'deliveries.>';

/** Events can be read, and deliveries wait, for so long. */
const KEPT_MS = 7 * 24 * 3_600_000;
/** Of an account, and of a destination. */
const KEPT_MAX = 100_000;
/** Attempts of one destination that are shown. */
export const ATTEMPTS_MAX = 200;

/** A message of ALERTS. */
export const AlertMessage = z.object({
  event: AlertEvent,
  account: z.string(),
  /** What the alert found; of a later event about it, the match that decided it. */
  about: z.string(),
  /** The matches in FEED that were not final when it was sent, and must happen. */
  matches: z.array(z.string()),
  destinations: z.array(z.string()),
  confirm: z.boolean(),
});
export type AlertMessage = z.infer<typeof AlertMessage>;

/** The subject of an account's events. Its name may contain any character. */
export function alertsSubject(account: string): string {
  return `alerts.${hash('sha256', account).slice(0, 32)}`;
}

export function deliveriesSubject(destination: string): string {
  return `deliveries.${destination}`;
}

export function attemptsSubject(destination: string): string {
  return `delivery_attempts.${destination}`;
}

export async function ensureAlertStreams(nats: Nats, replicas: number): Promise<void> {
  // No account may fill the disk of all.
  const kept = { maxAgeMs: KEPT_MS, replicas, maxMessagesPerSubject: KEPT_MAX };
  await ensureDeduplicated(nats, { name: ALERTS_STREAM, subjects: ['alerts.>'], ...kept });
  await ensureWorkQueue(nats, {
    ...{ name: DELIVERIES_STREAM, subjects: [DELIVERIES_SUBJECTS] },
    ...kept,
  });
  await ensureStream(nats, {
    ...{ name: ATTEMPTS_STREAM, subjects: ['delivery_attempts.>'] },
    ...{ ...kept, maxMessagesPerSubject: ATTEMPTS_MAX },
  });
}

/**
 * Stores the event for the stream of its account and for each of its destinations. If it was stored before, what was stored then is
 * sent: an id never has two contents, though a position found again after a crash may be described with other prices. Waits
 * while NATS is away.
 */
export async function publishEvent(
  nats: Nats,
  found: AlertMessage,
  signal: AbortSignal,
): Promise<{ readonly message: AlertMessage; readonly sequence: number }> {
  // First what a successor reads to take events back.
  const stored = await persistently(signal, async () => {
    const { isRepeated, sequence } = await publishOnce(nats, ALERTS_STREAM, {
      ...{ subject: alertsSubject(found.account), id: found.event.id, data: JSON.stringify(found) },
    });
    const earlier = isRepeated ? await getMessage(nats, ALERTS_STREAM, sequence) : undefined;
    const message = earlier && parseValue(AlertMessage, earlier.data);
    return { message: message ?? found, sequence };
  });
  const { destinations, event } = stored.message;
  await Promise.all(
    destinations.map((destination) => publishDelivery(nats, destination, event, event.id, signal)),
  );
  return stored;
}

/** Stores a delivery; the server stores each id of a destination once. */
export function publishDelivery(
  nats: Nats,
  destination: string,
  event: AlertEvent,
  id: string,
  signal: AbortSignal,
): Promise<unknown> {
  return persistently(signal, () =>
    publishOnce(nats, DELIVERIES_STREAM, {
      ...{ subject: deliveriesSubject(destination), id: `${id} ${destination}` },
      data: JSON.stringify(event),
    }),
  );
}

function persistently<T>(signal: AbortSignal, attempt: () => Promise<T>): Promise<T> {
  const isRetryable = (error: unknown) => error instanceof NatsUnavailableError;
  return retry(attempt, { signal, isRetryable });
}
