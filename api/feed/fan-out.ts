/**
 * Delivers the feed to its listeners. A listener is either live (in the index and at the head) or replaying
 * stored events from its cursor. It becomes live between two events, so there is no gap and no duplicate. A
 * replaying listener waits for its socket. A live listener whose client does not read is disconnected at
 * its limit and never slows others. A listener that also gets positions never becomes live: once it has caught up, it waits
 * for the next event and reads it from the log.
 */
import { setTimeout as delay, setImmediate } from 'node:timers/promises';
import type { Logger } from 'pino';
import { NatsUnavailableError, StreamMissingError } from '../../infra/nats/connection.ts';
import { SessionEnd } from '../sessions/record.ts';
import { retryBlock } from './encode.ts';
import type { FeedLog, Head, LogEvent, LogSink } from './feed-log.ts';
import { type Filter, FilterIndex } from './filter.ts';
import type { Listener } from './listener.ts';
import type { Replay } from './replay.ts';

export type FanOutOptions = {
  readonly log: FeedLog;
  readonly replay: Replay;
  readonly logger: Logger;
  readonly heartbeatMs: number;
  /** How long a replaying listener may take to drain its socket. */
  readonly stalledMsMax: number;
};

export type FeedFigures = FanOut['figures'];

/** A replaying listener waits for its socket when more than this is buffered. */
const READ_UNSENT_BYTES_MAX = 64 * 1_024;
const READ_RETRY_MS = 200;
const TOLD_PAUSE_MS = 20;
/** How long a client waits before it reconnects, milliseconds. */
const CLIENT_RETRY = Buffer.from(retryBlock(2_000));

export class FanOut implements LogSink {
  readonly listeners = new Set<Listener>();
  readonly #options: FanOutOptions;
  /** The live listeners. Those that want `final` events are in both indexes. */
  readonly #index = new FilterIndex<Listener>();
  readonly #finalIndex = new FilterIndex<Listener>();
  readonly #opened = { fromNow: 0, resumed: 0 };
  /** Resumes listeners that wait at the head for the next event. */
  #waiting: (() => void)[] = [];
  readonly #ended = new Map<SessionEnd, number>(SessionEnd.options.map((why) => [why, 0]));
  /** Totals of listeners that get no more events. */
  #events = 0;
  #gaps = 0;

  constructor(options: FanOutOptions) {
    this.#options = options;
  }

  /** Counts since the process started, for the metrics. */
  get figures() {
    const open = [...this.listeners];
    return {
      listeners: open.length,
      /** Listeners that are not at the head yet. */
      replaying: open.filter((one) => !one.live && !this.#isAtHead(one)).length,
      /** Messages of the stream that this process has not read. */
      behind: this.#options.log.behind,
      isDamaged: this.#options.log.damage !== undefined,
      opened: this.#opened,
      ended: this.#ended,
      events: open.reduce((sum, { delivered }) => sum + delivered, this.#events),
      gaps: open.reduce((sum, { gaps }) => sum + gaps, this.#gaps),
    };
  }

  /** Serves the listener until its connection ends. Resolves once the headers are sent. */
  async add(listener: Listener): Promise<void> {
    const { connection } = listener;
    const heartbeats = setInterval(
      () => this.#sendHeartbeat(listener),
      this.#options.heartbeatMs,
    ).unref();
    this.listeners.add(listener);
    this.#opened[listener.claim === 0n ? 'fromNow' : 'resumed'] += 1;
    void connection.over.then(() => {
      this.#wake();
      clearInterval(heartbeats);
      this.listeners.delete(listener);
      this.#unlist(listener);
      // Count it now instead of when its connection has closed, because a total must never decrease.
      this.#events += listener.delivered;
      this.#gaps += listener.gaps;
    });
    void connection.gone.then(() => {
      this.#ended.set(connection.why, (this.#ended.get(connection.why) ?? 0) + 1);
    });
    await connection.begin();
    connection.send(CLIENT_RETRY);
    void this.#read(listener);
  }

  event(event: LogEvent, skippedAfter: Head | undefined): void {
    if (this.listeners.size === 0) return;
    this.#wake();
    if (skippedAfter !== undefined) this.#reportSkipped(event, skippedAfter);
    const index = event.isFinality ? this.#finalIndex : this.#index;
    // No listener wants it, so the message need not be decoded.
    if (event.isFinality && index.isEmpty) return;
    const { facts } = event;
    if (facts === undefined) {
      this.#options.logger.error(
        { sequence: event.sequence },
        'a message of the feed cannot be read',
      );
      return;
    }
    index.forEachCandidate(facts, (listener) => {
      // The listener has already been offered this event, or its client is ahead of our log.
      if (event.sequence <= listener.sequence) return;
      if (listener.offer(event) === 'cut') this.#cut(listener);
    });
  }

  replaced(last: Head): void {
    this.#wake();
    for (const listener of this.listeners) {
      const { live } = listener;
      if (live) this.#catchUp(listener, last);
      this.#unlist(listener);
      listener.unlocated = true;
      // A replaying listener checks `unlocated` in its own loop.
      if (live) void this.#read(listener);
    }
  }

  /** Changes the filter for later events. Events that were already examined are not examined again. */
  refilter(listener: Listener, filter: Filter): void {
    // The index finds a member by its filter, so remove the member before changing the filter.
    if (listener.live) this.#unfile(listener);
    listener.filter = filter;
    if (listener.live) this.#file(listener);
  }

  #sendHeartbeat(listener: Listener): void {
    const { head } = this.#options.log;
    if (listener.live && head !== undefined) this.#catchUp(listener, head);
    listener.sendHeartbeat();
  }

  /** Advances a live listener to the head: the index has offered it everything up to there. */
  #catchUp(listener: Listener, head: Head): void {
    if (head.sequence > listener.sequence) listener.pass(head.sequence, head.cursor);
  }

