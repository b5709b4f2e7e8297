/**
 * This process's view of the FEED stream: one reader that follows it forever and keeps the newest events
 * in a ring. Invariant: the sink gets events once and in stream order, and a report of skipped messages or
 * a replaced stream. The log has no access to listeners and their cursors.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { z } from 'zod';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
  streamState,
} from '../../infra/nats/connection.ts';
import {
  firstMessageAtOrAfter,
  getMessage,
  refuseDamage,
  refuseHoles,
  StreamDamagedError,
  type StreamMessage,
  StreamRewoundError,
  tailBatches,
} from '../../infra/nats/reader.ts';
import {
  decodeFeedEvent,
  isFinality,
  isMatch,
  type FeedEvent as Message,
} from '../../ingest/contract.ts';
import { type Cursor, cursorOf, NO_CURSOR } from './cursor.ts';
import { encodeMatch, type Format, matchBlock, sequelBlock } from './encode.ts';
import { type Facts, factsOf, factsOfSequel } from './filter.ts';
import { rounds } from './rounds.ts';

/** The newest message of the feed. Its cursor is unknown if the message was removed before we started. */
export type Head = {
  readonly sequence: number;
  readonly cursor: Cursor;
  readonly storedAtMs: number;
};

export type LogSink = {
  /** Called for each event added to the ring. `skippedAfter` is set if it does not directly follow the last one. */
  event(event: LogEvent, skippedAfter: Head | undefined): void;
  /** Called when the stream lost messages or was recreated, so every cursor must be located again. */
  replaced(last: Head): void;
};

export type LogOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly stream: string;
  /** Limits of the ring: number of events, and bytes of their messages. */
  readonly ringEventsMax: number;
  readonly ringBytesMax: number;
};

/** An event of the feed before a listener's filter is applied. */
export type Offered = {
  readonly sequence: number;
  readonly cursor: Cursor;
  /** Whether this is a `final` event, which only some listeners want. */
  readonly isFinality: boolean;
  /** Whether this is a match, not a later event about one. */
  readonly isMatch: boolean;
  /** Undefined if the message cannot be read. Such a message is skipped. */
  readonly facts: Facts | undefined;
  /** The event's block. Throws if the message cannot be read. */
  frame(format: Format): Buffer;
};

const RETRY_MS = 250;
const LAG_CHECK_MS = 2_000;
/** A few seconds at the highest expected rate. */
const LAG_MESSAGES_MAX = 10_000;
/** During a burst, sockets and new requests get a turn after this much work. */
const SLICE_MS_MAX = 40;
/**
 * Bytes of messages that are taken during a round of writes (rounds.ts). A live listener has those of two rounds pending
 * at most, so they must stay far below the limit on its unsent bytes.
 */
const ROUND_BYTES_MAX = 65_536;
export class FeedLog {
  /** Undefined until the stream is reached for the first time. */
  head: Head | undefined;
  /** Incremented each time the stream turns out to be a different one. */
  generation = 0;
  /** The sequence at which the feed continued when it was last replaced. */
  continuation: number | undefined;
  /** Messages of the stream that had not been read at the last check. */
  behind = 0;
  readonly #options: LogOptions;
  readonly #ring: Ring;
  readonly #abort = new AbortController();
  #sink: LogSink | undefined;
  #running: Promise<unknown> = Promise.resolve();
  /** Aborting it ends the current reader; the next one attaches to the stream again. */
  #reader = new AbortController();
  #trouble: string | undefined = 'the feed is starting';
  #lag: string | undefined;
  #damage: StreamDamagedError | undefined;
  /** Bytes taken since a round ended. */
  #taken = { round: 0, bytes: 0 };

  constructor(options: LogOptions) {
    this.#options = options;
    this.#ring = new Ring(options.ringEventsMax, options.ringBytesMax);
  }

  /** Follows the stream until `stop`. Resolves after the first attempt, successful or not. */
  async start(sink: LogSink): Promise<void> {
    this.#sink = sink;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#running = Promise.all([this.#run(resolve), this.#watchLag()]);
    await promise;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
  }

