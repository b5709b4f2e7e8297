/**
 * The feed of one api process: serves `GET /v1/stream/orders` and managed streams.
 * This file combines the log (feed-log.ts), resuming (replay.ts), the listeners (fan-out.ts) and their
 * connections. Invariant: a client gets every event after its cursor that passes its filter, once and in
 * order, or a `gap` where events are missing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import { createCallerSlots, TooManyWaitingError } from '../../infra/slots.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { Problem, unavailable } from '../http/errors.ts';
import type { MarketKey } from '../http/parameters.ts';
import { abortedWith } from '../http/routes.ts';
import type { SessionEnd } from '../sessions/record.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { FEED_HEADERS, FeedConnection } from './connection.ts';
import { retryBlock } from './encode.ts';
import { FanOut, type FeedFigures } from './fan-out.ts';
import { FeedLog } from './feed-log.ts';
import { type Filter, filtersNothing } from './filter.ts';
import { Listener } from './listener.ts';
import { type FeedRequest, parseFeedQuery } from './query.ts';
import { type Reading, type RecentEvents, Replay } from './replay.ts';

/** A request for a page of the feed. */
type RecentRequest = {
  /** A cursor, or a time; undefined: the newest matches. */
  readonly from: bigint | Date | undefined;
  /** Maximum matches. */
  readonly limit: number;
  readonly filter: Filter;
  readonly withFinal: boolean;
  /** The account or address; pages are limited per caller. */
  readonly caller: Caller;
  readonly signal: AbortSignal | null;
};

export type FeedOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  /** Counts open event streams by account. */
  readonly sessions: Pick<Sessions, 'open'>;
  /** Name of the JetStream stream; FEED. */
  readonly stream?: string;
  /** Maximum number of newest events in memory. */
  readonly ringEventsMax?: number;
  /** Approximate maximum bytes of older events that are cached for replaying listeners. */
  readonly chunkBytesMax?: number;
  readonly heartbeatMs?: number;
  /** How long a replaying listener may take to drain its socket. */
  readonly stalledMsMax?: number;
};

const RING_EVENTS_MAX = 65_536;
// About 7,000 matches: 12 minutes of Polygon, or 2 minutes on a day that is ten times as busy. Older matches are
// read from the stream. Facts and encoded formats add up to four times as much memory.
const RING_BYTES_MAX = 16 * 1_048_576;
const CHUNK_BYTES_MAX = 64 * 1_048_576;
const HEARTBEAT_MS = 30_000;
const STALLED_MS_MAX = 60_000;
const STOP_SPREAD_MS_MAX = 5_000;
/** After a shutdown, clients reconnect at random times within this span. */
const STOP_RETRY_MS = { least: 500, spread: 2_500 };

/** Pages of one account or visitor that are read at once, because each may decode thousands of messages, and that wait. */
const PAGES_MAX = 2;
const PAGES_WAITING_MAX = 20;

export class Feed {
  readonly #nats: Nats;
  readonly #sessions: FeedOptions['sessions'];
  readonly #log: FeedLog;
  readonly #replay: Replay;
  readonly #fanOut: FanOut;
  readonly #pages = createCallerSlots(PAGES_MAX, PAGES_WAITING_MAX);
  #stopping = false;

