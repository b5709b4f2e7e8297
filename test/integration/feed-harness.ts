/**
 * What the tests of the order feed share: a real nats-server with the FEED stream, an express app
 * that serves the feed over HTTP, and a client that keeps every byte it gets.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import express from 'express';
import pino from 'pino';
import { createFeed, type Feed, type FeedOptions } from '../../api/feed/feed.ts';
import type { Caller } from '../../api/keys.ts';
import { mount } from '../../api/mount.ts';
import { problemHandler } from '../../api/problems.ts';
import { openSessions, type Sessions } from '../../api/sessions/sessions.ts';
import { STREAMS_ENDPOINTS } from '../../api/streams/endpoints.ts';
import { openStreams } from '../../api/streams/streams.ts';
import { Tier } from '../../api/tiers.ts';
import { type NatsServer, startNatsServer } from '../../infra/embedded/nats-server.ts';
import { connectNats, ensureStream, type Nats } from '../../infra/nats.ts';
import { OrderedPublisher } from '../../infra/nats-publisher.ts';
import {
  encodeFeedEvent,
  FEED_MATCH_SUBJECT,
  type FeedMatch,
  feedMessageId,
} from '../../ingest/contract-feed.ts';

export type Broker = {
  readonly nats: Nats;
  readonly url: string;
  stop(): Promise<void>;
  start(): Promise<void>;
  /** Loses all data and comes back at the same port with what `fill` stores, never seen empty. */
  replace(fill: (nats: Nats) => Promise<void>): Promise<void>;
  close(): Promise<void>;
};

/** A nats-server with a data directory of its own; `stop` and `start` keep port and data. */
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
  const publisher = new OrderedPublisher(nats, { stream });
  for (const match of matches) await publisher.publish(...message(stream, match));
  await publisher.flush();
  publisher.close();
}

/** Subject, message id and data of a match, as ingest publishes it. */
export function message(stream: string, match: FeedMatch): [string, string, string] {
  const subject = stream === 'FEED' ? FEED_MATCH_SUBJECT : `${stream}.match`;
  return [subject, feedMessageId(match.txHash, match.taker.orderHash, 0), encodeFeedEvent(match)];
}

export type Api = {
  readonly feed: Feed;
  readonly sessions: Sessions;
  readonly port: number;
  close(): Promise<void>;
};

/**
 * Serves a feed and managed streams, as one of several processes would; the caller is account
 * `X-Account`, else `tests`, of tier pro, or of the tier that the account is named after.
 */
export async function startApi(
  options: Omit<FeedOptions, 'logger' | 'sessions'> & { readonly now?: () => number },
): Promise<Api> {
  const logger = pino({ level: process.env.LOG_LEVEL ?? 'silent' });
  const sessions = await openSessions({ ...options, logger });
  const feed = await createFeed({ ...options, sessions, logger });
  const streams = await openStreams({ ...options, feed, sessions, logger });
  // Where a test loses the whole broker, nothing is left to watch.
  sessions.watching.catch(() => undefined);
  streams.watching.catch(() => undefined);
  const app = express();
  app.use((request, response, next) => {
    const account = request.get('X-Account') ?? 'tests';
    const tier = Tier.safeParse(account.split(' ')[0]).data ?? 'pro';
    response.locals.caller = { keyHash: `key of ${account}`, account, tier } satisfies Caller;
    next();
  });
  app.get('/v1/stream/orders', feed.handler);
  app.get('/streams/:id', streams.listen);
  mount(app, STREAMS_ENDPOINTS, streams);
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

export type Block = {
  readonly id?: string;
  readonly event?: string;
  readonly data?: string;
  readonly retry?: string;
};

/** A raw HTTP/1.0 client: without chunks, what follows the head is the stream byte for byte. */
export class Client {
  readonly socket: Socket;
  ended = false;
  /** The complete blocks so far; comments left out. */
  readonly blocks: Block[] = [];
  readonly #chunks: string[] = [];
  /** What follows the head or the last complete block. */
  #rest = '';
  #inBody = false;
  readonly #decoder = new TextDecoder();
  #check: () => void = () => undefined;

  constructor(
    port: number,
    options: {
      path?: string;
      query?: string;
      headers?: Record<string, string>;
      method?: string;
    } = {},
  ) {
    this.socket = connect(port, '127.0.0.1');
    const fields = Object.entries(options.headers ?? {}).map(
      ([name, value]) => `${name}: ${value}`,
    );
    const path = options.path ?? '/v1/stream/orders';
    const target = `${path}${options.query === undefined ? '' : `?${options.query}`}`;
    const lines = [`${options.method ?? 'GET'} ${target} HTTP/1.0`, ...fields, '', ''];
    this.socket.write(lines.join('\r\n'));
    this.socket.on('data', (bytes) => {
      const text = this.#decoder.decode(bytes, { stream: true });
      this.#chunks.push(text);
      this.#parse(text);
      this.#check();
    });
    this.socket.on('error', () => undefined);
    this.socket.on('close', () => {
      this.ended = true;
      this.#check();
    });
  }

  get text(): string {
    return this.#chunks.join('');
  }

  get head(): string {
    return this.text.split('\r\n\r\n', 1)[0] ?? '';
  }

  get status(): number {
    return Number(this.head.split(' ')[1]);
  }

  get body(): string {
    const end = this.text.indexOf('\r\n\r\n');
    return end === -1 ? '' : this.text.slice(end + 4);
  }

  get orders(): Block[] {
    return this.blocks.filter((block) => block.event === 'order');
  }

  /** The newest id, as an EventSource would send it back. */
  get lastEventId(): string | undefined {
    return this.blocks.findLast((block) => block.id !== undefined)?.id;
  }

  /** Resolves once the condition holds; rejects when the connection ends before. */
  async until(condition: (client: Client) => boolean): Promise<this> {
    await new Promise<void>((resolve, reject) => {
      this.#check = () => {
        if (condition(this)) resolve();
        else if (this.ended)
          reject(new Error(`the connection ended after: ${this.text.slice(-500)}`));
      };
      this.#check();
    });
    return this;
  }

  /** Resolves when the stream has begun: from then on nothing that is published is missed. */
  begun(): Promise<this> {
    return this.until((client) => client.body.includes('retry: 2000\n\n'));
  }

  close(): void {
    this.socket.destroy();
  }

  #parse(text: string): void {
    this.#rest += text;
    if (!this.#inBody) {
      const head = this.#rest.indexOf('\r\n\r\n');
      if (head === -1) return;
      this.#inBody = true;
      this.#rest = this.#rest.slice(head + 4);
    }
    const blocks = this.#rest.split('\n\n');
    this.#rest = blocks.pop() ?? '';
    for (const block of blocks) {
      const lines = block.split('\n').filter((line) => !line.startsWith(':'));
      const fields = lines.map((line) => [
        line.split(': ', 1)[0],
        line.slice(line.indexOf(': ') + 2),
      ]);
      this.blocks.push(Object.fromEntries(fields));
    }
  }
}

/** Transaction hashes of compact or labelled orders. */
export function txHashes(blocks: readonly Block[]): string[] {
  return blocks.map(({ data = '' }) => {
    const parsed: unknown = JSON.parse(data);
    if (Array.isArray(parsed)) return String(parsed[0]);
    return String((parsed as { tx_hash: unknown }).tx_hash);
  });
}