  /** Why the stream is not being read; undefined while it is. */
  get trouble(): string | undefined {
    return this.#trouble ?? this.#lag;
  }

  /** Records a damaged message. Listeners get a gap there, and the feed is not ready while the message is stored. */
  damaged(error: StreamDamagedError): void {
    if (this.#damage?.message === error.message) return;
    this.#options.logger.error({ err: error }, 'the feed is damaged');
    this.#damage = error;
  }

  /** Names the message of the stream that is damaged; undefined if there is none. */
  get damage(): string | undefined {
    return this.#damage?.message;
  }

  /** Up to `countMax` events that directly follow a sequence; empty if the ring lacks the first of them. */
  ringAfter(sequence: number, countMax: number): LogEvent[] {
    const events: LogEvent[] = [];
    for (let next = sequence + 1; events.length < countMax; next += 1) {
      const event = this.#ring.at(next);
      if (event === undefined) break;
      events.push(event);
    }
    return events;
  }

  /** The first sequence that can be delivered, given the first that the stream holds. */
  firstKept(firstSequence: number): number {
    return Math.min(firstSequence, this.#ring.oldest?.sequence ?? firstSequence);
  }

  /** The cursor of a message if it is in memory. */
  remembered(sequence: number): Cursor | undefined {
    const head = this.head;
    if (head?.sequence === sequence && head.cursor !== NO_CURSOR) return head.cursor;
    return this.#ring.at(sequence)?.cursor;
  }

  async #run(firstAttempt: () => void): Promise<void> {
    const { signal } = this.#abort;
    while (!signal.aborted) {
      try {
        const head = await this.#attach();
        this.#trouble = undefined;
        firstAttempt();
        await this.#follow(head, signal);
      } catch (error) {
        this.#note(error);
        firstAttempt();
        await this.#pause(RETRY_MS);
      }
    }
  }

  async #watchLag(): Promise<void> {
    const { nats, stream } = this.#options;
    while (!this.#abort.signal.aborted) {
      await this.#pause(LAG_CHECK_MS);
      try {
        const head = this.head?.sequence ?? 0;
        const { lastSequence } = await streamState(nats, stream, head);
        // The stream lost messages or was recreated while the reader waited for the next one.
        if (lastSequence < head) this.#reader.abort();
        const behind = lastSequence - head;
        this.behind = Math.max(0, behind);
        this.#lag = behind > LAG_MESSAGES_MAX ? `the feed is ${behind} messages behind` : undefined;
        await this.#recheckDamage();
      } catch (error) {
        if (!isTemporary(error)) throw error;
        this.#lag = error.message;
      }
    }
  }

  /** Checks whether messages that are missing from a range are damaged. */
  async #examine(range: Parameters<typeof refuseHoles>[2]): Promise<void> {
    try {
      await refuseHoles(this.#options.nats, this.#options.stream, range);
    } catch (error) {
      if (!(error instanceof StreamDamagedError)) throw error;
      this.damaged(error);
    }
  }

  /** Forgets a damaged message that was restored or removed. */
  async #recheckDamage(): Promise<void> {
    const { nats, stream } = this.#options;
    if (this.#damage === undefined) return;
    try {
      await refuseDamage(nats, stream, this.#damage.sequence);
      this.#damage = undefined;
    } catch (error) {
      if (!(error instanceof StreamDamagedError)) throw error;
    }
  }

  async #pause(ms: number): Promise<void> {
    const { signal } = this.#abort;
    // It rejects only after an abort, which the loops check themselves.
    await delay(ms, undefined, { signal, ref: false }).catch(() => undefined);
  }

