/**
 * Follows a stream from a sequence, through every restart of the server: messages come in stream order,
 * each once, and none is skipped that the stream still held.
 *
 * Reading uses the library's ordered consumer, in sessions: a session that may have been lost is replaced
 * by a new one after the last delivered message. Memory is bounded: at most about BUFFER_MESSAGES_MAX
 * messages or BUFFER_BYTES_MAX bytes wait for a slow reader, and WINDOW messages are in flight.
 */
import { setTimeout as delay } from 'node:timers/promises';
import {
  type Consumer,
  DeliverPolicy,
  type JsMsg,
  type OrderedConsumerOptions,
} from '@nats-io/jetstream';
import { answered, type Nats, NatsUnavailableError, streamStateBeyond } from './connection.ts';

/** Header with the id that a StreamWriter gives each message. */
export const ID_HEADER = 'Fillstream-Id';

/** A stored message. `data` is a view of a network buffer: copy what is kept for long. */
export class TailMessage {
  /** Position in the stream, from 1. */
  readonly sequence: number;
  readonly subject: string;
  readonly data: Uint8Array;
  /** When the server stored it, milliseconds since 1970. */
  readonly timestampMs: number;
  readonly #header: (name: string) => string;

  constructor(
    fields: { sequence: number; subject: string; data: Uint8Array; timestampMs: number },
    header: (name: string) => string,
  ) {
    this.sequence = fields.sequence;
    this.subject = fields.subject;
    this.data = fields.data;
    this.timestampMs = fields.timestampMs;
    this.#header = header;
  }

  /** The writer's id for the message; '' if none. Headers are parsed at the first use only. */
  get messageId(): string {
    // FEED keeps messages of version 0.1, which have a Nats-Msg-Id, for 72 hours after an upgrade.
    return this.#header(ID_HEADER) || this.#header('Nats-Msg-Id');
  }

  /** The value of a header, '' if absent. */
  header(name: string): string {
    return this.#header(name);
  }
}

export type TailOptions = {
  readonly stream: string;
  /** First sequence to deliver, at least 1. Beyond the end, the tail waits. */
  readonly fromSequence: number;
  /** One subject, wildcards allowed; servers before 2.10 cannot filter by several. */
  readonly filterSubject?: string;
  /** Ends the iteration, without an error. */
  readonly signal: AbortSignal;
  /** Called each time a lost session is replaced; for logs and metrics. */
  readonly onRestart?: (restart: { readonly next: number; readonly reason: string }) => void;
};

/**
 * The stream ends before a message that was delivered: it was lost or created anew, and its sequences are
 * used again. Positions from before are meaningless.
 */
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

const WINDOW = 1_024;
const BUFFER_MESSAGES_MAX = 8_192;
const BUFFER_BYTES_MAX = 64 * 1_048_576;
const RETRY_MS = 100;
// The client library reports a lost consumer after two silent intervals.
export const HEARTBEAT_MS = 500;
// The server removes a consumer that nobody reads: the backstop when `close` cannot reach it.
const INACTIVE_MS_MAX = 30_000;

/** Messages one by one; tailBatches costs less per message. */
export async function* tail(nats: Nats, options: TailOptions): AsyncGenerator<TailMessage> {
  for await (const batch of tailBatches(nats, options)) yield* batch;
}

/**
 * Messages as they arrive: each batch holds everything since the previous one and never waits to be full.
 * Sequences have gaps where retention removed messages.
 *
 * Throws StreamMissingError, StreamRewoundError and errors of the client library for wrong options. Waits
 * for an absent server.
 */
