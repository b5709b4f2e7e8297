/**
 * The feed of one api process, live and resumable: `GET /v1/stream/orders` (specification 4.2, 2.14,
 * 6), and what managed streams are served with. This file joins the parts: the stream (feed-log.ts), its
 * listeners (fan-out.ts), their connections. Invariant: a client sees every event that its filter
 * wants after the position it came with, in order and once, or a `gap` that says what it cannot see.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import type { Nats } from '../../infra/nats/connection.ts';
import { FEED_STREAM } from '../../ingest/contract-feed.ts';
import { callerOf } from '../auth/keys.ts';
import { unavailable } from '../errors.ts';
import type { SessionEnd } from '../sessions/record.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { FEED_HEADERS, FeedConnection } from './connection.ts';
import { type Format, retryBlock } from './encode.ts';
import { FanOut } from './fan-out.ts';
import { FeedLog } from './feed-log.ts';
import type { Filter } from './filter.ts';
import { Follower } from './follower.ts';
import { Frame } from './frame.ts';
import { Heartbeats } from './heartbeat.ts';
import { Listener } from './listener.ts';
import { parseFeedQuery } from './query.ts';
import { Locator } from './replay.ts';
import { type FeedFigures, Tally } from './tally.ts';

/** What a client asks for. */
export type Wanted = {
  readonly format: Format;
  /** The position after which delivery starts; 0 is live from now. */
  readonly requested: bigint;
  /** The managed stream; null = the order feed. */
  readonly streamId: string | null;
  /** The filter in force at the moment of the call. Throws Problem where nothing is served. */
  readonly filter: () => Filter;
};

export type Feed = {
  /** The order feed. Mount behind `requireKey`. */
  readonly handler: RequestHandler;
  /** Serves an event stream until it is over. Throws Problem 403 and 503 before it begins. */
  serve(wanted: Wanted, request: Request, response: Response): Promise<void>;
  /** Delivers to the listeners of a managed stream under another filter from now on. */
  refilter(streamId: string, filter: Filter): void;
  /** Ends the responses of a managed stream. */
  endStream(streamId: string, why: SessionEnd): void;
  /** Not ready while the stream cannot be read; open listeners stay and go on afterwards. */
  status(): { readonly ready: boolean; readonly detail: string };
  /** Counts for the metrics. */
  figures(): FeedFigures;
  /** Ends the responses of a key that is not valid any more. */
  endSessionsOf(keyHash: string): void;
  /** Ends all responses, spread over half of the time given, and cuts what is left at its end. */
  stop(deadlineMs: number): Promise<void>;
};

export type FeedOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  /** Counts open streams by account. */
  readonly sessions: Pick<Sessions, 'open'>;
  /** Name of the stream; FEED. */
  readonly stream?: string;
  /** Bounds of the newest events in memory: their number, and bytes of their messages. */
  readonly ringEventsMax?: number;
  readonly ringBytesMax?: number;
  /** About how many bytes the events take that are kept for listeners that read older ones. */
  readonly chunkBytesMax?: number;
  readonly heartbeatMs?: number;
  /** Bytes that may wait for a live listener before it is cut. */
  readonly unsentBytesMax?: number;
  /** How long a listener that reads what is stored may take for what was written to it. */
  readonly stalledMsMax?: number;
};

const RING_EVENTS_MAX = 65_536;
// About 7,000 matches: 12 minutes of Polygon, 2 of a day ten times as busy; older ones are read from the
// stream. In memory five times as much: the message, what filters look at, up to three forms.
const RING_BYTES_MAX = 16 * 1_048_576;
const CHUNK_BYTES_MAX = 64 * 1_048_576;
const HEARTBEAT_MS = 30_000;
const UNSENT_BYTES_MAX = 1_048_576;
const STALLED_MS_MAX = 60_000;
const STOP_SPREAD_MS_MAX = 5_000;
/** After a stop, clients come back within this span and not all at once. */
const STOP_RETRY_MS = { least: 500, spread: 2_500 };

