// Publishes to a stream exactly once and in order, through every restart of the server.
// Invariant: a message leaves the window only after the server named the sequence it has, and in
// the order of publishing. After any doubt (reconnect, an acknowledgement out of turn, 503, a
// timeout) nothing new is sent: what was sent before goes again one by one, each until it is
// acknowledged, and only then what was not sent yet; ids let the server drop second copies. All
// at once would reorder: a leader that has lost a message may still refuse its id (docs/decisions/0012).
// The first message goes alone, too, and the first after a pause: a leader may appear behind it.
// It does not use the library's publish, which loses what is published while disconnected and whose
// retries reorder.
import { createInbox, errors, headers, type Msg, type Subscription } from '@nats-io/transport-node';
import { parseAck } from './ack.ts';
import { type Nats, NatsUnavailableError } from './connection.ts';
import { storedSince } from './read.ts';

export type PublishAck = {
  readonly messageId: string;
  /** Of the stored message; of the first copy when `duplicate`. */
  readonly sequence: number;
  readonly duplicate: boolean;
};

export type PublisherStats = {
  readonly published: number;
  readonly acked: number;
  /** Sends beyond the first, of any message. */
  readonly resent: number;
  /** Messages whose id the stream already held; a copy that only resending made counts too. */
  readonly duplicates: number;
  /** Messages stored after a later one; 0 unless a cluster lost what it had accepted. */
  readonly reordered: number;
};

export type PublisherOptions = {
  readonly stream: string;
  /** Messages accepted and not yet acknowledged; 512 by default. */
  readonly windowMax?: number;
  /** The stream's duplicate window; 120,000 by default. Beyond half of it the stream is read. */
  readonly duplicateWindowMs?: number;
  /** Called once for each message, in the order of publishing. */
  readonly onAck?: (ack: PublishAck) => void;
};

/** The server refuses the message for good, e.g. it is too large. The publisher stops, because
 *  going on would leave a hole. */
export class PublishRejectedError extends Error {
  override readonly name = 'PublishRejectedError';
}

/** The publisher was closed; what was not acknowledged may or may not be stored. */
export class PublisherClosedError extends Error {
  override readonly name = 'PublisherClosedError';
}

type Entry = {
  readonly subject: string;
  readonly messageId: string;
  readonly data: Uint8Array | string;
  /** By the wall clock, for the server's; 0 until it is sent. */
  firstSentMs: number;
  /** The same by a clock that nobody sets; every limit here is counted by that one. */
  sentAtMs: number;
  /** When the stream was last known not to hold it, by the same clock. */
  absentAtMs: number;
  /** 0 until acknowledged. */
  sequence: number;
  duplicate: boolean;
};

type Settle = { readonly resolve: () => void; readonly reject: (error: Error) => void };

const WINDOW_MAX = 512;
const DUPLICATE_WINDOW_MS = 120_000;
// Below the 4.5 s that a cluster takes for a new leader, so that a message lost with the old
// leader is noticed before a later one can be stored in its place.
const ACK_MS_MAX = 1_000;
const PROBE_MS = 200;
const TICK_MS = 100;

export class OrderedPublisher {
  readonly #nats: Nats;
  readonly #options: Required<Omit<PublisherOptions, 'onAck'>> & Pick<PublisherOptions, 'onAck'>;
  readonly #inbox = createInbox();
  readonly #subscription: Subscription;
  readonly #removeListener: () => void;
  readonly #timer: NodeJS.Timeout;
  /** Message n is in slot n mod windowMax while #oldest ≤ n < #next; sent while n < #unsent. */
  readonly #slots: (Entry | undefined)[] = [];
  #oldest = 0;
  #unsent = 0;
  #next = 0;
  #probing: boolean;
  #reconciling = false;
  #probedAtMs = 0;
  #progressAtMs = 0;
  /** Of the last acknowledgement on this connection; what is sent soon after it has a leader. */
  #ackedAtMs = Number.NEGATIVE_INFINITY;
  #waiting: ({ readonly entry: Entry } & Settle)[] = [];
  #flushes: ({ readonly until: number } & Settle)[] = [];
  #failure: Error | undefined;
  #lastSequence = 0;
  #lastStored = 0;
  #resent = 0;
  #duplicates = 0;
  #reordered = 0;

