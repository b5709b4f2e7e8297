/**
 * `GET /v1/stream/orders` (specification 4.2, 2.14, 6): the order feed of one api process, live and
 * resumable. This file joins the parts: the stream (log.ts), its listeners (fanout.ts), their
 * connections. Invariant: a client sees every event that its filter wants after the position it
 * came with, in order and once, or a `gap` that says what it cannot see.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import type { Nats } from '../../infra/nats.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { callerOf } from '../keys.ts';
import { unavailable } from '../problems.ts';
import { FEED_HEADERS, FeedConnection } from './connection.ts';
import { FanOut } from './fanout.ts';
import { Follower } from './follower.ts';
import { Heartbeats } from './heartbeat.ts';
import { Listener } from './listener.ts';
import { Locator } from './locate.ts';
import { FeedLog } from './log.ts';
import { type FeedQuery, parseFeedQuery } from './query.ts';
import { Sessions } from './sessions.ts';

export type Feed = {
  /** Mount behind `requireKey`. */
  readonly handler: RequestHandler;
  /** Not ready while the stream cannot be read; open listeners stay and go on afterwards. */
  status(): { readonly ready: boolean; readonly detail: string };
  /** Ends the responses of a key that is not valid any more. */
  endSessionsOf(keyHash: string): void;
  /** Ends all responses, spread over half of the time given, and cuts what is left at its end. */
  stop(deadlineMs: number): Promise<void>;
};

export type FeedOptions = {
  readonly nats: Nats;
  readonly logger: Logger;
  /** Name of the stream; FEED. */
  readonly stream?: string;
  /** Counts open streams by account; share it with other event streams. */
  readonly sessions?: Sessions;
  /** Bounds of the newest events in memory: their number, and bytes of their messages. */
  readonly ringEventsMax?: number;
  readonly ringBytesMax?: number;
  /** Bytes of messages kept for listeners that read older events. */
  readonly chunkBytesMax?: number;
  readonly heartbeatMs?: number;
  /** Bytes that may wait for a live listener before it is cut. */
  readonly unsentBytesMax?: number;
  /** How long a listener that reads what is stored may take for what was written to it. */
  readonly stalledMsMax?: number;
};

const RING_EVENTS_MAX = 65_536;
// In memory about three times as much: the message, what filters look at, one or both forms.
const RING_BYTES_MAX = 96 * 1_048_576;
const CHUNK_BYTES_MAX = 32 * 1_048_576;
const HEARTBEAT_MS = 30_000;
const UNSENT_BYTES_MAX = 1_048_576;
const STALLED_MS_MAX = 60_000;
const STOP_SPREAD_MS_MAX = 5_000;

/** Starts to follow the stream; where that is not possible yet it goes on trying. */
export async function createFeed(options: FeedOptions): Promise<Feed> {
  const { nats, logger, stream = FEED_STREAM, sessions = new Sessions() } = options;
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
  let stopping = false;

  function status(): ReturnType<Feed['status']> {
    if (stopping) return { ready: false, detail: 'the feed is stopping' };
    if (!nats.connected) return { ready: false, detail: 'NATS is not connected' };
    if (follower.trouble !== undefined) return { ready: false, detail: follower.trouble };
    const { size } = fanOut.listeners;
    return { ready: true, detail: `${size} listeners, sequence ${log.head?.sequence}` };
  }

  /** Refuses at once what would otherwise be an open stream that stays silent. */
  function requireServed(query: FeedQuery): void {
    const { ready, detail } = status();
    if (ready) return;
    // Through a short outage of NATS, what memory can answer goes on.
    if (stopping || log.head === undefined || !locator.knows(query.requested)) {
      throw unavailable(`the order feed cannot be read now: ${detail}`);
    }
  }

  async function serve(query: FeedQuery, response: Response): Promise<void> {
    const caller = callerOf(response);
    const release = sessions.open(caller);
    const connection = new FeedConnection(response, options.unsentBytesMax ?? UNSENT_BYTES_MAX);
    void connection.gone.then(release);
    const listener = new Listener({ ...query, connection, keyHash: caller.keyHash });
    void connection.over.then(heartbeats.add(listener));
    await fanOut.add(listener);
  }

  return {
    handler: async (request, response) => {
      const query = parseFeedQuery(request.query, request.get('Last-Event-ID'));
      requireServed(query);
      if (request.method === 'HEAD') response.writeHead(200, FEED_HEADERS).end();
      else await serve(query, response);
    },
    status,
    endSessionsOf(keyHash) {
      for (const listener of fanOut.listeners) {
        if (listener.keyHash === keyHash) listener.connection.end();
      }
    },
    async stop(deadlineMs) {
      stopping = true;
      const deadline = delay(deadlineMs, undefined, { ref: false });
      const spreadMs = Math.min(deadlineMs / 2, STOP_SPREAD_MS_MAX);
      const connections = [...fanOut.listeners].map(({ connection }) => connection);
      const ended = connections.map(async (connection) => {
        // Jittered, so that clients do not all come back to the next process at once.
        await delay(Math.random() * spreadMs);
        connection.end();
        await connection.gone;
      });
      await Promise.race([Promise.all(ended), deadline]);
      for (const connection of connections) connection.destroy();
      heartbeats.stop();
      await follower.stop();
    },
  };
}
