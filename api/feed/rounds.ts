/**
 * Writes to the sockets of the feed in rounds. A round writes once to each connection that has something to send, with
 * everything that is pending for it by then. New events get a turn after every few connections, and the connections
 * that come later in the round send them along. So an event waits for the turn of its listener, and not for a
 * fan-out to all listeners before it.
 */

/**
 * Connections that are written to before new events and other requests get a turn: about half a millisecond of work. If the
 * others took longer, the next slice takes as long as they did, so that a busy process does not hold up the feed.
 */
const SLICE = 64;
/**
 * Writing several events to a socket costs about as much as writing one. So after a long round, the events that arrive
 * within this time are written together.
 */
const REST_MS = 6;
/** A shorter round is not worth a timer. */
const WORK_MS_MIN = 2;

type Pending = { flush(): void };

class Rounds {
  /** Number of rounds that have ended. */
  ended = 0;
  #current: readonly Pending[] = [];
  #written = 0;
  #startedAtMs = 0;
  #next: Pending[] = [];
  /** Whether a round is under way, or the rest after it. */
  #isBusy = false;
  #ending = Promise.withResolvers<void>();

  /** Flushes the connection in the next round. If it has been idle, that is after the current turn of the event loop. */
  add(connection: Pending): void {
    this.#next.push(connection);
    if (this.#isBusy) return;
    this.#isBusy = true;
    process.nextTick(() => this.#start());
  }

  /** Resolves when the current round has ended; at once if there is none. */
  async ending(): Promise<void> {
    if (this.#isBusy) await this.#ending.promise;
  }

  #start(): void {
    this.#isBusy = this.#next.length > 0;
    if (!this.#isBusy) return;
    this.#current = this.#next;
    this.#next = [];
    this.#written = 0;
    this.#startedAtMs = performance.now();
    this.#write(SLICE);
  }

  #write(count: number): void {
    const startedAtMs = performance.now();
    const slice = this.#current.slice(this.#written, this.#written + count);
    for (const connection of slice) connection.flush();
    this.#written += slice.length;
    // Node has queued its writes to the sockets before this.
    process.nextTick(() => {
      const writtenAtMs = performance.now();
      setImmediate(() => {
        if (this.#written === this.#current.length) this.#end(writtenAtMs);
        else {
          const otherMs = performance.now() - writtenAtMs;
          const fairCount = (slice.length * otherMs) / (writtenAtMs - startedAtMs);
          this.#write(fairCount > SLICE ? Math.ceil(fairCount) : SLICE);
        }
      });
    });
  }

  #end(writtenAtMs: number): void {
    this.#current = [];
    this.ended += 1;
    this.#ending.resolve();
    this.#ending = Promise.withResolvers();
    if (writtenAtMs - this.#startedAtMs < WORK_MS_MIN) this.#start();
    else setTimeout(() => this.#start(), REST_MS).unref();
  }
}

/** Those of all connections of this process. */
export const rounds = new Rounds();
