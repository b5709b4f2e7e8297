/**
 * Resuming: finds where delivery starts for a client's cursor, and reads the events after it from the ring
 * or the stream. Stored events are read in aligned chunks. Listeners share a chunk, which is read once
 * however many wait for it. Invariant: a cursor is valid only if the message at its sequence confirms it.
 * Otherwise the client gets a `gap`, even if only that message is missing and no event was lost.
 */
import { setImmediate } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { type Nats, NatsUnavailableError, streamState } from '../../infra/nats/connection.ts';
import {
  firstMessageAtOrAfter,
  getMessage,
  readRange,
  refuseHoles,
  StreamDamagedError,
  type StreamMessage,
} from '../../infra/nats/reader.ts';
import { inParts } from '../../infra/parts.ts';
import { createSlots } from '../../infra/slots.ts';
import { type FeedEvent, isFinality, isMatch } from '../../ingest/contract.ts';
import {
  attainable,
  type Cursor,
  cursorOf,
  NO_CURSOR,
  sequenceOf,
  unprovenBefore,
} from './cursor.ts';
import type { Format } from './encode.ts';
import { encode, type FeedLog, LogEvent, type Offered, readEvent } from './feed-log.ts';
import { type Facts, type Filter, matches } from './filter.ts';

/** Delivery starts after `sequence`. */
export type Start = {
  readonly sequence: number;
  /** Cursor of the message at `sequence`; NO_CURSOR if it is unknown. */
  readonly cursor: Cursor;
  /** Set if the requested cursor is no longer part of this feed. */
  readonly gap?: { readonly firstAvailable: Cursor };
};

/** Events that pass a filter, in order. */
export type RecentEvents = {
  readonly events: readonly Offered[];
  /** Cursor of the newest examined event; NO_CURSOR if there is none. */
  readonly cursor: Cursor;
  /** Whether there are later events. */
  readonly hasMore: boolean;
  /** Whether events at the start of the page or in it are no longer stored. */
  readonly hasGap: boolean;
};

/** What an event of FEED says. */
export type Decoded = {
  readonly event: FeedEvent;
  readonly messageId: string;
  readonly sequence: number;
};

/** All stored events from one sequence to another, both inclusive. */
type Chunk = { readonly end: number; readonly events: readonly Offered[]; readonly bytes: number };

/** How a listener reads stored events. */
export type Reading = {
  readonly format: Format;
  readonly isFiltered: boolean;
  /** Whether it wants `final` events. */
  readonly withFinal: boolean;
};

type Range = { readonly start: number; readonly end: number; readonly reading: Reading };

export type ReplayOptions = {
  readonly nats: Nats;
  readonly stream: string;
  readonly log: FeedLog;
  /** Approximate maximum bytes of cached chunks; at least one chunk must fit. */
  readonly chunkBytesMax: number;
};

/** Small, because resuming reads the whole chunk that contains the cursor. */
const CHUNK_MESSAGES = 256;
/** About as many events as a replaying listener may buffer. */
const PAGE_EVENTS_MAX = 64;
const LOADS_MAX = 4;
/** Maximum messages that a request searches for matches that pass its filter: about half an hour at five a second. */
const LOOKED_MAX = 16_384;
/** Memory of a stored event without its frame, and of its facts, measured for a match with two makers. */
const EVENT_BYTES = 200;
const FACTS_BYTES = 850;
/** For listeners without a filter, which need no facts. Facts take as much memory as the frame. */
const FACTS_UNUSED: Facts = {
  ...{ lists: [], usdc: 0n, shares: 0n },
};
/** The frame of a message that is never delivered: it cannot be read, or the listener does not want its kind. */
const NO_FRAME = Buffer.alloc(0);

export class Replay {
  readonly #nats: Nats;
  readonly #stream: string;
  readonly #log: FeedLog;
  readonly #slots = createSlots(LOADS_MAX);
  readonly #chunks: LRUCache<string, Chunk, Range>;

