/**
 * One listener of the feed: a cursor, a filter and a connection. A listener that is behind holds only a
 * cursor in memory, never a queue. Invariant: every matching event up to `sequence` was sent or reported
 * as a gap, in order. `#cursor` is the cursor of the newest examined event.
 */
import type { FeedConnection } from './connection.ts';
import { type Cursor, NO_CURSOR } from './cursor.ts';
import { cursorBlock, type Format, gapBlock } from './encode.ts';
import type { Offered } from './feed-log.ts';
import { type Filter, filtersNothing, matches } from './filter.ts';
import type { Reading, Start } from './replay.ts';

const HEARTBEAT_BLOCK = ': heartbeat\n\n';
const HEARTBEAT = Buffer.from(HEARTBEAT_BLOCK);

/** Returns what to send before each of these matches that passes the filter, as blocks by sequence. */
export type Tell = (
  events: readonly Offered[],
  filter: Filter,
  /** Aborts when nothing more is sent. */
  signal: AbortSignal,
) => Promise<ReadonlyMap<number, string>>;

export class Listener {
  readonly connection: FeedConnection;
  readonly format: Format;
  readonly keyHash: string;
  /** The managed stream; null = the order feed. */
  readonly streamId: string | null;
  /** Whether it gets `final` events. */
  readonly withFinal: boolean;
  /** A listener with this always reads stored events, because it has to wait for what it is told. */
  readonly tell: Tell | undefined;
  /** Applies to later events. Change it through the fan-out, which updates its index. */
  filter: Filter;
  /** Number of sent events: matches, and later events about them. */
  delivered = 0;
  /** Number of sent `gap` events. */
  gaps = 0;
  /** Live listeners get events as they arrive. Others replay stored events up to the head first. */
  live = false;
  /** While true, `claim` must be located in the feed before `sequence` is valid. */
  unlocated = true;
  /** Sequence of the newest examined event. */
  sequence = 0;
  #requested: bigint;
  #cursor: Cursor = NO_CURSOR;
  /** The newest cursor that was sent to the client. */
  #sentCursor: Cursor = NO_CURSOR;

  constructor(options: {
    readonly connection: FeedConnection;
    readonly filter: Filter;
    readonly format: Format;
    readonly keyHash: string;
    readonly streamId: string | null;
    readonly withFinal: boolean;
    readonly tell?: Tell | undefined;
    /** The client's cursor; 0 = from now on. */
    readonly requested: bigint;
  }) {
    this.connection = options.connection;
    this.filter = options.filter;
    this.format = options.format;
    this.keyHash = options.keyHash;
    this.streamId = options.streamId;
    this.withFinal = options.withFinal;
    this.tell = options.tell;
    this.#requested = options.requested;
  }

  /** The cursor up to which the client has seen the feed. */
  get claim(): bigint {
    return this.#cursor === NO_CURSOR ? this.#requested : BigInt(this.#cursor);
  }

  /** How it reads stored events. */
  get reading(): Reading {
    const { format, withFinal } = this;
    return { format, isFiltered: !filtersNothing(this.filter), withFinal };
  }

  /** Starts at the place where the claim was located. */
  startAt({ sequence, cursor, gap }: Start): void {
    const { claim } = this;
    this.unlocated = false;
    this.sequence = sequence;
    this.#cursor = cursor;
    this.#sentCursor = cursor;
    if (gap !== undefined) {
      // Keep the client's claim until an event replaces it.
      this.#requested = claim;
      this.#sendBlock(gapBlock(claim, gap.firstAvailable, cursor));
      this.gaps += 1;
    } else if (claim === 0n && cursor !== NO_CURSOR) {
      // Send a cursor, so that a client that is disconnected before its first event loses nothing.
      this.#sendBlock(cursorBlock(cursor));
    }
  }

  /**
   * Sends an event with a later sequence if it passes the filter. `told` goes out before it in the same write. It has no id, so a
   * client that missed it has missed the event, too, and gets both when it resumes.
   */
  offer(event: Offered, told?: string): 'open' | 'cut' {
    if (this.#wants(event)) {
      const frame = event.frame(this.format);
      const sent = told === undefined ? frame : Buffer.concat([Buffer.from(told), frame]);
      if (this.connection.send(sent) === 'cut') return 'cut';
      this.#sentCursor = event.cursor;
      this.delivered += 1;
    }
    this.pass(event.sequence, event.cursor);
    return 'open';
  }

  /** Advances to an event that was examined here or in the index. */
  pass(sequence: number, cursor: Cursor): void {
    this.sequence = sequence;
    if (cursor !== NO_CURSOR) this.#cursor = cursor;
  }

  /** Reports that events between `sequence` and the given cursor were removed unseen. */
  sendGap(firstAvailable: Cursor, resumeAt?: Cursor): 'open' | 'cut' {
    this.gaps += 1;
    return this.#sendBlock(gapBlock(this.claim, firstAvailable, resumeAt));
  }

  /** Keeps the connection alive, and updates the client's cursor if events were filtered out. */
  sendHeartbeat(): void {
    const moved = !this.unlocated && this.#cursor > this.#sentCursor;
    const state = moved
      ? this.#sendBlock(HEARTBEAT_BLOCK + cursorBlock(this.#cursor))
      : this.connection.send(HEARTBEAT);
    if (state === 'open' && moved) this.#sentCursor = this.#cursor;
  }

  #wants({ isFinality, facts }: Offered): boolean {
    if (isFinality && !this.withFinal) return false;
    return facts !== undefined && matches(this.filter, facts);
  }

  #sendBlock(block: string): 'open' | 'cut' {
    return this.connection.send(Buffer.from(block));
  }
}