export async function* tailBatches(
  nats: Nats,
  options: TailOptions,
): AsyncGenerator<readonly TailMessage[]> {
  const follower = new Follower(nats, options);
  try {
    for (;;) {
      const batch = await follower.take();
      if (batch === undefined) return;
      yield batch;
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
  #session: Session | undefined;
  /** Why there is no session; undefined while there is one. */
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
    const { stream, filterSubject, onRestart } = this.#options;
    try {
      const state = await streamStateBeyond(this.#nats, stream, this.#delivered);
      if (state.lastSequence < this.#delivered) {
        throw new StreamRewoundError(stream, this.#delivered, state.lastSequence);
      }
      if (reason !== 'start' && reason !== FULL) onRestart?.({ next: this.#next, reason });
      this.#lost = undefined;
      const session = await openSession(this.#nats, {
        stream,
        start: { sequence: this.#next },
        ...(filterSubject === undefined ? {} : { filterSubject }),
        onMessage: (message) => this.#receive(message),
        onLost: (why) => this.#lose(why),
      });
      this.#session = session;
      // Lost before it was known here.
      if (this.#lost !== undefined) this.#lose(this.#lost);
    } catch (error) {
      if (!(error instanceof NatsUnavailableError)) throw error;
      this.#lost = reason;
      await delay(RETRY_MS, undefined, { signal: this.#options.signal }).catch(() => undefined);
    }
  }

  #receive(message: TailMessage): void {
    // The server clamps a start beyond the end to the end: drop older messages.
    if (message.sequence < this.#next) return;
    this.#next = message.sequence + 1;
    this.#delivered = message.sequence;
    this.#buffer.push(message);
    this.#bufferBytes += message.data.length;
    if (this.#buffer.length === 1) this.#wake();
    // A consumer cannot be paused. The reader that empties the buffer opens the next session.
    if (this.#buffer.length >= BUFFER_MESSAGES_MAX || this.#bufferBytes >= BUFFER_BYTES_MAX) {
      this.#lose(FULL);
    }
  }
}

const FULL = 'full';

type Session = {
  close(): void;
};

type SessionOptions = ConsumerOptions & {
  readonly onMessage: (message: TailMessage) => void;
  /** Called once, with a reason for logs; no message comes after it. */
  readonly onLost: (reason: string) => void;
};

/** Notices of a consumer that need no action. */
export const HARMLESS: ReadonlySet<string> = new Set(['heartbeat', 'next', 'debug', 'discard']);

/**
 * Reads a stream in order without a gap until it is closed or lost. A session never repairs itself:
 * the library's ordered consumer would, but after a restart of the server or missed heartbeats it requests messages
 * without resetting its count of pending ones and stalls for up to 45 s. So the first sign of trouble
 * ends the session, and its owner opens a new one where it stopped. See
 * https://github.com/nats-io/nats-architecture-and-design/issues/162
 *
 * Throws StreamMissingError and NatsUnavailableError.
 */
async function openSession(nats: Nats, options: SessionOptions): Promise<Session> {
  const { onMessage, onLost } = options;
  const consumer = await openConsumer(nats, options);
  let over = false;
  const messages = await consumer.consume({
    max_messages: WINDOW,
    idle_heartbeat: HEARTBEAT_MS,
    callback: (message) => {
      if (!over) onMessage(fromDelivered(message));
    },
  });

  function close(): void {
    if (over) return;
    over = true;
    removeListener();
    messages.stop();
    if (nats.connected) consumer.delete().catch(() => undefined);
  }
  function lose(reason: string): void {
    if (over) return;
    close();
    onLost(reason);
  }
  // The consumer lives in the server's memory: a server that comes back may not know it.
  const removeListener = nats.onStatus(({ type }) => {
    if (type === 'disconnect' || type === 'close') lose(type);
  });
  void messages.closed().then((error) => lose(error?.message ?? 'closed'));
  void (async () => {
    for await (const { type } of messages.status()) if (!HARMLESS.has(type)) lose(type);
  })();
  return { close };
}

export type ConsumerOptions = {
  readonly stream: string;
  readonly start: Start;
  readonly filterSubject?: string;
};

export type Start =
  | { readonly sequence: number }
  | { readonly timeMs: number }
  | { readonly lastPerSubject: true };

/** Throws StreamMissingError and NatsUnavailableError. */
export async function openConsumer(
  nats: Nats,
  { stream, start, filterSubject }: ConsumerOptions,
): Promise<Consumer> {
  return answered(nats, stream, () =>
    nats.js.consumers.get(stream, {
      ...startOptions(start),
      ...(filterSubject === undefined ? {} : { filter_subjects: filterSubject }),
      inactive_threshold: INACTIVE_MS_MAX,
    }),
  );
}

function startOptions(start: Start): Partial<OrderedConsumerOptions> {
  if ('sequence' in start) return { opt_start_seq: start.sequence };
  if ('timeMs' in start) return { opt_start_time: new Date(start.timeMs).toISOString() };
  return { deliver_policy: DeliverPolicy.LastPerSubject };
}

export function fromDelivered({ subject, data, headers, info }: JsMsg): TailMessage {
  const timestampMs = Math.floor(info.timestampNanos / 1_000_000);
  return new TailMessage(
    { sequence: info.streamSequence, subject, data, timestampMs },
    (name) => headers?.get(name) ?? '',
  );
}
