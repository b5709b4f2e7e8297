/**
 * The newest ended sessions of each account, in a JetStream stream. Records are deduplicated by session id,
 * so that two processes that detect the loss of a third one write only one record.
 */
import { answered, type Nats } from '../../infra/nats/connection.ts';
import { readRange } from '../../infra/nats/reader.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { ClosedRecord } from './record.ts';

/** Event streams that ended. */
const SESSIONS_STREAM = 'SESSIONS';

const SUBJECT = 'sessions.';
const RECORDS_PER_ACCOUNT_MAX = 1_000;
const AGE_MAX_MS = 30 * 86_400_000;

export class History {
  readonly #nats: Nats;

  private constructor(nats: Nats) {
    this.#nats = nats;
  }

  static async open(nats: Nats, replicas: number): Promise<History> {
    await ensureStream(nats, {
      name: SESSIONS_STREAM,
      subjects: [`${SUBJECT}>`],
      maxAgeMs: AGE_MAX_MS,
      maxMessagesPerSubject: RECORDS_PER_ACCOUNT_MAX,
      replicas,
    });
    return new History(nats);
  }

  /** Adds records by account key. Rejects with NatsUnavailableError, possibly after storing some. */
  async add(closed: readonly (readonly [key: string, ClosedRecord])[]): Promise<void> {
    await Promise.all(
      closed.map(([key, record]) =>
        answered(this.#nats, SESSIONS_STREAM, () =>
          this.#nats.js.publish(SUBJECT + key, JSON.stringify(record), { msgID: record.id }),
        ),
      ),
    );
  }

  /** The newest records, newest first, and the number of all records. Rejects with NatsUnavailableError. */
  async newest(
    key: string,
    limit: number,
  ): Promise<{ readonly newest: readonly ClosedRecord[]; readonly count: number }> {
    const messages = await readRange(
      this.#nats,
      SESSIONS_STREAM,
      1,
      RECORDS_PER_ACCOUNT_MAX,
      SUBJECT + key,
    );
    const newest = messages
      .slice(-limit)
      .reverse()
      .map(({ data }) => ClosedRecord.parse(JSON.parse(new TextDecoder().decode(data))));
    return { newest, count: messages.length };
  }
}
