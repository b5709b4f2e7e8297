/**
 * Where delivery starts for a client that comes with a position. Invariant: a position counts only
 * when the message at its sequence proves it; whatever else happens is a gap that the client is
 * told of. A position that nothing can prove any more, because its message was removed, is a gap
 * too, even where nothing was missed.
 */
import { type Nats, streamState } from '../../infra/nats/connection.ts';
import { getMessage, readRange } from '../../infra/nats/read.ts';
import { attainable, NO_POSITION, type Position, position, sequenceOf } from './cursor.ts';
import type { FeedLog } from './feed-log.ts';
import type { Reading } from './packed.ts';

/** Delivery starts after `sequence`. */
export type Start = {
  readonly sequence: number;
  /** Of the message at `sequence`; NO_POSITION where that is not known. */
  readonly position: Position;
  /** Set where the requested position is not part of this feed any more. */
  readonly gap?: { readonly firstAvailable: Position };
};

export class Locator {
  readonly #nats: Nats;
  readonly #stream: string;
  readonly #log: FeedLog;

  constructor(nats: Nats, stream: string, log: FeedLog) {
    this.#nats = nats;
    this.#stream = stream;
    this.#log = log;
  }

  /** True when `locate` answers from memory. */
  knows(requested: bigint): boolean {
    const at = attainable(requested);
    if (requested === 0n) return true;
    return at !== undefined && this.#log.remembered(sequenceOf(at)) !== undefined;
  }

  /**
   * Where delivery starts for a client that has seen `requested`; 0 is from now on. It reads on in
   * as given.
   *
   * A position of another feed goes on where this process saw the feed replaced; else at the
   * message that has its sequence now, which is later than the one meant; else live.
   * Rejects with NatsUnavailableError and StreamMissingError.
   */
  async locate(requested: bigint, reading: Reading): Promise<Start> {
    if (requested === 0n) return this.#live();
    const at = attainable(requested);
    const sequence = at === undefined ? Number.POSITIVE_INFINITY : sequenceOf(at);
    const found = await this.#positionAt(sequence, reading);
    if (at !== undefined && found === at) return { sequence, position: at };
    if (found === 'removed') return this.#from(0, reading);
    const { continuation } = this.#log;
    if (continuation !== undefined && sequence >= continuation)
      return this.#from(continuation, reading);
    return this.#from(found === 'ahead' ? Number.POSITIVE_INFINITY : sequence, reading);
  }

  /** Delivery from the first event at or after `sequence`, or live where there is none. */
  async #from(sequence: number, reading: Reading): Promise<Start> {
    const live = this.#live();
    const { firstSequence, lastSequence } = await streamState(this.#nats, this.#stream);
    const wanted = Math.max(this.#log.firstKept(firstSequence), sequence);
    const [event] = await this.#log.after(wanted - 1, reading);
    if (event !== undefined) return behindGap(event.sequence, event.position);
    if (wanted <= lastSequence) {
      // The tail has yet to bring it.
      const next = Math.max(wanted, live.sequence + 1);
      const [message] = await readRange(this.#nats, this.#stream, next, 1);
      if (message !== undefined) {
        return behindGap(message.sequence, position(message.sequence, message.messageId));
      }
    }
    return { ...live, gap: { firstAvailable: live.position } };
  }

  #live(): Start {
    const { sequence = 0, position: at = NO_POSITION } = this.#log.head ?? {};
    return { sequence, position: at };
  }

  async #positionAt(sequence: number, reading: Reading): Promise<Position | 'removed' | 'ahead'> {
    const remembered = this.#log.remembered(sequence);
    if (remembered !== undefined) return remembered;
    const { firstSequence, lastSequence } = await streamState(this.#nats, this.#stream);
    if (sequence > lastSequence) return 'ahead';
    if (sequence < firstSequence) return 'removed';
    if (sequence <= (this.#log.head?.sequence ?? 0)) {
      return (await this.#log.stored(sequence, reading)) ?? 'removed';
    }
    // Another process was ahead of this one's tail: the stream itself is asked.
    const message = await getMessage(this.#nats, this.#stream, sequence);
    return message === undefined ? 'removed' : position(sequence, message.messageId);
  }
}

function behindGap(sequence: number, firstAvailable: Position): Start {
  return { sequence: sequence - 1, position: NO_POSITION, gap: { firstAvailable } };
}
