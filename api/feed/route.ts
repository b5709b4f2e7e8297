/**
 * `GET /v1/stream/orders`: its parameters, and the feed of one api process, which managed streams also use.
 * This file combines the log (feed-log.ts), resuming (replay.ts), the listeners (fan-out.ts) and their
 * connections. Invariant: a client gets every event after its cursor that passes its filter, once and in
 * order, or a `gap` where events are missing.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Request, RequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import {
  type Nats,
  NatsUnavailableError,
  StreamMissingError,
} from '../../infra/nats/connection.ts';
import { createCallerSlots, TooManyWaitingError } from '../../infra/slots.ts';
import { FEED_STREAM } from '../../ingest/contract.ts';
import { type Caller, callerOf } from '../http/caller.ts';
import { Problem, unavailable } from '../http/errors.ts';
import { ADDRESS, flag, type MarketKey, parse, parseMarketKey } from '../http/parameters.ts';
import { abortedWith } from '../http/routes.ts';
import type { SessionEnd } from '../sessions/record.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { FEED_HEADERS, FeedConnection } from './connection.ts';
import { parseCursor } from './cursor.ts';
import { type Format, retryBlock } from './encode.ts';
import { FanOut, type FeedFigures } from './fan-out.ts';
import { FeedLog } from './feed-log.ts';
import { effectiveTags, type Filter, type Fraction, filtersNothing } from './filter.ts';
import { Listener } from './listener.ts';
import { type Page, type Reading, Replay } from './replay.ts';

/** A request for an event stream. */
export type FeedRequest = {
  readonly format: Format;
  /** The cursor after which delivery starts; 0 = from now on. */
  readonly requested: bigint;
  /** The managed stream; null = the order feed. */
  readonly streamId: string | null;
  /** Whether the client wants `final` events. */
  readonly withFinal: boolean;
  /** If `requested` is 0, delivery starts with this many earlier matches. */
  readonly last: number;
  /** Returns the current filter. Throws Problem if the stream cannot be listened to. */
  readonly filter: () => Filter;
};

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
      const { marketKeys, ...query } = parseFeedQuery(request.query, request.get('Last-Event-ID'));
      const markets = new Set(await Promise.all(marketKeys.map(conditionOf)));
      const filter = { ...query.filter, markets };
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
  async recent(request: RecentRequest): Promise<Page> {
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

  async #page({ from, limit, filter, withFinal, signal }: RecentRequest): Promise<Page> {
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

type Query = Readonly<Record<string, unknown>>;
type FeedQuery = Pick<FeedRequest, 'format' | 'requested' | 'withFinal' | 'last'> & {
  /** Without its markets. */
  readonly filter: Filter;
  readonly marketKeys: readonly MarketKey[];
};

const MICRO = 1_000_000n;
const LIST_ENTRIES_MAX = 5_000;
/** As many as fit into the 16 KiB of a request's headers. */
export const ADDRESSES_MAX = 350;
/** Each market may need a lookup. */
export const MARKETS_MAX = 100;
const LAST_MAX = 1_000;
/** Limits the size of computed numbers, far beyond any real amount. */
const EXPONENT_MAX = 40;
const DECIMAL = /^(\d{0,40})(?:\.(\d{0,40}))?(?:[eE]([+-]?\d{1,3}))?$/;

/**
 * A comma-separated list. The parameter may also be repeated. An empty list is an error, because as a
 * filter it would let everything through.
 */
const List = z
  .union([z.string(), z.array(z.string())])
  .transform((given) =>
    [given]
      .flat()
      .flatMap((part) => part.split(','))
      .map((part) => part.trim().toLowerCase())
      .filter((part) => part !== ''),
  )
  .pipe(z.array(z.string()).min(1, 'must not be empty').max(LIST_ENTRIES_MAX));

const Addresses = List.pipe(
  z
    .array(
      z
        .string()
        .regex(/^0x[0-9a-f]{40}$/, 'must be a wallet address: 0x and 40 hexadecimal digits'),
    )
    .max(ADDRESSES_MAX, `must be at most ${ADDRESSES_MAX}; a managed stream takes more`),
);

const Markets = List.pipe(
  z
    .array(
      z.string().transform((text, context) => {
        const key = parseMarketKey(text);
        if (key !== undefined) return key;
        context.addIssue({
          code: 'custom',
          message: 'must be a market id, a condition id or a slug',
        });
        return z.NEVER;
      }),
    )
    .max(MARKETS_MAX),
);

export const Finality = flag
  .default(false)
  .describe('true: also send `event: final` when a delivered match is in a final block');

const Decimal = z
  .string('must be given once')
  .transform((text, context) => {
    const fraction = parseDecimal(text);
    if (fraction !== undefined) return fraction;
    context.addIssue({ code: 'custom', message: 'must be a decimal number of 0 or more' });
    return z.NEVER;
  })
  .optional();

const Price = Decimal.refine(
  (bound) => bound === undefined || bound.numerator <= 100n * bound.denominator,
  'must be from 0 to 100',
);

const CURSOR = { type: 'string' as const, pattern: '^[0-9]{0,20}$', examples: ['28492588'] };
/** The header Last-Event-ID. */
export const LAST_EVENT_ID = { ...CURSOR, description: 'cursor to resume after' };

const LastEventId = z
  .string('must be given once')
  .transform((text, context) => {
    const requested = text === '' ? 0n : parseCursor(text);
    if (requested !== undefined) return requested;
    context.addIssue({ code: 'custom', message: 'must be the id of an event of this feed' });
    return z.NEVER;
  })
  .optional()
  .meta({ ...CURSOR, description: 'the same as Last-Event-ID, which takes precedence' });

const Last = z
  .string('must be given once')
  .regex(/^\d{1,4}$/, `must be a number from 0 to ${LAST_MAX}`)
  .transform(Number)
  .refine((count) => count <= LAST_MAX, `must be a number from 0 to ${LAST_MAX}`)
  .default(0)
  .meta({
    ...{ type: 'integer', minimum: 0, maximum: LAST_MAX },
    description:
      'start with this many of the newest matches that pass the filter; a cursor takes precedence',
  });

/** Parameters of every event stream. */
export const StreamQuery = z.strictObject({
  ...{ finality: Finality, last: Last, lastEventId: LastEventId },
});

const SLUG = { type: 'string', minLength: 1 };
const AMOUNT = { type: 'number', minimum: 0 };
const PERCENT = { ...AMOUNT, maximum: 100 };

/** The filters of the order feed, with their descriptions. An absent filter lets everything pass. */
export const FILTERS = {
  traders: listed(
    Addresses,
    `at most ${ADDRESSES_MAX} wallet addresses (a managed stream takes more); only matches that involve one of them`,
    { type: 'string', pattern: ADDRESS.source },
    ADDRESSES_MAX,
  ),
  tags: listed(List, 'tags of markets, in any letter case', SLUG),
  series: listed(List, 'series slugs, in any letter case', SLUG),
  markets: listed(
    Markets,
    `at most ${MARKETS_MAX} markets by id, condition id or slug; an unknown market returns 404`,
    SLUG,
    MARKETS_MAX,
  ),
  min_usdc: Decimal.meta({ ...AMOUNT, description: 'minimum value of the taker order, USDC' }),
  max_usdc: Decimal.meta({ ...AMOUNT, description: 'maximum value of the taker order, USDC' }),
  min_shares: Decimal.meta({ ...AMOUNT, description: 'minimum shares of the taker order' }),
  max_shares: Decimal.meta({ ...AMOUNT, description: 'maximum shares of the taker order' }),
  min_price: Price.meta({
    ...{ ...PERCENT, description: 'minimum execution price of the taker, 0 to 100' },
  }),
  max_price: Price.meta({
    ...{ ...PERCENT, description: 'maximum execution price of the taker, 0 to 100' },
  }),
};
type Filters = z.output<z.ZodObject<typeof FILTERS>>;

/** An optional list. */
function listed<Entry>(
  list: z.ZodType<Entry[]>,
  description: string,
  items: object,
  maxItems = LIST_ENTRIES_MAX,
) {
  return list
    .optional()
    .transform((given) => given ?? [])
    .meta({
      ...{ type: 'array', minItems: 1, maxItems, items },
      description: `${description}; comma-separated`,
    });
}

/** Rejects a minimum above its maximum. */
export function boundsInOrder(query: Filters, context: z.RefinementCtx): void {
  for (const name of ['usdc', 'shares', 'price'] as const) {
    const min = query[`min_${name}`];
    const max = query[`max_${name}`];
    if (min === undefined || max === undefined) continue;
    if (min.numerator * max.denominator > max.numerator * min.denominator) {
      const message = `must not be above max_${name}`;
      context.addIssue({ code: 'custom', path: [`min_${name}`], message });
    }
  }
}

export const OrdersQuery = z
  .strictObject({
    ...FILTERS,
    format: z
      .literal('json', 'must be json, or absent for the compact form')
      .optional()
      .meta({
        ...{ type: 'string', enum: ['json'] },
        description: 'json: objects with named fields; default: the compact form',
      }),
    ...StreamQuery.shape,
  })
  .superRefine(boundsInOrder);

/**
 * Parses the query and the Last-Event-ID header, which takes precedence over `lastEventId`. An empty
 * header counts as absent. An unknown parameter is an error, because a misspelt filter would let
 * everything through. Throws Problem 400 with all issues.
 */
export function parseFeedQuery(query: Query, lastEventIdHeader: string | undefined): FeedQuery {
  const data = parse(OrdersQuery, withHeader(query, lastEventIdHeader));
  return {
    format: data.format ?? 'compact',
    requested: data.lastEventId ?? 0n,
    withFinal: data.finality,
    last: data.last,
    marketKeys: data.markets,
    filter: filterOf(data),
  };
}

/** The filter without its markets, which must be looked up. */
export function filterOf(given: Filters): Filter {
  return {
    traders: new Set(given.traders),
    tags: new Set(effectiveTags(given.tags)),
    series: new Set(given.series),
    markets: new Set(),
    usdcMin: microAtLeast(given.min_usdc),
    usdcMax: microAtMost(given.max_usdc),
    sharesMin: microAtLeast(given.min_shares),
    sharesMax: microAtMost(given.max_shares),
    priceMin: given.min_price ?? null,
    priceMax: given.max_price ?? null,
  };
}

/** The query of a managed stream. Throws like `parseFeedQuery`. */
export function parseStreamQuery(
  query: Query,
  lastEventIdHeader: string | undefined,
): Pick<FeedRequest, 'requested' | 'withFinal' | 'last'> {
  const data = parse(StreamQuery, withHeader(query, lastEventIdHeader));
  return { requested: data.lastEventId ?? 0n, withFinal: data.finality, last: data.last };
}

function withHeader(query: Query, header = ''): Query {
  if (header === '') return query;
  parse(z.object({ 'Last-Event-ID': LastEventId }), { 'Last-Event-ID': header });
  return { ...query, lastEventId: header };
}

/** The exact value of a decimal such as `0.5`, `12` or `1e-05`; undefined if it is not one. */
function parseDecimal(text: string): Fraction | undefined {
  const [, whole = '', fraction = '', exponent = '0'] = DECIMAL.exec(text) ?? [];
  const shift = Number(exponent) - fraction.length;
  if (whole + fraction === '' || Math.abs(Number(exponent)) > EXPONENT_MAX) return undefined;
  const digits = BigInt(whole + fraction);
  return shift >= 0
    ? { numerator: digits * 10n ** BigInt(shift), denominator: 1n }
    : { numerator: digits, denominator: 10n ** BigInt(-shift) };
}

// Rounds up: a whole number of micro-units reaches the bound exactly when it reaches the rounded bound.
function microAtLeast(bound: Fraction | undefined): bigint | null {
  if (bound === undefined) return null;
  return (bound.numerator * MICRO + bound.denominator - 1n) / bound.denominator;
}

// Rounds down, for the same reason.
function microAtMost(bound: Fraction | undefined): bigint | null {
  return bound === undefined ? null : (bound.numerator * MICRO) / bound.denominator;
}
