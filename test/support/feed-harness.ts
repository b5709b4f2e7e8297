/**
 * Shared by the tests of the order feed: a real nats-server with the FEED stream, and an express app that
 * serves the feed over HTTP. Its client is in raw-client.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import express from 'express';
import pino from 'pino';
import { requireKey } from '../../api/auth/authenticate.ts';
import { cursorOf } from '../../api/feed/cursor.ts';
import { Feed, type FeedOptions } from '../../api/feed/feed.ts';
import { filteredOf } from '../../api/feed/filter.ts';
import type { Caller } from '../../api/http/caller.ts';
import { Tier } from '../../api/http/caller.ts';
import { problemHandler } from '../../api/http/errors.ts';
import type { MarketKey } from '../../api/http/parameters.ts';
import { serveEndpoints } from '../../api/http/routes.ts';
import { Sessions } from '../../api/sessions/sessions.ts';
import { openStreams, STREAMS_ENDPOINTS } from '../../api/streams/endpoints.ts';
import { createSelect } from '../../infra/clickhouse.ts';
import { connectNats, type Nats } from '../../infra/nats/connection.ts';
import { ensureStream } from '../../infra/nats/streams.ts';
import { type Append, openWriter } from '../../infra/nats/writer.ts';
import {
  encodeFeedEvent,
  FEED_FINAL_SUBJECT,
  FEED_MATCH_SUBJECT,
  FEED_RESTORED_SUBJECT,
  FEED_VOID_SUBJECT,
  type FeedFinal,
  type FeedMatch,
  type FeedRestored,
  type FeedVoid,
  feedMessageId,
  feedSequelId,
} from '../../ingest/contract.ts';
import { type NatsServer, startNatsServer } from '../../local/nats-server.ts';
import { match } from '../unit/feed-matches.ts';
import { flipBytes } from './damage.ts';

export type Broker = {
  readonly nats: Nats;
  readonly url: string;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Flips bytes in the messages of a stream, while the server is down: in the middle, or at places from 0 to 1. */
  damage(stream: string, places?: readonly number[]): Promise<void>;
  /** Loses all data and restarts at the same port with what `fill` stores, never visibly empty. */
  replace(fill: (nats: Nats) => Promise<void>): Promise<void>;
  close(): Promise<void>;
};

/** A nats-server with its own data directory; `stop` and `start` keep port and data. */
export async function startBroker(): Promise<Broker> {
  const dataDir = mkdtempSync(join(tmpdir(), 'fillstream-feed-'));
  let server: NatsServer = await startNatsServer({ dataDir });
  const { url, port } = server;
  const nats = await connectNats({ url, name: 'feed test' });
  return {
    nats,
    url,
    stop: () => server.stop(),
    async start() {
      server = await startNatsServer({ dataDir, port });
    },
    async damage(stream, places) {
      await server.stop();
      flipBytes(dataDir, new RegExp(`/${stream}/msgs/\\d+\\.blk$`), places);
      server = await startNatsServer({ dataDir, port });
      while (!nats.connected) await delay(10);
    },
    async replace(fill) {
      await server.stop();
      rmSync(dataDir, { recursive: true });
      const elsewhere = await startNatsServer({ dataDir });
      const other = await connectNats({ url: elsewhere.url, name: 'feed test, elsewhere' });
      await fill(other);
      await other.close();
      await elsewhere.stop();
      server = await startNatsServer({ dataDir, port });
    },
    async close() {
      await nats.close();
      await server.stop();
      rmSync(dataDir, { recursive: true, force: true });
    },
  };
}

/** An empty stream of the given name; its one subject is `<name>.match`. */
export async function makeStream(nats: Nats, name: string): Promise<void> {
  await ensureStream(nats, { name, subjects: [`${name}.>`] });
}

/** Stores matches in order and resolves when all are acknowledged. */
export async function publish(
  nats: Nats,
  stream: string,
  matches: readonly FeedMatch[],
): Promise<void> {
  while (!nats.connected) await delay(10);
  const writer = await openWriter(nats, { stream });
  for (const match of matches) await writer.append(message(stream, match));
  writer.close();
}

/** Stores that matches are final, as ingest does. */
export async function publishFinal(
  nats: Nats,
  stream: string,
  matches: readonly FeedMatch[],
): Promise<void> {
  const writer = await openWriter(nats, { stream });
  for (const match of matches) {
    const { id: matchId } = message(stream, match);
    const final: FeedFinal = {
      ...{ kind: 'final', blockNumber: 77, matchId, txHash: match.txHash, detectedAtMs: 0 },
      ...filteredOf(match),
    };
    const id = feedSequelId('final', matchId);
    const subject = stream === 'FEED' ? FEED_FINAL_SUBJECT : `${stream}.final`;
    await writer.append({ id, subject, data: encodeFeedEvent(final) });
  }
  writer.close();
}

