/**
 * One message of the FEED stream as the feed holds it: its position, and, each made when first
 * needed and then shared by all listeners, what filters look at and the bytes to send. What is told
 * of a match later, `void` and `restored`, looks to filters as the match did.
 * Measured for a match of two makers (2.3 KB of JSON): decoding 9 µs, encoding 2 µs a form; so the
 * compact form is made with the decoding, and the others decode again when they are asked for.
 * An event that is read again for late listeners is kept in their form only, without its message.
 */
import { z } from 'zod';
import type { TailMessage } from '../../infra/nats-tail.ts';
import { decodeFeedEvent, type FeedEvent as Message } from '../../ingest/contract-feed.ts';
import { encodeMatch, type Format, matchBlock, sequelBlock } from './encode.ts';
import { type Facts, factsOf, factsOfSequel } from './filter.ts';
import { Frame } from './frame.ts';
import { type Position, position } from './position.ts';

/** What an event without its message takes beside its frame: measured, with what filters look at. */
const BYTES_BESIDE = 1_000;

export class FeedEvent {
  readonly sequence: number;
  readonly position: Position;
  /** When the stream stored it, milliseconds since the epoch. */
  readonly storedAtMs: number;
  /**
   * Size of the message, facts and all forms come to at most about four times as much; of an event
   * in one form, about what it takes.
   */
  readonly bytes: number;
  #data: Uint8Array | undefined;
  #facts: Facts | 'unreadable' | undefined;
  readonly #frames: { [format in Format]?: Frame } = {};

  /** With `only`, the event is read at once, and has no other form. */
  constructor(message: TailMessage, only?: Format) {
    this.sequence = message.sequence;
    this.position = position(message.sequence, message.messageId);
    this.storedAtMs = message.timestampMs;
    if (only === undefined) {
      // A copy: the message's data is a view of a much larger network buffer.
      this.#data = Buffer.from(message.data);
      this.bytes = message.data.length;
    } else {
      this.#facts = this.#read(message.data, only);
      this.bytes = BYTES_BESIDE + (this.#frames[only]?.chunk.length ?? 0);
    }
  }

  /** Undefined where the message is none of ours: it is passed over. */
  get facts(): Facts | undefined {
    if (this.#data !== undefined) this.#facts ??= this.#read(this.#data, 'compact');
    return this.#facts === 'unreadable' ? undefined : this.#facts;
  }

  /**
   * The block in the given form; only matches have several. Throws where `facts` is undefined, and
   * where the event was made for another form.
   */
  frame(format: Format): Frame {
    const known = this.#frames[format];
    if (known !== undefined) return known;
    if (this.#data === undefined)
      throw new Error(`event ${this.sequence} is not kept as ${format}`);
    return this.#encode(decodeFeedEvent(this.#data), format);
  }

  #read(data: Uint8Array, format: Format): Facts | 'unreadable' {
    let message: Message;
    try {
      message = decodeFeedEvent(data);
    } catch (error) {
      if (error instanceof SyntaxError || error instanceof z.ZodError) return 'unreadable';
      throw error;
    }
    this.#encode(message, format);
    return message.kind === 'match' ? factsOf(message) : factsOfSequel(message);
  }

  #encode(message: Message, format: Format): Frame {
    const frame = new Frame(
      message.kind === 'match'
        ? matchBlock(this.position, encodeMatch(message, format), format)
        : sequelBlock(this.position, message),
    );
    this.#frames[format] = frame;
    return frame;
  }
}
