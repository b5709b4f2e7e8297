/**
 * The FEED stream as this process sees it: one tail that fills the ring, and reads of what is
 * older. Invariant: events come in stream order, each once; what is skipped, and a stream that is
 * not the one that was followed, is told. It knows no listeners and no clients' positions.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
  streamState,
  streamStateBeyond,
} from '../../infra/nats/connection.ts';
import { firstMessageAtOrAfter, getMessage } from '../../infra/nats/read.ts';
import { type TailMessage, tailBatches } from '../../infra/nats/reader.ts';
import { ChunkCache } from './chunks.ts';
import { NO_POSITION, type Position, position } from './cursor.ts';
import { FeedEvent, type Offered } from './event.ts';
import type { Reading } from './packed.ts';
import { Ring } from './ring.ts';

/** The newest message of the feed; its position is unknown where it was removed before we came. */
export type Head = {
  readonly sequence: number;
  readonly position: Position;
  readonly storedAtMs: number;
};

export type LogSink = {
  /** An event that is now in the ring; `skippedAfter` where it does not follow the last one. */
  event(event: FeedEvent, skippedAfter: Head | undefined): void;
  /** The stream lost messages or was made anew: no position holds unless it is located again. */
  replaced(last: Head): void;
};

export type LogOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly stream: string;
  readonly ringEventsMax: number;
  readonly ringBytesMax: number;
  readonly chunkBytesMax: number;
  readonly sink: LogSink;
};

/** About what a listener that reads has room for. */
const PAGE_EVENTS_MAX = 64;
/**
 * A burst gives way to sockets and new requests after this much. Nothing reaches a socket before,
 * so the bytes must stay far below what may wait for a live listener.
 */
const SLICE_MS_MAX = 40;
const SLICE_BYTES_MAX = 65_536;
const PROOF_RETRY_MS = 200;
/**
 * A write to a socket costs about the same for one event as for several. So after a fan-out that
 * took long, what comes within twice that time is written together.
 */
const REST_PER_WORK = 2;
const REST_MS_MAX = 10;
/** A shorter fan-out is not worth a timer. */
const WORK_MS_MIN = 2;

export class FeedLog {
  readonly #options: LogOptions;
  readonly #ring: Ring;
  readonly #chunks: ChunkCache;
  #head: Head | undefined;
  /** First sequence of a session of the tail whose connection to what came before is unproven. */
  #doubts: number[] = [];
  #continuation: number | undefined;
  #generation = 0;

  constructor(options: LogOptions) {
    this.#options = options;
    this.#ring = new Ring(options.ringEventsMax, options.ringBytesMax);
    this.#chunks = new ChunkCache(options.nats, options.stream, options.chunkBytesMax);
  }

  /** Undefined until the stream was reached for the first time. */
  get head(): Head | undefined {
    return this.#head;
  }

  /** Grows each time the stream turns out to be another one. */
  get generation(): number {
    return this.#generation;
  }