/** Publishes to FEED that a match was retracted, or that it is valid after all. */
export async function publishSequel(
  nats: Nats,
  match: FeedMatch,
  what: Pick<FeedVoid, 'kind' | 'reason'> | Pick<FeedRestored, 'kind'>,
): Promise<void> {
  const writer = await openWriter(nats, { stream: 'FEED' });
  const { id: matchId } = message('FEED', match);
  const data = encodeFeedEvent({
    ...{ ...what, matchId, txHash: match.txHash, detectedAtMs: 0 },
    ...filteredOf(match),
  });
  const subject = what.kind === 'void' ? FEED_VOID_SUBJECT : FEED_RESTORED_SUBJECT;
  await writer.append({ id: feedSequelId(what.kind, matchId), subject, data });
  writer.close();
}

/** The message of a match, as ingest publishes it. */
export function message(stream: string, match: FeedMatch): Append {
  const subject = stream === 'FEED' ? FEED_MATCH_SUBJECT : `${stream}.match`;
  const id = feedMessageId(match.txHash, match.taker.orderHash, 0);
  return { id, subject, data: encodeFeedEvent(match) };
}

export type Api = {
  readonly feed: Feed;
  readonly sessions: Sessions;
  readonly port: number;
  close(): Promise<void>;
};

/** These feeds tell nothing of positions. */
const NO_CLICKHOUSE = { url: 'http://127.0.0.1:1', database: 'none' };

/**
 * Serves a feed and managed streams, as one of several processes would. The caller's account is
 * `X-Account`, by default `tests`; its tier is the first word of the account, by default pro.
 */
export async function startApi(
  options: Omit<FeedOptions, 'logger' | 'sessions'> & { readonly now?: () => number },
): Promise<Api> {
  const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
  const sessions = await Sessions.start({ ...options, logger });
  const feed = await Feed.start({ ...options, sessions, logger });
  const reading = { select: createSelect({ ...NO_CLICKHOUSE, name: 'api' }), queryMsMax: 1_000 };
  const streams = await openStreams({ ...options, feed, sessions, logger, reading });
  // These reject when a test replaces the whole broker.
  sessions.watching.catch(() => undefined);
  streams.watching.catch(() => undefined);
  const app = express();
  app.use((request, response, next) => {
    const account = request.get('X-Account') ?? 'tests';
    const tier = Tier.safeParse(account.split(' ')[0]).data ?? 'pro';
    response.locals.caller = { keyHash: `key of ${account}`, account, tier } satisfies Caller;
    next();
  });
  // Markets are known by the condition id alone: there are no listings here.
  const conditionOf = async (market: MarketKey) =>
    market.kind === 'condition' ? market.conditionId : '';
  app.get('/v1/stream/orders', feed.handler(conditionOf));
  app.get('/streams/:id', streams.listen);
  serveEndpoints(app, STREAMS_ENDPOINTS, { ...streams, conditionOf }, requireKey);
  app.use(problemHandler(logger));
  const server: Server = createServer(app);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  return {
    feed,
    sessions,
    port,
    async close() {
      await feed.stop(200);
      server.close();
      server.closeAllConnections();
      await Promise.allSettled([streams.close(), sessions.close()]);
    },
  };
}

/** Feeds on one nats-server, each with its own stream. */
export async function startFeeds() {
  const broker = await startBroker();
  const { nats } = broker;
  const apis: Api[] = [];
  let streams = 0;
  const newName = () => {
    streams += 1;
    return `feed${streams}`;
  };
  async function serve(stream: string, options: object = {}): Promise<Api> {
    const api = await startApi({ nats, stream, ...options });
    apis.push(api);
    return api;
  }
  return {
    ...{ nats, newName, serve },
    /** A feed over a new stream that holds matches 1 … `stored` before the feed starts. */
    async over(stored: number, options: { ringEventsMax?: number; heartbeatMs?: number } = {}) {
      const stream = newName();
      await makeStream(nats, stream);
      await publish(nats, stream, matches(1, stored));
      return { api: await serve(stream, options), stream };
    },
    async stop() {
      await Promise.all(apis.map((api) => api.close()));
      await broker.close();
    },
  };
}

/** Matches `first` … `last`, each with these members. */
export function matches(first: number, last: number, over: Partial<FeedMatch> = {}): FeedMatch[] {
  return Array.from({ length: last - first + 1 }, (_, index) => match(first + index, over));
}

/** Cursor of match n if it is message n of its stream. */
export function positionOf(n: number): string {
  const { txHash, taker } = match(n);
  return String(cursorOf(n, feedMessageId(txHash, taker.orderHash, 0)));
}

/** Transaction hashes of matches `first` … `last`. */
export function hashes(first: number, last: number): string[] {
  return matches(first, last).map(({ txHash }) => txHash);
}