  constructor(nats: Nats, options: PublisherOptions) {
    this.#nats = nats;
    this.#options = { windowMax: WINDOW_MAX, duplicateWindowMs: DUPLICATE_WINDOW_MS, ...options };
    this.#probing = !nats.connected;
    this.#subscription = nats.connection.subscribe(`${this.#inbox}.*`, {
      callback: (error, message) => {
        if (error === null) this.#receive(message);
        else this.#fail(error);
      },
    });
    this.#removeListener = nats.onStatus((status) => {
      if (status.type === 'disconnect') {
        this.#probing = true;
        this.#ackedAtMs = Number.NEGATIVE_INFINITY;
      }
      if (status.type === 'reconnect') this.#probe();
      if (status.type === 'close') this.#fail(new NatsUnavailableError('the connection closed'));
    });
    this.#timer = setInterval(() => this.#tick(), TICK_MS);
  }

  /**
   * Takes a message into the window; resolves when there is room, which is the back pressure.
   *
   * `messageId` names the message for ever: a second one within the stream's duplicate window is
   * dropped. `data` must not change afterwards. Rejects with PublishRejectedError,
   * PublisherClosedError or NatsUnavailableError once the publisher has stopped.
   */
  publish(subject: string, messageId: string, data: Uint8Array | string): Promise<void> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    const unsent = { firstSentMs: 0, sentAtMs: 0, absentAtMs: 0, sequence: 0, duplicate: false };
    const entry = { subject, messageId, data, ...unsent };
    if (this.#waiting.length === 0 && this.#hasRoom()) {
      this.#accept(entry);
      return this.#failure === undefined ? Promise.resolve() : Promise.reject(this.#failure);
    }
    return new Promise((resolve, reject) => this.#waiting.push({ entry, resolve, reject }));
  }

  /** Resolves when everything published so far is acknowledged, with the highest sequence. */
  async flush(): Promise<{ lastSequence: number }> {
    if (this.#failure !== undefined) throw this.#failure;
    const until = this.#next + this.#waiting.length;
    if (this.#oldest < until) {
      await new Promise<void>((resolve, reject) => this.#flushes.push({ until, resolve, reject }));
    }
    return { lastSequence: this.#lastSequence };
  }

  get stats(): PublisherStats {
    return {
      published: this.#next,
      acked: this.#oldest,
      resent: this.#resent,
      duplicates: this.#duplicates,
      reordered: this.#reordered,
    };
  }

  /** For how long (milliseconds) the oldest message that was sent is not known to be stored. */
  get unstoredMs(): number {
    if (this.#oldest === this.#unsent) return 0;
    return performance.now() - Math.max(this.#slot(this.#oldest).sentAtMs, this.#progressAtMs);
  }

  /** Stops at once; call flush first to lose nothing. */
  close(): void {
    this.#fail(new PublisherClosedError('the publisher was closed'));
  }

  #hasRoom(): boolean {
    return this.#next - this.#oldest < this.#options.windowMax;
  }

  #slot(number: number): Entry {
    const entry = this.#slots[number % this.#options.windowMax];
    if (entry === undefined) throw new RangeError(`message ${number} is not in the window`);
    return entry;
  }

  #accept(entry: Entry): void {
    this.#slots[this.#next % this.#options.windowMax] = entry;
    this.#next += 1;
    if (!this.#probing) this.#sendUnsent();
  }

  #sendUnsent(): void {
    if (this.#oldest === this.#unsent) this.#progressAtMs = performance.now();
    if (performance.now() - this.#ackedAtMs > ACK_MS_MAX) {
      this.#sendAlone();
      return;
    }
    while (this.#unsent < this.#next && this.#failure === undefined) {
      this.#send(this.#unsent);
      this.#unsent += 1;
    }
  }

  /** Whether there is a leader is not known: of several at once the first could be the last stored. */
  #sendAlone(): void {
    if (this.#unsent === this.#next) return;
    this.#probing = true;
    this.#probedAtMs = performance.now();
    this.#unsent += 1;
    this.#send(this.#unsent - 1);
  }

  #send(number: number): void {
    const entry = this.#slot(number);
    if (entry.firstSentMs === 0) {
      entry.firstSentMs = Date.now();
      entry.sentAtMs = performance.now();
      entry.absentAtMs = entry.sentAtMs;
    } else this.#resent += 1;
    const header = headers();
    header.append('Nats-Msg-Id', entry.messageId);
    try {
      // The library's own encoder takes twice as long for a text.
      const data = typeof entry.data === 'string' ? Buffer.from(entry.data) : entry.data;
      this.#nats.connection.publish(entry.subject, data, {
        reply: `${this.#inbox}.${number}`,
        headers: header,
      });
    } catch (cause) {
      const gone = cause instanceof errors.ClosedConnectionError;
      this.#fail(
        gone
          ? new NatsUnavailableError('the connection closed', { cause })
          : new PublishRejectedError(`message ${entry.messageId} cannot be sent`, { cause }),
      );
    }
  }

  #receive(message: Msg): void {
    const number = Number(message.subject.slice(this.#inbox.length + 1));
    // A second acknowledgement of a message that has left the window.
    if (!(number >= this.#oldest && number < this.#unsent)) return;
    const ack = parseAck(message);
    if (ack.kind === 'refused') {
      const { messageId } = this.#slot(number);
      const reason = `${ack.description} (${ack.code})`;
      this.#fail(new PublishRejectedError(`message ${messageId} was refused: ${reason}`));
      return;
    }
    if (ack.kind === 'stored' && ack.stream !== this.#options.stream) {
      this.#fail(new PublishRejectedError(`${ack.stream} took a message for another stream`));
      return;
    }
    if (ack.kind === 'stored') this.#acknowledge(number, ack.sequence, ack.duplicate);
    if (ack.kind === 'unavailable' || number > this.#oldest) this.#doubt();
  }

  #acknowledge(number: number, sequence: number, duplicate: boolean): void {
    const entry = this.#slot(number);
    if (entry.sequence !== 0) return;
    entry.sequence = sequence;
    entry.duplicate = duplicate;
    if (number !== this.#oldest) return;
    while (this.#oldest < this.#unsent && this.#slot(this.#oldest).sequence !== 0) {
      this.#leave(this.#slot(this.#oldest));
    }
    this.#progressAtMs = performance.now();
    this.#ackedAtMs = this.#progressAtMs;
    if (this.#probing) this.#probe();
    this.#admit();
  }

  #leave(entry: Entry): void {
    const { messageId, sequence, duplicate } = entry;
    this.#slots[this.#oldest % this.#options.windowMax] = undefined;
    this.#oldest += 1;
    this.#lastSequence = Math.max(this.#lastSequence, sequence);
    if (duplicate) this.#duplicates += 1;
    else if (sequence < this.#lastStored) this.#reordered += 1;
    else this.#lastStored = sequence;
    try {
      this.#options.onAck?.({ messageId, sequence, duplicate });
    } catch (error) {
      // Thrown into the client library, it would end the reading of the whole connection.
      this.#fail(error instanceof Error ? error : new Error(String(error)));
    }
  }

  #admit(): void {
    while (this.#hasRoom()) {
      const waiting = this.#waiting.shift();
      if (waiting === undefined) break;
      this.#accept(waiting.entry);
      waiting.resolve();
    }
    while (this.#flushes[0] !== undefined && this.#flushes[0].until <= this.#oldest) {
      this.#flushes.shift()?.resolve();
    }
  }

  /** Nothing new is sent until all that was sent is known to be stored. */
  #doubt(): void {
    if (this.#probing || this.#oldest === this.#unsent) return;
    this.#probing = true;
    this.#probedAtMs = performance.now();
  }

  #probe(): void {
    if (this.#failure !== undefined || !this.#nats.connected || this.#reconciling) return;
    if (this.#oldest === this.#unsent) {
      this.#probing = false;
      this.#sendUnsent();
      return;
    }
    this.#probing = true;
    this.#probedAtMs = performance.now();
    const ageMs = performance.now() - this.#slot(this.#oldest).absentAtMs;
    if (ageMs > this.#options.duplicateWindowMs / 2) void this.#reconcile();
    else this.#send(this.#oldest);
  }

  /** The server may have forgotten the ids of the window: finds in the stream what it holds. */
  async #reconcile(): Promise<void> {
    this.#reconciling = true;
    const sent = new Map<string, number>();
    for (let number = this.#oldest; number < this.#unsent; number += 1) {
      sent.set(this.#slot(number).messageId, number);
    }
    const start =
      this.#lastSequence > 0
        ? { sequence: this.#lastSequence + 1 }
        : { timeMs: this.#slot(this.#oldest).firstSentMs - this.#options.duplicateWindowMs };
    try {
      for await (const message of storedSince(this.#nats, this.#options.stream, start)) {
        const number = sent.get(message.messageId);
        if (number === undefined || number < this.#oldest) continue;
        this.#acknowledge(number, message.sequence, false);
      }
      this.#reconciling = false;
      this.#startOver();
    } catch (error) {
      this.#reconciling = false;
      // The next tick tries again.
      if (!(error instanceof NatsUnavailableError)) this.#fail(asError(error));
    }
  }

  /** What was not found is not stored; still the oldest goes alone, as there may be nobody to take it. */
  #startOver(): void {
    for (let number = this.#oldest; number < this.#unsent; number += 1) {
      this.#slot(number).absentAtMs = performance.now();
    }
    this.#probe();
  }

  #tick(): void {
    if (!this.#nats.connected || this.#oldest === this.#unsent) return;
    const now = performance.now();
    const due = this.#probing
      ? now - this.#probedAtMs >= PROBE_MS
      : now - this.#progressAtMs > ACK_MS_MAX;
    if (due) this.#probe();
  }

  #fail(error: Error): void {
    if (this.#failure !== undefined) return;
    this.#failure = error;
    clearInterval(this.#timer);
    this.#removeListener();
    this.#subscription.unsubscribe();
    for (const { reject } of [...this.#waiting, ...this.#flushes]) reject(error);
    this.#waiting = [];
    this.#flushes = [];
  }
}

function asError(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error));
}
