/**
 * One listener of the feed: a cursor in it, a filter and a connection. What waits for a listener
 * that is behind is its cursor, never a queue. Invariant: every matching event up to `cursor` was
 * written or told as a gap, in order; `position` is that of the newest event looked at.
 */
import type { FeedConnection } from './connection.ts';
import { NO_POSITION, type Position } from './cursor.ts';
import { type Format, gapBlock, HEARTBEAT_BLOCK, positionBlock } from './encode.ts';
import type { Offered } from './event.ts';
import { type Filter, filtersNothing } from './filter.ts';
import { Frame } from './frame.ts';
import type { Reading } from './packed.ts';
import type { Start } from './replay.ts';

const HEARTBEAT = Frame.of(HEARTBEAT_BLOCK);

export class Listener {
  readonly connection: FeedConnection;
  readonly format: Format;
  readonly keyHash: string;
  /** The managed stream that it listens to; null = the order feed. */
  readonly streamId: string | null;
  /** In force for what is sent from now on; change it through the fan-out, which files it. */
  filter: Filter;
  /** Matches and what became of them that were written to it. */
  delivered = 0;
  /** `gap` events that were written to it. */
  gaps = 0;
  /** Live listeners get events as they come, others read up to the head first. */
  live = false;
  /** The cursor stands for `claim`, which must be located in the feed before it counts. */
  unlocated = true;
  #requested: bigint;
  #cursor = 0;
  #position: Position = NO_POSITION;
  /** The newest position that the client knows. */
  #told: Position = NO_POSITION;

  constructor(options: {
    readonly connection: FeedConnection;
    readonly filter: Filter;
    readonly format: Format;
    readonly keyHash: string;
    readonly streamId: string | null;
    /** The position that the client came with; 0 = from now on. */
    readonly requested: bigint;
  }) {
    this.connection = options.connection;
    this.filter = options.filter;
    this.format = options.format;
    this.keyHash = options.keyHash;
    this.streamId = options.streamId;
    this.#requested = options.requested;
  }

  get cursor(): number {
    return this.#cursor;
  }

  /** What the client has seen of the feed, as a position. */
  get claim(): bigint {
    return this.#position === NO_POSITION ? this.#requested : BigInt(this.#position);
  }

  /** Puts the cursor where the claim was located. */
  startAt(start: Start): void {
    const { sequence, position, gap } = start;
    const claim = this.claim;
    const fromNow = claim === 0n;
    this.unlocated = false;
    this.#cursor = sequence;
    this.#position = position;
    if (gap !== undefined) {
      // The claim stays that of the client until an event replaces it.
      this.#requested = claim;
      this.#told = position;
      this.connection.send(Frame.of(gapBlock(claim, gap.firstAvailable, position)));
      this.gaps += 1;
      return;
    }
    // A client that is cut before its first event must not lose what comes meanwhile.
    if (fromNow && position !== NO_POSITION) {
      this.connection.send(Frame.of(positionBlock(position)));
    }
    this.#told = position;
  }

  /** How it reads what is stored. */
  get reading(): Reading {
    return { format: this.format, isFiltered: !filtersNothing(this.filter) };
  }

  /** Writes an event that comes after the cursor if the filter wants it. */
  offer(event: Offered): 'open' | 'cut' {
    if (event.passes(this.filter)) {
      if (this.connection.send(event.frame(this.format)) === 'cut') return 'cut';
      this.#told = event.position;
      this.delivered += 1;
    }
    this.pass(event.sequence, event.position);
    return 'open';
  }

  /**
   * Writes those of some events that the filter wants, together, until there are about as many
   * bytes as given. The events come after the cursor, in order.
   */
  offerPage(events: readonly Offered[], bytesMax: number): 'open' | 'cut' {
    const frames: Frame[] = [];
    let bytes = 0;
    let last: Offered | undefined;
    let told: Offered | undefined;
    for (const event of events) {
      last = event;
      if (!event.passes(this.filter)) continue;
      const frame = event.frame(this.format);
      frames.push(frame);
      told = event;
      bytes += frame.chunk.length;
      if (bytes > bytesMax) break;
    }
    if (frames.length > 0 && this.connection.sendAll(frames) === 'cut') return 'cut';
    this.delivered += frames.length;
    if (told !== undefined) this.#told = told.position;
    if (last !== undefined) this.pass(last.sequence, last.position);
    return 'open';
  }

  /** Moves on to an event that was looked at, here or in the index. */
  pass(sequence: number, position: Position): void {
    this.#cursor = sequence;
    if (position !== NO_POSITION) this.#position = position;
  }

  /** Tells that events between the cursor and the given one were removed unseen. */
  tellGap(firstAvailable: Position, resumeAt?: Position): 'open' | 'cut' {
    const block = gapBlock(this.claim, firstAvailable, resumeAt);
    const sent = this.connection.send(Frame.of(block));
    this.gaps += 1;
    return sent === 'sent' ? 'open' : 'cut';
  }

  /** Keeps the connection alive, and the client's position young where events were filtered out. */
  beat(): void {
    const moved = !this.unlocated && this.#position > this.#told;
    const frame = moved ? Frame.of(HEARTBEAT_BLOCK + positionBlock(this.#position)) : HEARTBEAT;
    if (this.connection.send(frame) === 'sent' && moved) this.#told = this.#position;
  }
}