  /**
   * A temporary error is logged once and retried. Any other error is a bug: it becomes an unhandled rejection
   * and ends the process, so that a new one starts clean.
   */
  #note(error: unknown): void {
    if (!isTemporary(error)) throw error;
    if (this.#trouble !== error.message) {
      this.#options.logger.warn({ err: error }, 'the feed cannot be read');
    }
    this.#trouble = error.message;
  }

  /** Finds the head, or checks that the stream still continues the one followed before. */
  async #attach(): Promise<Head> {
    if (this.head === undefined) {
      const { lastSequence } = await streamState(this.#options.nats, this.#options.stream);
      this.head = await this.#headAt(lastSequence);
    } else if (!(await this.#continues(this.head))) await this.#replace(this.head);
    return this.head;
  }

  /**
   * Reads the messages after the head until the signal aborts or the stream may have been replaced. Then
   * `#attach` must be called again.
   */
  async #follow(head: Head, signal: AbortSignal): Promise<void> {
    const { nats, stream, logger } = this.#options;
    const reader = new AbortController();
    this.#reader = reader;
    const batches = tailBatches(nats, {
      stream,
      fromSequence: head.sequence + 1,
      signal: AbortSignal.any([signal, reader.signal]),
      onRestart: ({ next, reason }) => {
        logger.info({ stream, next, reason }, 'the reader of the feed restarted');
        reader.abort();
      },
    });
    let isProven = false;
    for await (const batch of batches) {
      // Check again with the first messages, because the stream may have been replaced since `#attach`.
      if (!isProven && !(await this.#continues(head))) return;
      isProven = true;
      const start = (this.head ?? head).sequence + 1;
      await this.#takeAll(batch);
      const read = batch.map(({ sequence }) => sequence);
      await this.#examine({ start, end: read.at(-1) ?? 0, read });
    }
  }

  async #takeAll(batch: readonly StreamMessage[]): Promise<void> {
    let endsAt = performance.now() + SLICE_MS_MAX;
    for (const message of batch) {
      this.#take(message);
      const taken = this.#taken.round === rounds.ended ? this.#taken.bytes : 0;
      this.#taken = { round: rounds.ended, bytes: taken + message.data.length };
      const isFull = this.#taken.bytes >= ROUND_BYTES_MAX;
      if (!isFull && performance.now() < endsAt) continue;
      await setImmediate();
      if (isFull) {
        await rounds.ending();
        this.#taken = { round: rounds.ended, bytes: 0 };
      }
      endsAt = performance.now() + SLICE_MS_MAX;
    }
  }

  #take(message: StreamMessage): void {
    const event = new LogEvent(message);
    const last = this.head;
    this.#ring.push(event);
    this.head = event;
    const follows = last === undefined || event.sequence === last.sequence + 1;
    this.#sink?.event(event, follows ? undefined : last);
  }

  /** Whether the stream still contains the head's message or has removed it, rather than replaced it. */
  async #continues(head: Head): Promise<boolean> {
    const { nats, stream } = this.#options;
    const { lastSequence } = await streamState(nats, stream, head.sequence);
    if (lastSequence < head.sequence) return false;
    if (head.cursor === NO_CURSOR) return true;
    const message = await getMessage(nats, stream, head.sequence);
    return message === undefined || cursorOf(head.sequence, message.messageId) === head.cursor;
  }

  /** Continues in a stream that lost messages or was recreated, with the first message stored after our last one. */
  async #replace(last: Head): Promise<void> {
    const { nats, stream, logger } = this.#options;
    const later = await firstMessageAtOrAfter(nats, stream, last.storedAtMs + 1);
    const { lastSequence } = await streamState(nats, stream);
    const continuation = later?.sequence ?? lastSequence + 1;
    this.head = await this.#headAt(continuation - 1);
    this.continuation = continuation;
    this.#ring.clear();
    this.generation += 1;
    logger.warn({ stream, cursor: last.cursor, continuation }, 'the feed was replaced');
    this.#sink?.replaced(last);
  }

  async #headAt(sequence: number): Promise<Head> {
    const { nats, stream } = this.#options;
    const message = sequence === 0 ? undefined : await getMessage(nats, stream, sequence);
    if (message === undefined) return { sequence, cursor: NO_CURSOR, storedAtMs: 0 };
    const cursor = cursorOf(sequence, message.messageId);
    return { sequence, cursor, storedAtMs: message.timestampMs };
  }
}

function isTemporary(
  error: unknown,
): error is NatsUnavailableError | StreamMissingError | StreamRewoundError {
  return (
    error instanceof NatsUnavailableError ||
    error instanceof StreamMissingError ||
    error instanceof StreamRewoundError
  );
}