  private constructor(options: FeedOptions) {
    const { nats, logger, stream = FEED_STREAM } = options;
    this.#nats = nats;
    this.#sessions = options.sessions;
    const log = new FeedLog({
      nats,
      logger,
      stream,
      ringEventsMax: options.ringEventsMax ?? RING_EVENTS_MAX,
      ringBytesMax: RING_BYTES_MAX,
    });
    const chunkBytesMax = options.chunkBytesMax ?? CHUNK_BYTES_MAX;
    const replay = new Replay({ nats, stream, log, chunkBytesMax });
    this.#log = log;
    this.#replay = replay;
    this.#fanOut = new FanOut({
      log,
      replay,
      logger,
      heartbeatMs: options.heartbeatMs ?? HEARTBEAT_MS,
      stalledMsMax: options.stalledMsMax ?? STALLED_MS_MAX,
    });
  }

  /** Starts following the stream, and keeps retrying if it is not available yet. */
  static async start(options: FeedOptions): Promise<Feed> {
    const feed = new Feed(options);
    await feed.#log.start(feed.#fanOut);
    return feed;
  }

  /** The order feed. Mount behind `requireKey`. `conditionOf` rejects with Problem 404 for an unknown market. */
  handler(conditionOf: (market: MarketKey) => Promise<string>): RequestHandler {
    return async (request, response) => {
      const query = parseFeedQuery(request.query, request.get('Last-Event-ID'));
      const filter = query.filterOf(await Promise.all(query.marketKeys.map(conditionOf)));
      await this.serve({ ...query, filter: () => filter, streamId: null }, request, response);
    };
  }

  /** Serves an event stream until it ends. Throws Problem 403 or 503 before it begins. */
  async serve(wanted: FeedRequest, request: Request, response: Response): Promise<void> {
    this.#requireServed(wanted.requested);
    if (request.method === 'HEAD') {
      response.writeHead(200, FEED_HEADERS).end();
      return;
    }
    const caller = callerOf(response);
    // The client may leave while its session is opened.
    const gone = abortedWith(response);
    const session = await this.#sessions.open(caller, wanted.streamId);
    let filter: Filter;
    let requested: bigint;
    try {
      // While the session was being opened, a shutdown may have begun or the stream may have changed.
      this.#requireServed(wanted.requested);
      filter = wanted.filter();
      requested = await this.#start(wanted, filter, gone);
      // The same may have happened while the start was looked up.
      this.#requireServed(wanted.requested);
      filter = wanted.filter();
    } catch (error) {
      session.close('client_left', 0);
      throw error;
    }
    const connection = new FeedConnection(response);
    const { keyHash } = caller;
    const listener = new Listener({ ...wanted, filter, requested, connection, keyHash });
    void connection.gone.then(() => session.close(connection.why, listener.delivered));
    void session.overQuota.then(() => connection.end('quota_used_up'));
    await this.#fanOut.add(listener);
  }

  /**
   * The events that a stream would send up to now, with at most `limit` matches: those after a cursor or a time, or by
   * default the newest. Throws Problem 429 and 503, and the signal's reason.
   */
  async recent(request: RecentRequest): Promise<RecentEvents> {
    const { from, caller, signal } = request;
    this.#requireServed(typeof from === 'bigint' ? from : 0n);
    try {
      const name = caller.account || caller.keyHash;
      return await this.#pages(name, signal, () => this.#page(request));
    } catch (error) {
      if (!(error instanceof TooManyWaitingError)) throw error;
      throw new Problem({
        error: 'rate_limited',
        detail: `too many concurrent requests: ${PAGES_MAX} running, ${PAGES_WAITING_MAX} queued`,
        headers: { 'Retry-After': '1' },
      });
    }
  }

  async #page({ from, limit, filter, withFinal, signal }: RecentRequest): Promise<RecentEvents> {
    const reading: Reading = {
      ...{ format: 'json', withFinal, isFiltered: !filtersNothing(filter) },
    };
    const replay = this.#replay;
    return await orUnavailable(async () => {
      const requested =
        from instanceof Date
          ? await replay.before(from.getTime(), reading)
          : (from ?? (await replay.beforeLast(limit, filter, reading, signal)));
      return await replay.page(requested, limit, filter, reading, signal);
    });
  }

  /** See `Replay.eventsOf`. */
  eventsOf: Replay['eventsOf'] = (offered) => this.#replay.eventsOf(offered);

  /** See `Replay.since`. */
  since: Replay['since'] = (...given) => this.#replay.since(...given);

  /** Changes the filter of a managed stream's listeners. */
  refilter(streamId: string, filter: Filter): void {
    for (const listener of this.#fanOut.listeners) {
      if (listener.streamId === streamId) this.#fanOut.refilter(listener, filter);
    }
  }

  /** Ends the responses of a managed stream. */
  endStream(streamId: string, why: SessionEnd): void {
    this.#endWhere((listener) => listener.streamId === streamId, why);
  }

  /** Ends the responses of a key that is no longer valid. */
  endSessionsOf(keyHash: string): void {
    this.#endWhere((listener) => listener.keyHash === keyHash, 'key_revoked');
  }

  /** Not ready while the stream cannot be read. Open listeners stay connected and continue afterwards. */
  status(): { readonly ready: boolean; readonly detail: string } {
    const { head, damage } = this.#log;
    const trouble = this.#trouble() ?? damage;
    if (trouble !== undefined) return { ready: false, detail: trouble };
    const { size } = this.#fanOut.listeners;
    return { ready: true, detail: `${size} listeners, sequence ${head?.sequence}` };
  }

  /** Counts for the metrics. */
  figures(): FeedFigures {
    return this.#fanOut.figures;
  }

  /** Ends all responses, spread over half of the deadline, and disconnects the rest after the deadline. */
  async stop(deadlineMs: number): Promise<void> {
    this.#stopping = true;
    const deadline = delay(deadlineMs, undefined, { ref: false });
    const spreadMs = Math.min(deadlineMs / 2, STOP_SPREAD_MS_MAX);
    const connections = [...this.#fanOut.listeners].map(({ connection }) => connection);
    const ended = connections.map(async (connection) => {
      // Jitter keeps clients from all reconnecting to the next process at once.
      await delay(Math.random() * spreadMs);
      const { least, spread } = STOP_RETRY_MS;
      const retryMs = least + Math.floor(Math.random() * spread);
      connection.send(Buffer.from(retryBlock(retryMs)));
      connection.end('shutdown');
      await connection.gone;
    });
    await Promise.race([Promise.all(ended), deadline]);
    for (const connection of connections) connection.cut();
    await this.#log.stop();
  }

  /** Why listeners get no events; undefined while they do. */
  #trouble(): string | undefined {
    if (this.#stopping) return 'the feed is stopping';
    return this.#nats.connected ? this.#log.trouble : 'NATS is not connected';
  }

  /** Throws Problem 503 instead of opening a stream that would get no events. A damaged message is only a gap. */
  #requireServed(requested: bigint): void {
    const trouble = this.#trouble();
    if (trouble === undefined) return;
    // During a short outage of NATS, clients can still be served from memory.
    if (this.#stopping || this.#log.head === undefined || !this.#replay.isInMemory(requested)) {
      throw unavailable(`the order feed cannot be read now: ${trouble}`);
    }
  }

  /** The client's cursor, or the one before the last `last` matches. Throws Problem 503. */
  async #start(wanted: FeedRequest, filter: Filter, signal: AbortSignal) {
    const { requested, last, format, withFinal } = wanted;
    if (requested !== 0n || last === 0) return requested;
    const reading = { format, withFinal, isFiltered: !filtersNothing(filter) };
    return await orUnavailable(() => this.#replay.beforeLast(last, filter, reading, signal));
  }

  #endWhere(isAffected: (listener: Listener) => boolean, why: SessionEnd): void {
    for (const listener of this.#fanOut.listeners) {
      if (isAffected(listener)) listener.connection.end(why);
    }
  }
}

async function orUnavailable<Result>(read: () => Promise<Result>): Promise<Result> {
  try {
    return await read();
  } catch (error) {
    if (!(error instanceof NatsUnavailableError || error instanceof StreamMissingError)) {
      throw error;
    }
    throw unavailable('the order feed cannot be read now', error);
  }
}
