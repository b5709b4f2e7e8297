/**
 * Brings the feed to its listeners. A listener is either live, in the index and at the head, or it
 * reads by its cursor until it gets there; the change between the two happens between two events,
 * so that there is no gap and no duplicate. One that reads waits for its socket; a live one that
 * does not read is cut at its bound and never slows another.
 */
import { setImmediate, setTimeout } from 'node:timers/promises';
import type { Logger } from 'pino';
import { NatsUnavailableError, StreamMissingError } from '../../infra/nats/connection.ts';
import { RETRY_BLOCK } from './encode.ts';
import type { FeedEvent } from './event.ts';
import type { FeedLog, Head, LogSink } from './feed-log.ts';
import type { Filter } from './filter.ts';
import { FilterIndex } from './filter-index.ts';
import { Frame } from './frame.ts';
import type { Listener } from './listener.ts';
import type { Locator } from './replay.ts';

/** A listener that reads what is stored has at most about this much waiting in its socket. */
const READ_UNSENT_BYTES_MAX = 64 * 1_024;
const RETRY_MS = 200;
const RETRY = Frame.of(RETRY_BLOCK);

/** Where listeners read; the log in turn brings its events here, so the two are joined later. */
export type Source = { readonly log: FeedLog; readonly locator: Locator };

export class FanOut implements LogSink {
  readonly listeners = new Set<Listener>();
  readonly #logger: Logger;
  readonly #stalledMsMax: number;
  readonly #index = new FilterIndex<Listener>();
  #source: Source | undefined;

  constructor(logger: Logger, stalledMsMax: number) {
    this.#logger = logger;
    this.#stalledMsMax = stalledMsMax;
  }

  /** Says where to read from; must be called before the first listener is added. */
  readFrom(source: Source): void {
    this.#source = source;
  }

  /** Serves the listener until its connection is over. Resolves once the head is on its way. */
  async add(listener: Listener): Promise<void> {
    const { connection } = listener;
    this.listeners.add(listener);
    void connection.over.then(() => {
      this.listeners.delete(listener);
      this.#unlist(listener);
    });
    await connection.begin();
    connection.send(RETRY);
    void this.#read(listener);
  }

  event(event: FeedEvent, skippedAfter: Head | undefined): void {
    if (this.listeners.size === 0) return;
    if (skippedAfter !== undefined) this.#tellSkipped(event, skippedAfter);
    const { facts } = event;
    if (facts === undefined) {
      this.#logger.error({ sequence: event.sequence }, 'a message of the feed cannot be read');
      return;
    }
    this.#index.forEachCandidate(facts, (listener) => {
      // Not after the cursor: met already in this event, or the client is ahead of our tail.
      if (event.sequence <= listener.cursor) return;
      if (listener.offer(event) === 'cut') this.#cut(listener);
    });
  }

  replaced(last: Head): void {
    for (const listener of this.listeners) {
      const { live } = listener;
      if (live) this.#catchUp(listener, last);
      this.#unlist(listener);
      listener.unlocated = true;
      // One that reads already finds that out by itself.
      if (live) void this.#read(listener);
    }
  }

  /** Delivers what comes from now on under another filter; what was looked at stays so. */
  refilter(listener: Listener, filter: Filter): void {
    // The index finds a member by the filter that it was filed under.
    if (listener.live) this.#index.delete(listener);
    listener.filter = filter;
    if (listener.live) this.#index.add(listener);
  }

  /** Sends the heartbeat, and the position of a listener that is at the head. */
  beat(listener: Listener): void {
    const { head } = this.#joined.log;
    if (listener.live && head !== undefined) this.#catchUp(listener, head);
    listener.beat();
  }

  get #joined(): Source {
    if (this.#source === undefined) throw new Error('the listeners have nowhere to read from');
    return this.#source;
  }

  /** Everything up to the head was offered to a live listener, through the index. */
  #catchUp(listener: Listener, head: Head): void {
    if (head.sequence > listener.cursor) listener.pass(head.sequence, head.position);
  }

  async #read(listener: Listener): Promise<void> {
    while (listener.connection.open) {
      try {
        if (listener.unlocated) await this.#locate(listener);
        else if (this.#atHead(listener)) {
          listener.live = true;
          this.#index.add(listener);
          return;
        } else await this.#readPage(listener);
      } catch (error) {
        if (error instanceof NatsUnavailableError || error instanceof StreamMissingError) {
          // Heartbeats go on meanwhile; the cursor waits.
          await setTimeout(RETRY_MS, undefined, { ref: false });
          continue;
        }
        this.#logger.error({ err: error }, 'a listener of the feed could not be served');
        listener.connection.destroy('fault');
      }
    }
  }

  #atHead(listener: Listener): boolean {
    return listener.cursor >= (this.#joined.log.head?.sequence ?? 0);
  }

  async #locate(listener: Listener): Promise<void> {
    const { log, locator } = this.#joined;
    const { generation } = log;
    const start = await locator.locate(listener.claim, listener.reading);
    if (generation === log.generation) listener.startAt(start);
  }

  async #readPage(listener: Listener): Promise<void> {
    const { log } = this.#joined;
    const { head } = log;
    const { filter } = listener;
    const events = await log.after(listener.cursor, listener.reading);
    // The feed was replaced meanwhile: what was read belongs to the former one.
    if (listener.unlocated || head === undefined) return;
    // What was read need not fit another filter.
    if (listener.filter !== filter) return;
    const [first] = events;
    if (first === undefined) {
      // All of it was removed up to what was the head.
      listener.tellGap(head.position, head.position);
      listener.pass(head.sequence, head.position);
      return;
    }
    if (first.sequence > listener.cursor + 1) listener.tellGap(first.position);
    const offered = listener.offerPage(events, READ_UNSENT_BYTES_MAX);
    if (offered === 'cut' || this.#atHead(listener)) return;
    // The page is given up while the socket drains: only the cursor waits for a slow client.
    await setImmediate();
    if (listener.connection.unsentBytes > READ_UNSENT_BYTES_MAX)
      await listener.connection.drained(this.#stalledMsMax);
  }

  #tellSkipped(event: FeedEvent, skippedAfter: Head): void {
    for (const listener of this.listeners) {
      if (!listener.live || listener.cursor > skippedAfter.sequence) continue;
      this.#catchUp(listener, skippedAfter);
      if (listener.tellGap(event.position) === 'cut') this.#cut(listener);
    }
  }

  #unlist(listener: Listener): void {
    if (listener.live) this.#index.delete(listener);
    listener.live = false;
  }

  #cut(listener: Listener): void {
    this.#unlist(listener);
    this.#logger.info(
      { key_hash: listener.keyHash, position: String(listener.claim) },
      'a listener of the feed did not keep up and was cut',
    );
  }
}
