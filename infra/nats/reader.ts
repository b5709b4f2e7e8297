// Follows a stream for ever, through every restart of the server. Invariant: messages come in
// stream order, each once, none skipped that the stream still held. A lost session is replaced by
// a new one at the sequence after the last delivered. Memory is bounded: at most
// BUFFER_MESSAGES_MAX messages wait for a slow reader, and about BUFFER_BYTES_MAX of data.
import { setTimeout as delay } from 'node:timers/promises';
import { type Nats, NatsUnavailableError, streamStateBeyond } from './connection.ts';
import { ID_HEADER, openPull, type PullSession, TailMessage } from './pull.ts';

export { ID_HEADER, TailMessage };

export type TailOptions = {
  readonly stream: string;
  /** First sequence wanted, at least 1. Beyond the end: waits, and never delivers an older one. */
  readonly fromSequence: number;
  /** One subject, wildcards allowed; servers before 2.10 cannot filter by several. */
  readonly filterSubject?: string;
  /** Ends the iteration, without an error. */
  readonly signal: AbortSignal;
  /** Ends the iteration after so many messages. */
  readonly maxMessages?: number;
  /**
   * Called when the stream no longer holds `wanted`, which retention removed: delivery goes on at
   * `first`. Without a filter, a reader sees the same as a jump in the sequences.
   */
  readonly onGap?: (gap: { readonly wanted: number; readonly first: number }) => void;
  /** Called each time a session is replaced; for logs and metrics. */
  readonly onRestart?: (restart: { readonly next: number; readonly reason: string }) => void;
};

/** The stream ends before a message that was delivered: it was lost or made anew, and sequences
 *  are being used again. Positions from before mean nothing now. */
export class StreamRewoundError extends Error {
  override readonly name = 'StreamRewoundError';
  readonly delivered: number;
  readonly lastSequence: number;
  constructor(stream: string, delivered: number, lastSequence: number) {
    super(`stream ${stream} ends at ${lastSequence}, but ${delivered} was delivered`);
    this.delivered = delivered;
    this.lastSequence = lastSequence;
  }
}

const PULL_MESSAGES = 2_048;
const BUFFER_MESSAGES_MAX = 8_192;
const BUFFER_BYTES_MAX = 64 * 1_048_576;
const RETRY_MS = 100;

/** Messages one by one; see tailBatches, which costs less per message. */
export async function* tail(nats: Nats, options: TailOptions): AsyncGenerator<TailMessage> {
  for await (const batch of tailBatches(nats, options)) yield* batch;
}

/**
 * Messages as they arrive: each batch holds all that came since the last one was taken, and never
 * waits to be full.
 *
 * Throws StreamMissingError, StreamRewoundError, and what the client library throws for a wrong
 * option. An absent server is waited for.
 */
export async function* tailBatches(
  nats: Nats,
  options: TailOptions,
): AsyncGenerator<readonly TailMessage[]> {
  const follower = new Follower(nats, options);
  let left = options.maxMessages ?? Number.POSITIVE_INFINITY;
  try {
    while (left > 0) {
      const batch = await follower.take();
      if (batch === undefined) return;
      yield batch.length > left ? batch.slice(0, left) : batch;
      left -= batch.length;
    }
  } finally {
    follower.close();
  }
}

class Follower {
  readonly #nats: Nats;
  readonly #options: TailOptions;
  readonly #removeListener: () => void;
  #next: number;
  #delivered = 0;
  #session: PullSession | undefined;
  #lost: string | undefined = 'start';
  #buffer: TailMessage[] = [];
  #bufferBytes = 0;
  #wake: () => void = () => undefined;

  constructor(nats: Nats, options: TailOptions) {
    if (!Number.isSafeInteger(options.fromSequence) || options.fromSequence < 1) {
      throw new RangeError(`fromSequence must be an integer from 1, not ${options.fromSequence}`);
    }
    this.#nats = nats;
    this.#options = options;
    this.#next = options.fromSequence;
    this.#removeListener = nats.onStatus((status) => {
      if (status.type === 'reconnect') this.#wake();
    });
    options.signal.addEventListener('abort', this.#onAbort);
  }

  /** The messages that arrived since the last call; waits for one. Undefined after an abort. */
  async take(): Promise<readonly TailMessage[] | undefined> {
    for (;;) {
      if (this.#options.signal.aborted) return undefined;
      if (this.#buffer.length > 0) {
        const batch = this.#buffer;
        this.#buffer = [];
        this.#bufferBytes = 0;
        this.#refill();
        return batch;
      }
      if (this.#lost !== undefined && this.#nats.connected) await this.#open(this.#lost);
      else await this.#awake();
    }
  }

  close(): void {
    this.#removeListener();
    this.#options.signal.removeEventListener('abort', this.#onAbort);
    this.#session?.close();
  }

  readonly #onAbort = (): void => this.#wake();

  #awake(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve;
    });
  }

  #lose(reason: string): void {
    this.#session?.close();
    this.#session = undefined;
    this.#lost = reason;
    this.#wake();
  }

  async #open(reason: string): Promise<void> {
    const { stream, filterSubject, onGap, onRestart } = this.#options;
    try {
      const state = await streamStateBeyond(this.#nats, stream, this.#delivered);
      if (state.lastSequence < this.#delivered) {
        throw new StreamRewoundError(stream, this.#delivered, state.lastSequence);
      }
      if (state.firstSequence > this.#next) {
        onGap?.({ wanted: this.#next, first: state.firstSequence });
        this.#next = state.firstSequence;
      }
      if (reason !== 'start') onRestart?.({ next: this.#next, reason });
      this.#lost = undefined;
      const session = await openPull(this.#nats, {
        stream,
        start: { sequence: this.#next },
        ...(filterSubject === undefined ? {} : { filterSubject }),
        sink: {
          message: (message) => this.#receive(message),
          lost: (why) => this.#lose(why),
        },
      });
      this.#session = session;
      // Lost before it was known here, by a disconnect right after the answer.
      if (this.#lost !== undefined) this.#lose(this.#lost);
      this.#refill();
    } catch (error) {
      if (!(error instanceof NatsUnavailableError)) throw error;
      this.#lost = reason;
      await delay(RETRY_MS, undefined, { signal: this.#options.signal }).catch(() => undefined);
    }
  }

  #receive(message: TailMessage): void {
    // The server clamps a start beyond the end to the end: drop what is older than asked for.
    if (message.sequence >= this.#next) {
      this.#next = message.sequence + 1;
      this.#delivered = message.sequence;
      this.#buffer.push(message);
      this.#bufferBytes += message.data.length;
      if (this.#buffer.length === 1) this.#wake();
    }
    this.#refill();
  }

  /** Asks ahead as far as the buffer has room, in requests worth their cost. */
  #refill(): void {
    const session = this.#session;
    if (session === undefined || this.#bufferBytes > BUFFER_BYTES_MAX) return;
    const room = BUFFER_MESSAGES_MAX - this.#buffer.length - session.outstanding;
    if (session.outstanding < PULL_MESSAGES && room >= PULL_MESSAGES) session.pull(PULL_MESSAGES);
  }
}
