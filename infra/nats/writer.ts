/**
 * Appends messages to a stream one at a time. Each is stored exactly once and in the order of the calls, even if the
 * server restarts or other writers are active.
 *
 * Every publish states the stream's expected last sequence, so the server rejects late copies, and messages of a writer
 * that has not seen the newest message. After a failed publish, the writer reads the messages that were stored since
 * then: its own message counts as acknowledged, and those of other writers go to `onForeign`. Then it tries again.
 * `Nats-Msg-Id` is not used, because a leader that lost a message may refuse its id for the whole duplicate window
 * (docs/decisions/0001-processes-and-logs.md).
 */
import { setTimeout as delay } from 'node:timers/promises';
import { headers } from '@nats-io/transport-node';
import { LRUCache } from 'lru-cache';
import {
  answered,
  isOvertaken,
  type Nats,
  NatsUnavailableError,
  streamState,
} from './connection.ts';
import { getMessage, ID_HEADER, type StreamMessage, StreamRewoundError } from './reader.ts';

export type WriterOptions = {
  readonly stream: string;
  /**
   * Called with every message of other writers, in stream order, before this writer stores anything after it. If it
   * throws, this writer stops.
   */
  readonly onForeign?: (message: StreamMessage) => void;
};

export type Append = {
  /** Identifies the message in this stream; stored in the header ID_HEADER. */
  readonly id: string;
  readonly subject: string;
  /** Must not change until the message is stored. */
  readonly data: Uint8Array | string;
  readonly headers?: Readonly<Record<string, string>>;
};

/** The server rejects a message permanently, for example because it is too large. */
export class AppendRejectedError extends Error {
  override readonly name = 'AppendRejectedError';
}

/** The writer was closed. The message in flight may or may not be stored. */
export class WriterClosedError extends Error {
  override readonly name = 'WriterClosedError';
}

type Entry = Append & {
  readonly stored: PromiseWithResolvers<number>;
  /** Set if the message was found in the stream. */
  sequence?: number;
};

const PUBLISH_MS_MAX = 2_000;
const RETRY_MS = 100;
const QUEUE_BYTES_MAX = 64 * 1_048_576;
/** How many ids of other writers' messages are remembered, so that they are not stored again. */
const FOREIGN_IDS_MAX = 10_000;

/**
 * Opens a writer at the current end of the stream. Open it before you read the stream: messages that are stored later
 * go to `onForeign`. Throws StreamMissingError and NatsUnavailableError.
 */
export async function openWriter(nats: Nats, options: WriterOptions): Promise<StreamWriter> {
  const { lastSequence } = await streamState(nats, options.stream);
  return new StreamWriter(nats, options, lastSequence);
}

export class StreamWriter {
  readonly stats = {
    /** Messages passed to `append`. */
    published: 0,
    /** Messages that are stored. */
    acked: 0,
    /** Repeated publishes of a message. */
    resent: 0,
    /** Messages that were already in the stream: the acknowledgement was lost, or another writer stored the id. */
    duplicates: 0,
  };
  readonly #nats: Nats;
  readonly #options: WriterOptions;
  readonly #queue: Entry[] = [];
  readonly #foreign = new LRUCache<string, number>({ max: FOREIGN_IDS_MAX });
  /** The stream's last sequence, as far as this writer knows. */
  #last: number;
  #queuedBytes = 0;
  #running = false;
  #progressAtMs = 0;
  #failure: Error | undefined;

  constructor(nats: Nats, options: WriterOptions, lastSequence: number) {
    this.#nats = nats;
    this.#options = options;
    this.#last = lastSequence;
  }

