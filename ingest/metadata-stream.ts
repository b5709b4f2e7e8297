/**
 * METADATA as ingest writes and reads it: every new or changed listing and profile and every balance
 * that was read. After a restart listings and profiles are read back, so that ingest neither fetches nor
 * publishes them again.
 */
import type { Logger } from 'pino';
import { answered, type Nats, NatsUnavailableError } from '../infra/nats/connection.ts';
import { lastMessage, readRange } from '../infra/nats/read.ts';
import { retry } from '../infra/retry.ts';
import { decodeLedgerEvent, LEDGER_STREAM, type Resolution } from './contract.ts';
import {
  decodeObservation,
  encodeObservation,
  METADATA_STREAM,
  type MetadataEvent,
  metadataSubject,
} from './contract-metadata.ts';

/** Bounds the time of a restart; older metadata is fetched again when it is used. */
const RESTORED_MESSAGES_MAX = 5_000_000;
const READ_MESSAGES = 10_000;
const PROGRESS_MS = 2_000;

const RESTORED = [
  {
    stream: METADATA_STREAM,
    subject: 'metadata.*.listing',
    decode: (data: Uint8Array) => decodeObservation(data).event,
  },
  {
    stream: METADATA_STREAM,
    subject: 'metadata.*.profile',
    decode: (data: Uint8Array) => decodeObservation(data).event,
  },
  {
    stream: LEDGER_STREAM,
    subject: 'ledger.*.resolution',
    decode(data: Uint8Array) {
      const event = decodeLedgerEvent(data);
      return event.kind === 'resolution' ? event : undefined;
    },
  },
];

/** Publishes at least once; the time of observation makes a second copy harmless. */
export class MetadataPublisher {
  readonly #nats: Nats;
  readonly #signal: AbortSignal;
  /** When each unstored event was sent, oldest first. */
  readonly #unstored = new Map<number, number>();
  #published = 0;
  #acked = 0;
  #resent = 0;

  constructor(nats: Nats, signal: AbortSignal) {
    this.#nats = nats;
    this.#signal = signal;
  }

  /** Resolves when JetStream has stored the event. Rejects when the signal aborts, or for good. */
  async publish(event: MetadataEvent): Promise<void> {
    const data = encodeObservation({ observedAtMs: Date.now(), event });
    this.#published += 1;
    const number = this.#published;
    this.#unstored.set(number, performance.now());
    try {
      await retry(() => this.#send(metadataSubject(event), data), {
        signal: this.#signal,
        isRetryable: (error) => error instanceof NatsUnavailableError,
        onRetry: () => {
          this.#resent += 1;
        },
      });
      this.#acked += 1;
    } finally {
      this.#unstored.delete(number);
    }
  }

  get stats() {
    const [published, acked, resent] = [this.#published, this.#acked, this.#resent];
    return { published, acked, resent, duplicates: 0 };
  }

  /** For how long (milliseconds) the oldest event that was sent is not stored. */
  get unstoredMs(): number {
    const [oldest] = this.#unstored.values();
    return oldest === undefined ? 0 : performance.now() - oldest;
  }

  #send(subject: string, data: string): Promise<unknown> {
    const nats = this.#nats;
    return answered(nats, METADATA_STREAM, () => nats.js.publish(subject, data));
  }
}

/**
 * Calls `onEvent` with every listing and profile of METADATA and every resolution of LEDGER, older
 * ones before newer ones.
 */
export async function restoreMetadata(
  nats: Nats,
  logger: Logger,
  onEvent: (event: MetadataEvent | Resolution) => void,
): Promise<void> {
  const startedAt = performance.now();
  let loggedAt = startedAt;
  let events = 0;
  const seconds = () => Math.round((performance.now() - startedAt) / 100) / 10;
  for (const { stream, subject, decode } of RESTORED) {
    const last = (await lastMessage(nats, stream, '>'))?.sequence ?? 0;
    const first = Math.max(1, last - RESTORED_MESSAGES_MAX);
    for (let next = first; ; ) {
      const messages = await readRange(nats, stream, next, READ_MESSAGES, subject);
      const newest = messages.at(-1);
      if (newest === undefined) break;
      for (const { data } of messages) {
        const event = decode(data);
        if (event !== undefined) onEvent(event);
      }
      events += messages.length;
      next = newest.sequence + 1;
      if (performance.now() - loggedAt < PROGRESS_MS) continue;
      loggedAt = performance.now();
      const percent = Math.round(((next - first) * 100) / Math.max(1, last - first));
      logger.info({ subject, percent, events, seconds: seconds() }, 'restoring metadata');
    }
  }
  if (events > 0) logger.info({ events, seconds: seconds() }, 'metadata restored');
}