  constructor(options: ReplayOptions) {
    this.#nats = options.nats;
    this.#stream = options.stream;
    this.#log = options.log;
    this.#chunks = new LRUCache({
      maxSize: options.chunkBytesMax,
      sizeCalculation: ({ bytes }) => bytes,
      fetchMethod: (_key, _stale, { context }) => this.#slots(null, () => this.#load(context)),
      // Eviction must not fail the listeners that wait for the chunk.
      ignoreFetchAbort: true,
    });
  }

  /**
   * The next events after a sequence, in order and without holes. If events were removed or are damaged, the first one
   * does not directly follow the sequence. Empty if no event up to the head is left.
   *
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async after(sequence: number, reading: Reading): Promise<readonly Offered[]> {
    const head = this.#log.head?.sequence ?? 0;
    let at = sequence;
    while (at < head) {
      const held = this.#log.ringAfter(at, PAGE_EVENTS_MAX);
      if (held.length > 0) return held;
      const chunk = await this.#chunkAt(at + 1, head, reading);
      const first = chunk.events.findIndex((event) => event.sequence > at);
      // Return at most the rest of the page, whose frames are one buffer.
      const pageEnd = first - (first % PAGE_EVENTS_MAX) + PAGE_EVENTS_MAX;
      if (first !== -1) return untilHole(chunk.events.slice(first, pageEnd));
      const { firstSequence } = await streamState(this.#nats, this.#stream);
      const kept = this.#log.firstKept(firstSequence);
      at = kept > at + 1 ? kept - 1 : chunk.end;
    }
    return [];
  }

  /** Whether `locate` needs only memory. */
  isInMemory(requested: bigint): boolean {
    const cursor = attainable(requested);
    if (requested === 0n) return true;
    return cursor !== undefined && this.#log.remembered(sequenceOf(cursor)) !== undefined;
  }

  /**
   * Where delivery starts for a client that has seen `requested`; 0 means from now on.
   *
   * For a cursor of another feed, delivery continues where this process saw the feed replaced. If it saw no
   * replacement, it continues at the message that has the cursor's sequence now, which is later than the
   * original one. If there is no such message, it continues live.
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async locate(requested: bigint, reading: Reading): Promise<Start> {
    if (requested === 0n) return this.#live();
    const cursor = attainable(requested);
    const sequence = cursor === undefined ? Number.POSITIVE_INFINITY : sequenceOf(cursor);
    const found = await this.#cursorAt(sequence, reading);
    if (cursor !== undefined && found === cursor) return { sequence, cursor };
    if (found === 'removed') return this.#from(0, reading);
    const { continuation } = this.#log;
    if (continuation !== undefined && sequence >= continuation) {
      return this.#from(continuation, reading);
    }
    return this.#from(found === 'ahead' ? Number.POSITIVE_INFINITY : sequence, reading);
  }

  /** Delivery from the first event at or after `sequence`, or live if there is none. */
  async #from(sequence: number, reading: Reading): Promise<Start> {
    const live = this.#live();
    const { firstSequence, lastSequence } = await streamState(this.#nats, this.#stream);
    const wanted = Math.max(this.#log.firstKept(firstSequence), sequence);
    const [event] = await this.after(wanted - 1, reading);
    if (event !== undefined) return behindGap(event.sequence, event.cursor);
    if (wanted <= lastSequence) {
      // The log has not read the message yet.
      const next = Math.max(wanted, live.sequence + 1);
      const [message] = await readRange(this.#nats, this.#stream, next, 1);
      if (message !== undefined) {
        return behindGap(message.sequence, cursorOf(message.sequence, message.messageId));
      }
    }
    return { ...live, gap: { firstAvailable: live.cursor } };
  }

  /**
   * The cursor after which the newest `count` matches that pass the filter are delivered, or as many as are among the
   * newest LOOKED_MAX messages; 0 if there is none. The very first message of a feed is left out, because there is no
   * cursor before it.
   *
   * Rejects with NatsUnavailableError, StreamMissingError and the signal's reason.
   */
  async beforeLast(
    count: number,
    filter: Filter,
    reading: Reading,
    signal: AbortSignal | null,
  ): Promise<bigint> {
    const head = this.#log.head?.sequence ?? 0;
    let before = 0n;
    let found = 0;
    // Whether the next older message's cursor must still be stored in `before`.
    let isOpen = false;
    for (let end = head; end > 0 && head - end < LOOKED_MAX; ) {
      const start = chunkStart(end);
      const held = this.#log.ringAfter(start - 1, end - start + 1);
      const events = held.length > 0 ? held : (await this.#chunkAt(end, head, reading)).events;
      for (const event of events.toReversed()) {
        if (event.sequence > end) continue;
        if (isOpen) before = BigInt(event.cursor);
        if (isOpen && found === count) return before;
        const { facts, isMatch } = event;
        isOpen = isMatch && facts !== undefined && matches(filter, facts);
        if (isOpen) found += 1;
      }
      end = start - 1;
      // Reads from memory never yield to the event loop otherwise.
      await setImmediate();
      signal?.throwIfAborted();
    }
    return before;
  }

  /**
   * The cursor before the first message stored at or after a time in milliseconds since 1970. If the feed does not reach
   * back to that time, a cursor that leads to a gap.
   *
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async before(timeMs: number, reading: Reading): Promise<bigint> {
    const first = await firstMessageAtOrAfter(this.#nats, this.#stream, timeMs);
    if (first === undefined) return BigInt(this.#live().cursor);
    const found = await this.#cursorAt(first.sequence - 1, reading);
    return typeof found === 'number' && found !== NO_CURSOR
      ? BigInt(found)
      : unprovenBefore(first.sequence);
  }

  /**
   * The events after a cursor that pass the filter, up to now, with at most `matchesMax` matches from LOOKED_MAX messages.
   *
   * Rejects with NatsUnavailableError, StreamMissingError and the signal's reason.
   */
  async page(
    requested: bigint,
    matchesMax: number,
    filter: Filter,
    reading: Reading,
    signal: AbortSignal | null,
  ): Promise<RecentEvents> {
    const { generation } = this.#log;
    const start = await this.locate(requested, reading);
    const head = this.#live();
    const end = Math.min(head.sequence, start.sequence + LOOKED_MAX);
    const events: Offered[] = [];
    let { sequence, cursor } = start;
    let hasGap = start.gap !== undefined;
    let found = 0;
    while (sequence < end && found <= matchesMax) {
      const next = await this.after(sequence, reading);
      // Everything up to the head was removed.
      if (next.length === 0) return { events, cursor: head.cursor, hasMore: false, hasGap: true };
      for (const event of next) {
        const { facts, isFinality, isMatch } = event;
        const passes =
          facts !== undefined && (reading.withFinal || !isFinality) && matches(filter, facts);
        if (passes && isMatch) found += 1;
        if (found > matchesMax) break;
        if (passes) events.push(event);
        if (event.sequence > sequence + 1) hasGap = true;
        ({ sequence, cursor } = event);
      }
      // Reads from memory never yield to the event loop otherwise.
      await setImmediate();
      signal?.throwIfAborted();
    }
    if (generation !== this.#log.generation) {
      throw new NatsUnavailableError(`${this.#stream} was replaced meanwhile`);
    }
    return { events, cursor, hasMore: sequence < head.sequence, hasGap };
  }

  /**
   * The events since a time (milliseconds since 1970) that come before a sequence and pass the filter, without `final`, in pages.
   *
   * Rejects with NatsUnavailableError, StreamMissingError and the signal's reason.
   */
  async *since(
    timeMs: number,
    before: number,
    filter: Filter,
    signal: AbortSignal,
  ): AsyncGenerator<readonly Offered[]> {
    const reading = { format: 'tx', isFiltered: true, withFinal: false } as const;
    let from = await this.before(timeMs, reading);
    for (;;) {
      const page = await this.page(from, CHUNK_MESSAGES, filter, reading, signal);
      const { cursor, events, hasMore } = page;
      yield events.filter(({ sequence }) => sequence < before);
      if (!hasMore || sequenceOf(cursor) >= before) return;
      from = BigInt(cursor);
    }
  }

  /** What these events say. Without those that were removed meanwhile. Rejects with NatsUnavailableError and StreamMissingError. */
  async eventsOf(offered: readonly Offered[]): Promise<readonly Decoded[]> {
    const found: Decoded[] = [];
    for (const some of inParts(offered, PAGE_EVENTS_MAX)) {
      const read = await Promise.all(some.map((one) => this.#eventOf(one)));
      found.push(...read.filter((one) => one !== undefined));
    }
    return found;
  }

  async #eventOf(offered: Offered): Promise<Decoded | undefined> {
    const { cursor, sequence } = offered;
    if (offered instanceof LogEvent) {
      const { message: event, messageId } = offered;
      return event && { event, messageId, sequence };
    }
    const stored = await getMessage(this.#nats, this.#stream, sequence);
    if (stored !== undefined && cursorOf(sequence, stored.messageId) === cursor) {
      const event = readEvent(stored.data)?.message;
      return event && { event, messageId: stored.messageId, sequence };
    }
    const { firstSequence } = await streamState(this.#nats, this.#stream);
    if (sequence < firstSequence) return undefined;
    throw new NatsUnavailableError(`message ${sequence} of ${this.#stream} cannot be read now`);
  }

  #live(): Start {
    const { sequence = 0, cursor = NO_CURSOR } = this.#log.head ?? {};
    return { sequence, cursor };
  }

  async #cursorAt(sequence: number, reading: Reading): Promise<Cursor | 'removed' | 'ahead'> {
    const remembered = this.#log.remembered(sequence);
    if (remembered !== undefined) return remembered;
    const { firstSequence, lastSequence } = await streamState(this.#nats, this.#stream);
    if (sequence > lastSequence) return 'ahead';
    if (sequence < firstSequence) return 'removed';
    const head = this.#log.head?.sequence ?? 0;
    if (sequence <= head) {
      // The listener continues with the same chunk.
      const { events } = await this.#chunkAt(sequence, head, reading);
      return events.find((event) => event.sequence === sequence)?.cursor ?? NO_CURSOR;
    }
    // The cursor comes from a process that is ahead of this one's log, so read the stream itself.
    const message = await getMessage(this.#nats, this.#stream, sequence);
    return message === undefined ? NO_CURSOR : cursorOf(sequence, message.messageId);
  }

  /** The chunk that covers `sequence`, which must not be after `head`. */
  async #chunkAt(sequence: number, head: number, reading: Reading): Promise<Chunk> {
    const start = chunkStart(sequence);
    const context = { start, end: Math.min(start + CHUNK_MESSAGES - 1, head), reading };
    const key = `${this.#log.generation} ${reading.format} ${reading.isFiltered} ${reading.withFinal} ${start}`;
    let chunk = await this.#chunks.forceFetch(key, { context });
    while (chunk.end < sequence) {
      // The chunk was read when the feed was shorter.
      chunk = await this.#chunks.forceFetch(key, { context, forceRefresh: true });
    }
    return chunk;
  }

  /** All readable messages from one sequence to another. */
  async #stored(start: number, end: number): Promise<StreamMessage[]> {
    if (start > end) return [];
    const [nats, stream] = [this.#nats, this.#stream];
    try {
      const messages = await readRange(nats, stream, start, end - start + 1);
      const stored = messages.filter(({ sequence }) => sequence <= end);
      const read = stored.map(({ sequence }) => sequence);
      const reached = read.at(-1) ?? 0;
      if (reached < end && !(await this.#isGone(end))) {
        throw new NatsUnavailableError(`${stream} was read to ${reached} instead of ${end}`);
      }
      await refuseHoles(nats, stream, { start, end, read });
      return stored;
    } catch (error) {
      if (!(error instanceof StreamDamagedError)) throw error;
      this.#log.damaged(error);
      const before = await this.#stored(start, error.sequence - 1);
      return [...before, ...(await this.#stored(error.through + 1, end))];
    }
  }

  /** Whether the stream has removed the message. A newly elected leader may not have it yet. */
  async #isGone(sequence: number): Promise<boolean> {
    const { firstSequence, lastSequence } = await streamState(this.#nats, this.#stream);
    if (sequence < firstSequence) return true;
    if (sequence > lastSequence) return false;
    return (await getMessage(this.#nats, this.#stream, sequence)) === undefined;
  }

  async #load({ start, end, reading }: Range): Promise<Chunk> {
    const messages = await this.#stored(start, end);
    const read = messages.map(({ sequence, messageId, data }): Read => {
      const cursor = cursorOf(sequence, messageId);
      const about = {
        ...{ sequence, cursor },
        ...{ isFinality: isFinality(messageId), isMatch: isMatch(messageId) },
      };
      const event = about.isFinality && !reading.withFinal ? undefined : readEvent(data);
      if (event === undefined) return { ...about, facts: undefined, frame: NO_FRAME };
      const frame = encode(event.message, { cursor, messageId }, reading.format);
      return { ...about, facts: reading.isFiltered ? event.facts : FACTS_UNUSED, frame };
    });
    const events: Offered[] = [];
    for (let n = 0; n < read.length; n += PAGE_EVENTS_MAX) {
      events.push(...packed(read.slice(n, n + PAGE_EVENTS_MAX)));
    }
    const frameBytes = read.reduce((sum, { frame }) => sum + frame.length, 0);
    const perEvent = EVENT_BYTES + (reading.isFiltered ? FACTS_BYTES : 0);
    return { end, events, bytes: 1 + frameBytes + events.length * perEvent };
  }
}

/** The first sequence of the aligned chunk that covers this one; sequences count from 1. */
function chunkStart(sequence: number): number {
  return sequence - ((sequence - 1) % CHUNK_MESSAGES);
}

/** The events before the first hole. */
function untilHole(events: readonly Offered[]): readonly Offered[] {
  const start = events[0]?.sequence ?? 0;
  const hole = events.findIndex(({ sequence }, index) => sequence !== start + index);
  return hole === -1 ? events : events.slice(0, hole);
}

type Read = Omit<Offered, 'frame'> & { readonly frame: Buffer };

/**
 * Packs the frames of a page into one buffer, which a listener without a filter gets as it is. A socket
 * keeps the whole buffer in memory, so it must not be larger.
 */
function packed(page: readonly Read[]): Offered[] {
  const frames = Buffer.concat(page.map(({ frame }) => frame));
  let end = 0;
  return page.map(({ frame: { length }, ...event }) => {
    const start = end;
    end += length;
    return { ...event, frame: () => frames.subarray(start, start + length) };
  });
}

function behindGap(sequence: number, firstAvailable: Cursor): Start {
  return { sequence: sequence - 1, cursor: NO_CURSOR, gap: { firstAvailable } };
}