  /**
   * Resolves with the sequence of the stored message. If another writer has stored the same id since this writer was
   * opened, resolves with that sequence and stores nothing. Waits while the server is unavailable.
   *
   * Any failure stops the writer: this and all later appends reject with AppendRejectedError, StreamRewoundError,
   * WriterClosedError or the error of `onForeign`. If more than QUEUE_BYTES_MAX are queued, rejects with RangeError
   * without stopping.
   */
  append(message: Append): Promise<number> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#queuedBytes + message.data.length > QUEUE_BYTES_MAX && this.#queue.length > 0) {
      return Promise.reject(
        new RangeError(`too many bytes are queued for ${this.#options.stream}`),
      );
    }
    const entry: Entry = { ...message, stored: Promise.withResolvers() };
    this.stats.published += 1;
    this.#queuedBytes += message.data.length;
    this.#queue.push(entry);
    if (!this.#running) void this.#run();
    return entry.stored.promise;
  }

  /** Resolves when everything appended so far is stored. Rejects with the errors of `append`. */
  async flush(): Promise<void> {
    if (this.#failure !== undefined) throw this.#failure;
    await this.#queue.at(-1)?.stored.promise;
  }

  /** Stops at once and rejects messages that are not stored yet; call `flush` first to lose nothing. */
  close(): void {
    this.#stop(new WriterClosedError(`the writer of ${this.#options.stream} was closed`));
  }

  /** How long the oldest queued message has waited to be stored, in milliseconds; 0 if none is queued. */
  get unstoredMs(): number {
    return this.#queue.length === 0 ? 0 : performance.now() - this.#progressAtMs;
  }

  async #run(): Promise<void> {
    this.#running = true;
    this.#progressAtMs = performance.now();
    for (let entry = this.#queue[0]; entry !== undefined; entry = this.#queue[0]) {
      try {
        const sequence = await this.#store(entry);
        // The writer was closed, which rejected the promise.
        if (this.#queue[0] !== entry) break;
        this.#queue.shift();
        this.#queuedBytes -= entry.data.length;
        this.stats.acked += 1;
        this.#progressAtMs = performance.now();
        entry.stored.resolve(sequence);
      } catch (error) {
        this.#stop(error instanceof Error ? error : new Error(String(error)));
      }
    }
    this.#running = false;
  }

  async #store(entry: Entry): Promise<number> {
    for (let attempt = 0; this.#failure === undefined; attempt += 1) {
      const found = entry.sequence ?? this.#foreign.get(entry.id);
      if (found !== undefined) {
        this.stats.duplicates += 1;
        return found;
      }
      if (attempt > 0) this.stats.resent += 1;
      if (await this.#publish(entry)) return this.#last;
      const before = this.#last;
      while (this.#failure === undefined && !(await this.#catchUp(entry))) await delay(RETRY_MS);
      // Nothing was stored, for example because there is no leader, so publishing again at once would fail.
      if (this.#last === before) await delay(RETRY_MS);
    }
    throw this.#failure;
  }

  /** False if it is unclear whether the message was stored. Throws if it can never be. */
  async #publish({ id, subject, data, headers: extra = {} }: Entry): Promise<boolean> {
    const { stream } = this.#options;
    const header = headers();
    header.set(ID_HEADER, id);
    for (const [name, value] of Object.entries(extra)) header.set(name, value);
    const expect = { streamName: stream, lastSequence: this.#last };
    try {
      const ack = await answered(this.#nats, stream, () =>
        this.#nats.js.publish(subject, data, {
          headers: header,
          expect,
          retries: 0,
          timeout: PUBLISH_MS_MAX,
        }),
      );
      // Without a quorum, nats-server 2.10 may acknowledge sequence 0 although nothing is stored.
      if (ack.seq <= this.#last) return false;
      this.#last = ack.seq;
      return true;
    } catch (cause) {
      if (cause instanceof NatsUnavailableError || isOvertaken(cause)) return false;
      throw new AppendRejectedError(`${stream} rejected message ${id}`, { cause });
    }
  }

  /** Reads the messages since the last known sequence. Returns false if the server is unavailable. */
  async #catchUp(entry: Entry): Promise<boolean> {
    const { stream, onForeign } = this.#options;
    try {
      const { lastSequence } = await streamState(this.#nats, stream, this.#last);
      if (lastSequence < this.#last) throw new StreamRewoundError(stream, this.#last, lastSequence);
      while (this.#last < lastSequence) {
        const message = await getMessage(this.#nats, stream, this.#last + 1);
        this.#last += 1;
        // The message was deleted or expired.
        if (message === undefined) continue;
        const { messageId, sequence } = message;
        if (messageId === entry.id) {
          entry.sequence = sequence;
          continue;
        }
        this.#foreign.set(messageId, sequence);
        onForeign?.(message);
      }
      return true;
    } catch (error) {
      if (error instanceof NatsUnavailableError) return false;
      throw error;
    }
  }

  #stop(error: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    this.#queuedBytes = 0;
    for (const { stored } of this.#queue.splice(0)) stored.reject(error);
  }
}
