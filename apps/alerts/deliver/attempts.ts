/** The latest attempts of each destination, as the owner sees them. */
import { z } from 'zod';
import type { Nats } from '../../../infra/nats/connection.ts';
import { parseValue } from '../../../infra/nats/kv.ts';
import { readRange } from '../../../infra/nats/reader.ts';
import { AlertEvent } from '../event.ts';
import { ATTEMPTS_MAX, ATTEMPTS_STREAM, attemptsSubject } from '../logs.ts';

export const Attempt = z.object({
  event: AlertEvent,
  /** 1 for the first. */
  attempt: z.int().min(1),
  atMs: z.int().min(0),
  tookMs: z.int().min(0),
  isDelivered: z.boolean(),
  /** HTTP status; null without a response. */
  status: z.int().nullable(),
  /** The beginning of the response, or why there was none. */
  response: z.string(),
  /** When it is tried again; null if it is not. */
  retryAtMs: z.int().nullable(),
});
export type Attempt = z.infer<typeof Attempt>;

/** Stores an attempt, if NATS is there: nothing depends on it. */
export async function storeAttempt(
  nats: Nats,
  destination: string,
  attempt: Attempt,
): Promise<void> {
  const subject = attemptsSubject(destination);
  await nats.js.publish(subject, JSON.stringify(attempt), { retries: 0 }).catch(() => undefined);
}

/** The latest attempts of a destination, newest first, with their sequences. Rejects with NatsUnavailableError. */
export async function latestAttempts(
  nats: Nats,
  destination: string,
): Promise<readonly (Attempt & { readonly sequence: number })[]> {
  const subject = attemptsSubject(destination);
  const messages = await readRange(nats, ATTEMPTS_STREAM, 1, ATTEMPTS_MAX, subject);
  return messages
    .flatMap(({ data, sequence }) => {
      const attempt = parseValue(Attempt, data);
      return attempt === undefined ? [] : [{ ...attempt, sequence }];
    })
    .reverse();
}
