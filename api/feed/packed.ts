/**
 * Events of a stretch of the stream in one form, packed for listeners that are far behind: the frames
 * in one Buffer and numbers beside it, so that many events are few objects, and those without a
 * filter are written as they lie. What waits in a socket holds on to the Buffer: it must be small.
 * What filters look at is kept only where a filter was asked for; it takes as much again.
 */
import type { TailMessage } from '../../infra/nats/reader.ts';
import { type Position, position } from './cursor.ts';
import type { Format } from './encode.ts';
import { type Offered, read } from './event.ts';
import { type Facts, type Filter, filtersNothing, matches } from './filter.ts';
import { Frame } from './frame.ts';

/** How a listener reads what is stored. */
export type Reading = { readonly format: Format; readonly isFiltered: boolean };

/** Of the facts of an event: measured for a match of two makers. */
const FACTS_BYTES = 850;
/** Sequence, position and end of an event. */
const NUMBERS_BYTES = 20;

export class PackedEvents {
  /** Sequence of the last one; 0 where there is none. */
  readonly last: number;
  /** About what it takes in memory. */
  readonly bytes: number;
  readonly #format: Format;
  readonly #sequences: Float64Array;
  readonly #positions: Float64Array;
  /** Where the frame of each ends; one that cannot be read has none. */
  readonly #ends: Uint32Array;
  readonly #frames: Buffer;
  readonly #facts: readonly (Facts | undefined)[] | undefined;

  /** Of messages in stream order. */
  constructor(messages: readonly TailMessage[], { format, isFiltered }: Reading) {
    const at = messages.map((message) => position(message.sequence, message.messageId));
    const chunks: Buffer[] = [];
    const facts: (Facts | undefined)[] = [];
    this.#ends = new Uint32Array(messages.length);
    let end = 0;
    for (const [n, message] of messages.entries()) {
      const readable = read(message.data, at[n] ?? 0, format);
      if (isFiltered) facts.push(readable?.facts);
      if (readable !== undefined) chunks.push(readable.frame.chunk);
      end += readable?.frame.chunk.length ?? 0;
      this.#ends[n] = end;
    }
    this.last = messages.at(-1)?.sequence ?? 0;
    this.#format = format;
    this.#sequences = Float64Array.from(messages, ({ sequence }) => sequence);
    this.#positions = Float64Array.from(at);
    // Not from the pool: it lives as long as this, and nothing else with it.
    this.#frames = Buffer.allocUnsafeSlow(end);
    let written = 0;
    for (const chunk of chunks) written += chunk.copy(this.#frames, written);
    this.#facts = isFiltered ? facts : undefined;
    this.bytes = end + messages.length * (NUMBERS_BYTES + (isFiltered ? FACTS_BYTES : 0));
  }

  /** Undefined where the stream held no message with this sequence. */
  positionAt(sequence: number): Position | undefined {
    return this.#positions[this.#sequences.indexOf(sequence)];
  }

  /** The events after a sequence. */
  after(sequence: number): Offered[] {
    const first = this.#sequences.findIndex((one) => one > sequence);
    if (first === -1) return [];
    const length = this.#sequences.length - first;
    return Array.from({ length }, (_, n) => this.#event(first + n));
  }

  #event(n: number): Offered {
    const start = n === 0 ? 0 : (this.#ends[n - 1] ?? 0);
    const end = this.#ends[n] ?? start;
    return {
      sequence: this.#sequences[n] ?? 0,
      position: this.#positions[n] ?? 0,
      passes: (filter) => end > start && this.#passes(n, filter),
      frame: (format) => {
        if (end === start || format !== this.#format) {
          throw new Error(`event ${this.#sequences[n]} is not kept as ${format}`);
        }
        return new Frame(this.#frames.subarray(start, end));
      },
    };
  }

  #passes(n: number, filter: Filter): boolean {
    if (this.#facts === undefined) {
      if (filtersNothing(filter)) return true;
      throw new Error('these events are not kept for filters');
    }
    const facts = this.#facts[n];
    return facts !== undefined && matches(filter, facts);
  }
}