  async #read(listener: Listener): Promise<void> {
    while (listener.connection.open) {
      try {
        if (listener.unlocated) await this.#locate(listener);
        else if (!this.#isAtHead(listener)) await this.#readPage(listener);
        else if (listener.tell !== undefined) {
          await new Promise<void>((resume) => this.#waiting.push(resume));
          // So that the matches of a moment are read together.
          await delay(TOLD_PAUSE_MS, undefined, { ref: false });
        } else {
          listener.live = true;
          this.#file(listener);
          return;
        }
      } catch (error) {
        if (!listener.connection.open) return;
        if (error instanceof NatsUnavailableError || error instanceof StreamMissingError) {
          // Heartbeats continue meanwhile.
          await delay(READ_RETRY_MS, undefined, { ref: false });
          continue;
        }
        this.#options.logger.error({ err: error }, 'a listener of the feed could not be served');
        listener.connection.end('fault');
      }
    }
  }

  #wake(): void {
    for (const resume of this.#waiting.splice(0)) resume();
  }

  #isAtHead(listener: Listener): boolean {
    if (listener.unlocated) return false;
    return listener.sequence >= (this.#options.log.head?.sequence ?? 0);
  }

  async #locate(listener: Listener): Promise<void> {
    const { generation } = this.#options.log;
    const start = await this.#options.replay.locate(listener.claim, listener.reading);
    if (generation === this.#options.log.generation) listener.startAt(start);
  }

  async #readPage(listener: Listener): Promise<void> {
    const { head } = this.#options.log;
    const { filter } = listener;
    const events = await this.#options.replay.after(listener.sequence, listener.reading);
    const told = await listener.tell?.(events, filter, listener.connection.signal);
    // The feed was replaced meanwhile, so these events belong to the old one.
    if (listener.unlocated || head === undefined) return;
    // Events that were read for the old filter may lack facts that the new filter needs.
    if (listener.filter !== filter) return;
    const [first] = events;
    if (first === undefined) {
      // Everything up to the head was removed from the stream.
      listener.sendGap(head.cursor, head.cursor);
      listener.pass(head.sequence, head.cursor);
      return;
    }
    if (first.sequence > listener.sequence + 1) listener.sendGap(first.cursor);
    const { connection } = listener;
    for (const event of events) {
      if (listener.offer(event, told?.get(event.sequence)) === 'cut') return;
      if (connection.unsentBytes <= READ_UNSENT_BYTES_MAX) continue;
      if (told === undefined) break;
      // To tell the rest of the page again would cost more than to keep it.
      await connection.drained(this.#options.stalledMsMax);
      if (!connection.open || listener.unlocated || listener.filter !== filter) return;
    }
    // Only live listeners get the same events, so only they write in rounds.
    connection.flush();
    if (this.#isAtHead(listener)) return;
    // Drop the rest of the page while the socket drains, so that a slow client holds only a cursor in memory.
    await setImmediate();
    if (connection.unsentBytes > READ_UNSENT_BYTES_MAX) {
      await connection.drained(this.#options.stalledMsMax);
    }
  }

  #reportSkipped(event: LogEvent, skippedAfter: Head): void {
    for (const listener of this.listeners) {
      if (!listener.live || listener.sequence > skippedAfter.sequence) continue;
      this.#catchUp(listener, skippedAfter);
      if (listener.sendGap(event.cursor) === 'cut') this.#cut(listener);
    }
  }

  #unlist(listener: Listener): void {
    if (listener.live) this.#unfile(listener);
    listener.live = false;
  }

  #file(listener: Listener): void {
    this.#index.add(listener);
    if (listener.withFinal) this.#finalIndex.add(listener);
  }

  #unfile(listener: Listener): void {
    this.#index.delete(listener);
    if (listener.withFinal) this.#finalIndex.delete(listener);
  }

  #cut(listener: Listener): void {
    this.#unlist(listener);
    this.#options.logger.info(
      { key_hash: listener.keyHash, cursor: String(listener.claim) },
      'a listener of the feed did not keep up and was disconnected',
    );
  }
}