/** An event in the ring. Its facts and frames are computed on first use and shared by all listeners. */
export class LogEvent implements Offered {
  readonly sequence: number;
  readonly cursor: Cursor;
  /** When the stream stored it, milliseconds since the epoch. */
  readonly storedAtMs: number;
  readonly messageId: string;
  readonly isFinality: boolean;
  readonly isMatch: boolean;
  /** Size of the message. Facts and all formats take at most about four times as much. */
  readonly bytes: number;
  readonly #data: Buffer;
  /** null if the message cannot be read. */
  #facts: Facts | null | undefined;
  readonly #frames: Partial<Record<Format, Buffer>> = {};

  constructor(message: StreamMessage) {
    this.sequence = message.sequence;
    this.cursor = cursorOf(message.sequence, message.messageId);
    this.storedAtMs = message.timestampMs;
    this.messageId = message.messageId;
    this.isFinality = isFinality(message.messageId);
    this.isMatch = isMatch(message.messageId);
    this.bytes = message.data.length;
    // Copy the data, which is a view of a much larger network buffer.
    this.#data = Buffer.from(message.data);
  }

  get facts(): Facts | undefined {
    if (this.#facts === undefined) this.#facts = readEvent(this.#data)?.facts ?? null;
    return this.#facts ?? undefined;
  }

  /** Undefined if it cannot be read. */
  get message(): Message | undefined {
    return readEvent(this.#data)?.message;
  }

  frame(format: Format): Buffer {
    this.#frames[format] ??= encode(decodeFeedEvent(this.#data), this, format);
    return this.#frames[format];
  }
}

/** A message of the stream and its facts; undefined if it is not a FEED event. */
export function readEvent(data: Uint8Array) {
  try {
    const message = decodeFeedEvent(data);
    const facts = message.kind === 'match' ? factsOf(message) : factsOfSequel(message);
    return { message, facts };
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof z.ZodError) return undefined;
    throw error;
  }
}

/** The block of a message. */
export function encode(
  message: Message,
  { cursor, messageId }: { readonly cursor: Cursor; readonly messageId: string },
  format: Format,
): Buffer {
  return Buffer.from(
    message.kind === 'match'
      ? matchBlock(cursor, encodeMatch(message, format, messageId), format)
      : sequelBlock(cursor, message, format),
  );
}

/**
 * The newest events in memory, in stream order without holes. The ring is limited by number and by bytes of
 * the messages, and drops the oldest first.
 */
export class Ring {
  readonly #slots: (LogEvent | undefined)[] = [];
  readonly #eventsMax: number;
  readonly #bytesMax: number;
  /** Sequences of the oldest event held, and of the one after the newest. */
  #first = 0;
  #next = 0;
  #bytes = 0;

  constructor(eventsMax: number, bytesMax: number) {
    this.#eventsMax = eventsMax;
    this.#bytesMax = bytesMax;
  }

  /** The oldest event; undefined while the ring is empty. */
  get oldest(): LogEvent | undefined {
    return this.at(this.#first);
  }

  /** Adds the newest event. If it does not follow the last one, the ring is emptied first. */
  push(event: LogEvent): void {
    if (event.sequence !== this.#next) this.clear();
    if (this.#first === this.#next) this.#first = event.sequence;
    if (event.sequence - this.#first >= this.#eventsMax) this.#dropOldest();
    this.#slots[event.sequence % this.#eventsMax] = event;
    this.#next = event.sequence + 1;
    this.#bytes += event.bytes;
    // The newest event is kept even if it exceeds the limit.
    while (this.#bytes > this.#bytesMax && this.#first < event.sequence) this.#dropOldest();
  }

  /** The event at a sequence; undefined if the ring does not hold it. */
  at(sequence: number): LogEvent | undefined {
    if (sequence < this.#first || sequence >= this.#next) return undefined;
    return this.#slots[sequence % this.#eventsMax];
  }

  clear(): void {
    this.#slots.length = 0;
    this.#first = 0;
    this.#next = 0;
    this.#bytes = 0;
  }

  #dropOldest(): void {
    this.#bytes -= this.oldest?.bytes ?? 0;
    this.#slots[this.#first % this.#eventsMax] = undefined;
    this.#first += 1;
  }
}