  /**
   * Finds the head, or proves that the stream still continues the one that was followed.
   *
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async attach(): Promise<void> {
    if (this.#head === undefined) {
      const { lastSequence } = await streamState(this.#options.nats, this.#options.stream);
      this.#head = await this.#headAt(lastSequence);
    } else if (!(await this.#continues(this.#head))) await this.#replace(this.#head);
  }

  /**
   * Takes in what is stored after the head until the signal ends it, or until the stream turns out
   * to be another one: then attach again. Rejects as `attach` and `tailBatches` do.
   */
  async follow(signal: AbortSignal): Promise<void> {
    const { nats, stream, logger } = this.#options;
    const tail = new AbortController();
    const fromSequence = (this.#head?.sequence ?? 0) + 1;
    // Proven again with the first message: the server may be gone since `attach`.
    this.#doubts = [fromSequence];
    const batches = tailBatches(nats, {
      stream,
      fromSequence,
      signal: AbortSignal.any([signal, tail.signal]),
      onRestart: ({ next, reason }) => {
        logger.info({ stream, next, reason }, 'the tail of the feed started again');
        this.#doubts.push(next);
        // At once as well: a stream that lost messages may bring none from `next` on for long.
        void this.#proveHead(tail);
      },
    });
    void this.#proveHead(tail);
    try {
      for await (const batch of batches) {
        const startedAt = performance.now();
        if (!(await this.#takeAll(batch))) return;
        // The fan-out is done when the sockets were written, at the end of this turn.
        await new Promise<void>((resolve) => process.nextTick(resolve));
        await this.#rest(performance.now() - startedAt);
      }
    } finally {
      tail.abort();
    }
  }

  /**
   * Events after a sequence, in order, from the ring or the stream; the first does not follow it
   * where some were removed. Empty when nothing up to the head is left.
   *
   * Rejects as `attach` does.
   */
  async after(sequence: number, reading: Reading): Promise<readonly Offered[]> {
    const { nats, stream } = this.#options;
    const head = this.#head?.sequence ?? 0;
    let at = sequence;
    while (at < head) {
      const held = this.#ringAfter(at);
      if (held.length > 0) return held;
      const chunk = await this.#chunks.covering(at + 1, head, reading);
      const events = chunk.packs.find(({ last }) => last > at)?.after(at) ?? [];
      if (events.length > 0) return events;
      const { firstSequence } = await streamState(nats, stream);
      const first = this.firstKept(firstSequence);
      at = first > at + 1 ? first - 1 : chunk.end;
    }
    return [];
  }

  /** Sequence at which the feed went on when it was last seen replaced. */
  get continuation(): number | undefined {
    return this.#continuation;
  }

  /** The first sequence that can be delivered, given the first that the stream holds. */
  firstKept(firstSequence: number): number {
    return Math.min(firstSequence, this.#ring.oldest?.sequence ?? firstSequence);
  }

  /** The position of a message, from memory alone. */
  remembered(sequence: number): Position | undefined {
    const head = this.#head;
    if (head?.sequence === sequence && head.position !== NO_POSITION) return head.position;
    return this.#ring.at(sequence)?.position;
  }

  /**
   * The position of a message at or before the head, for a listener that then reads on as given.
   * Rejects as `attach` does.
   */
  async stored(sequence: number, reading: Reading): Promise<Position | undefined> {
    const { packs } = await this.#chunks.covering(sequence, this.#head?.sequence ?? 0, reading);
    return packs.find(({ last }) => last >= sequence)?.positionAt(sequence);
  }

  #ringAfter(sequence: number): FeedEvent[] {
    const events: FeedEvent[] = [];
    for (let next = sequence + 1; events.length < PAGE_EVENTS_MAX; next += 1) {
      const event = this.#ring.at(next);
      if (event === undefined) break;
      events.push(event);
    }
    return events;
  }

  /** False where a message is not of the stream that was followed. */
  async #takeAll(batch: readonly TailMessage[]): Promise<boolean> {
    let endsAt = performance.now() + SLICE_MS_MAX;
    let bytes = 0;
    for (const message of batch) {
      const [doubt] = this.#doubts;
      if (doubt !== undefined && message.sequence >= doubt) {
        if (this.#head !== undefined && !(await this.#continues(this.#head))) return false;
        this.#doubts.shift();
      }
      this.#take(message);
      bytes += message.data.length;
      if (bytes < SLICE_BYTES_MAX && performance.now() < endsAt) continue;
      await setImmediate();
      endsAt = performance.now() + SLICE_MS_MAX;
      bytes = 0;
    }
    return true;
  }

  /** Lets events gather after a fan-out of so many milliseconds. */
  async #rest(busyMs: number): Promise<void> {
    if (busyMs < WORK_MS_MIN) return;
    const ms = Math.min(busyMs * REST_PER_WORK, REST_MS_MAX);
    await setTimeout(ms, undefined, { ref: false });
  }

  #take(message: TailMessage): void {
    const event = new FeedEvent(message);
    const last = this.#head;
    this.#ring.push(event);
    this.#head = event;
    const follows = last === undefined || event.sequence === last.sequence + 1;
    this.#options.sink.event(event, follows ? undefined : last);
  }

  /** Ends the tail when the stream turns out to be another one; asks until it is answered. */
  async #proveHead(tail: AbortController): Promise<void> {
    while (!tail.signal.aborted) {
      try {
        if (this.#head !== undefined && !(await this.#continues(this.#head))) tail.abort();
        return;
      } catch (error) {
        const passes = error instanceof NatsUnavailableError || error instanceof StreamMissingError;
        if (!passes) throw error;
        await setTimeout(PROOF_RETRY_MS, undefined, { ref: false });
      }
    }
  }

  /** Whether the stream holds, or has removed, the very message that is the head. */
  async #continues(head: Head): Promise<boolean> {
    const { nats, stream } = this.#options;
    const { lastSequence } = await streamStateBeyond(nats, stream, head.sequence);
    if (lastSequence < head.sequence) return false;
    if (head.position === NO_POSITION) return true;
    const message = await getMessage(nats, stream, head.sequence);
    return message === undefined || position(head.sequence, message.messageId) === head.position;
  }

  /** Goes on in a stream that lost messages or was made anew, at what was stored after our last. */
  async #replace(last: Head): Promise<void> {
    const { nats, stream, logger, sink } = this.#options;
    const later = await firstMessageAtOrAfter(nats, stream, last.storedAtMs + 1);
    const { lastSequence } = await streamState(nats, stream);
    const continuation = later?.sequence ?? lastSequence + 1;
    this.#head = await this.#headAt(continuation - 1);
    this.#continuation = continuation;
    this.#ring.clear();
    this.#chunks.clear();
    this.#generation += 1;
    logger.warn({ stream, position: last.position, continuation }, 'the feed was replaced');
    sink.replaced(last);
  }

  async #headAt(sequence: number): Promise<Head> {
    const { nats, stream } = this.#options;
    const message = sequence === 0 ? undefined : await getMessage(nats, stream, sequence);
    if (message === undefined) return { sequence, position: NO_POSITION, storedAtMs: 0 };
    const at = position(sequence, message.messageId);
    return { sequence, position: at, storedAtMs: message.timestampMs };
  }
}