/** Starts to follow the stream; where that is not possible yet it goes on trying. */
export async function createFeed(options: FeedOptions): Promise<Feed> {
  const { nats, logger, stream = FEED_STREAM, sessions } = options;
  const fanOut = new FanOut(logger, options.stalledMsMax ?? STALLED_MS_MAX);
  const log = new FeedLog({
    nats,
    logger,
    stream,
    ringEventsMax: options.ringEventsMax ?? RING_EVENTS_MAX,
    ringBytesMax: options.ringBytesMax ?? RING_BYTES_MAX,
    chunkBytesMax: options.chunkBytesMax ?? CHUNK_BYTES_MAX,
    sink: fanOut,
  });
  const locator = new Locator(nats, stream, log);
  fanOut.readFrom({ log, locator });
  const heartbeats = new Heartbeats<Listener>(options.heartbeatMs ?? HEARTBEAT_MS, (listener) =>
    fanOut.beat(listener),
  );
  const follower = new Follower({ log, nats, stream, logger });
  await follower.attached;
  const tally = new Tally();
  let stopping = false;

  function status(): ReturnType<Feed['status']> {
    if (stopping) return { ready: false, detail: 'the feed is stopping' };
    if (!nats.connected) return { ready: false, detail: 'NATS is not connected' };
    if (follower.trouble !== undefined) return { ready: false, detail: follower.trouble };
    const { size } = fanOut.listeners;
    return { ready: true, detail: `${size} listeners, sequence ${log.head?.sequence}` };
  }

  /** Refuses at once what would otherwise be an open stream that stays silent. */
  function requireServed(requested: bigint): void {
    const { ready, detail } = status();
    if (ready) return;
    // Through a short outage of NATS, what memory can answer goes on.
    if (stopping || log.head === undefined || !locator.knows(requested)) {
      throw unavailable(`the order feed cannot be read now: ${detail}`);
    }
  }

  async function serve(wanted: Wanted, request: Request, response: Response): Promise<void> {
    requireServed(wanted.requested);
    if (request.method === 'HEAD') {
      response.writeHead(200, FEED_HEADERS).end();
      return;
    }
    const caller = callerOf(response);
    const session = await sessions.open(caller, wanted.streamId);
    let filter: Filter;
    try {
      // The process may stop, and the stream change or go, while the session was opened.
      requireServed(wanted.requested);
      filter = wanted.filter();
    } catch (error) {
      session.close('client_left', 0);
      throw error;
    }
    const connection = new FeedConnection(response, options.unsentBytesMax ?? UNSENT_BYTES_MAX);
    const { keyHash } = caller;
    const listener = new Listener({ ...wanted, filter, connection, keyHash });
    void connection.gone.then(() => session.close(connection.why, listener.delivered));
    tally.follow(listener, wanted.requested);
    void session.usedUp.then(() => connection.end('quota_used_up'));
    void connection.over.then(heartbeats.add(listener));
    await fanOut.add(listener);
  }

  function endWhere(isMeant: (listener: Listener) => boolean, why: SessionEnd): void {
    for (const listener of fanOut.listeners) if (isMeant(listener)) listener.connection.end(why);
  }

  return {
    handler: async (request, response) => {
      const query = parseFeedQuery(request.query, request.get('Last-Event-ID'));
      await serve({ ...query, filter: () => query.filter, streamId: null }, request, response);
    },
    serve,
    refilter(streamId, filter) {
      for (const listener of fanOut.listeners) {
        if (listener.streamId === streamId) fanOut.refilter(listener, filter);
      }
    },
    endStream: (streamId, why) => endWhere((listener) => listener.streamId === streamId, why),
    status,
    figures: () => tally.figures(fanOut.listeners, follower.behind),
    endSessionsOf: (keyHash) => endWhere((listener) => listener.keyHash === keyHash, 'key_revoked'),
    async stop(deadlineMs) {
      stopping = true;
      const deadline = delay(deadlineMs, undefined, { ref: false });
      const spreadMs = Math.min(deadlineMs / 2, STOP_SPREAD_MS_MAX);
      const connections = [...fanOut.listeners].map(({ connection }) => connection);
      const ended = connections.map(async (connection) => {
        // Jittered, so that clients do not all come back to the next process at once.
        await delay(Math.random() * spreadMs);
        const { least, spread } = STOP_RETRY_MS;
        const retryMs = least + Math.floor(Math.random() * spread);
        connection.send(Frame.of(retryBlock(retryMs)));
        connection.end('shutdown');
        await connection.gone;
      });
      await Promise.race([Promise.all(ended), deadline]);
      for (const connection of connections) connection.destroy('shutdown');
      heartbeats.stop();
      await follower.stop();
    },
  };
}
