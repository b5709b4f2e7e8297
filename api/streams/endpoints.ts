/**
 * Managed streams: the endpoints that list, create, change and delete them, the account's sessions, and
 * `GET /streams/{id}`, which listens to a stream. The store's watch delivers a change in any process to the
 * listeners of this one.
 */
import type { RequestHandler } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';
import { Portfolios } from '../analytics/position-book.ts';
import type { Reading } from '../analytics/query.ts';
import { count, text } from '../analytics/schemas.ts';
import type { Feed } from '../feed/feed.ts';
import type { Filter } from '../feed/filter.ts';
import { parseStreamQuery } from '../feed/query.ts';
import { callerOf } from '../http/caller.ts';
import { type CallerContext, type Endpoint, endpoint } from '../http/endpoint.ts';
import { invalid, Problem } from '../http/errors.ts';
import { integer, type MarketKey } from '../http/parameters.ts';
import { type ClosedRecord, type OpenRecord, SessionEnd } from '../sessions/record.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { createTeller } from './positions.ts';
import { type Resolved, StreamStore } from './store.ts';
import {
  filterOfLists,
  Meta,
  NewStream,
  Stream,
  type StreamRecord,
  Subscription,
  wireStream,
} from './stream.ts';

export type StreamsCall = CallerContext & {
  readonly store: StreamStore;
  readonly sessions: Sessions;
  /** Rejects with Problem 404 for an unknown market. */
  readonly conditionOf: (market: MarketKey) => Promise<string>;
};

const HISTORY_LIMIT_DEFAULT = 50;
const HISTORY_LIMIT_MAX = 1_000;

const ID_EXAMPLE = '0b9c2f6e-4a51-4c5b-9a0a-1f2e3d4c5b6a';

/** Accepts any string, because an id that the account does not have is a 404, not a 400. */
const StreamId = z.object({
  id: z
    .string()
    .meta({ type: 'string', format: 'uuid', description: 'stream id', examples: [ID_EXAMPLE] }),
});

const TotalCount = count('number of entries in data', 1);

const Session = z.object({
  id: text('id of the session', ID_EXAMPLE).meta({ format: 'uuid' }),
  stream_id: z
    .string()
    .nullable()
    .meta({ description: 'the managed stream; null: the order feed', examples: [ID_EXAMPLE] }),
  started_at: text(
    'when the session was opened, UTC with milliseconds',
    '2026-05-01T12:00:00.000Z',
  ).meta({ format: 'date-time' }),
});

const EndedSession = Session.extend({
  ended_at: text('when the session ended', '2026-05-01T12:30:00.000Z').meta({
    format: 'date-time',
  }),
  end: SessionEnd.meta({ description: 'why the session ended', examples: ['client_left'] }),
  events: z
    .int()
    .nullable()
    .meta({ description: 'events delivered; null if unknown', examples: [1234] }),
});

const listStreams = endpoint({
  name: 'streams',
  method: 'get',
  path: '/streams',
  summary: 'Streams',
  description: 'The managed streams of your account with their filters, oldest first.',
  parameters: z.object({}),
  answer: z.object({ data: z.array(Stream), total_count: TotalCount }),
  problems: [],
  run: async (call: StreamsCall) => {
    const data = call.store.list(call.caller.account).map((record) => wire(call, record));
    return { data, total_count: data.length };
  },
});

const createStream = endpoint({
  name: 'createStream',
  method: 'post',
  path: '/streams',
  status: 201,
  summary: 'Create a stream',
  description: `Stores a filter under a name; listen to it with \`GET /streams/{id}\`. A match is delivered if every non-empty list has an
entry that matches it. The quotas \`max_streams\`, \`max_naked_streams\` (streams without any filter), \`max_filter_addrs\`,
\`max_filter_tags\` and \`max_filter_series\` depend on the tier.

Slugs are lower-cased, duplicates are removed, and markets are stored as condition ids.`,
  parameters: z.object({}),
  body: NewStream,
  answer: Stream,
  problems: ['not_found', 'quota_exceeded'],
  run: async (call: StreamsCall, _, body) =>
    wire(call, await call.store.create(call.caller, await resolved(call, body), call.repeatable)),
});

const updateSubscription = endpoint({
  name: 'updateSubscription',
  method: 'put',
  path: '/streams/:id/subscription',
  summary: 'Change the filter of a stream',
  description: `Changes what a stream delivers while its listeners stay connected, within a second in every process. An omitted list keeps
its entries, an empty list is cleared.`,
  parameters: StreamId,
  body: Subscription,
  answer: Stream,
  problems: ['not_found', 'quota_exceeded'],
  run: async (call: StreamsCall, { id }, body) =>
    wire(call, await call.store.update(call.caller, id, await resolved(call, body))),
});

const readMeta = endpoint({
  name: 'streamMeta',
  method: 'get',
  path: '/streams/:id/meta',
  summary: 'Stream',
  description:
    'A stream as in the list, with its filter and the number of its listeners, without listening to it.',
  parameters: StreamId,
  answer: Stream,
  problems: ['not_found'],
  run: async (call: StreamsCall, { id }) => wire(call, await call.store.find(call.caller, id)),
});

const updateMeta = endpoint({
  name: 'updateStream',
  method: 'put',
  path: '/streams/:id/meta',
  summary: 'Rename, enable or disable a stream',
  description: `Changes the name of a stream, or whether it can be listened to; omitted members keep their values. Disabling a stream
disconnects its listeners. Until it is enabled again, listening returns 403 \`stream_disabled\`.`,
  parameters: StreamId,
  body: Meta,
  answer: Stream,
  problems: ['not_found'],
  run: async (call: StreamsCall, { id }, body) =>
    wire(call, await call.store.update(call.caller, id, body)),
});

const deleteStream = endpoint({
  name: 'deleteStream',
  method: 'delete',
  path: '/streams/:id',
  summary: 'Delete a stream',
  description:
    'Deletes a stream for good. Its listeners get `event: end` with the reason `stream_deleted`.',
  parameters: StreamId,
  answer: z.object({ id: text('id of the deleted stream', ID_EXAMPLE) }),
  problems: ['not_found'],
  run: async (call: StreamsCall, { id }) => {
    await call.store.delete(call.caller, id);
    return { id };
  },
});

const listSessions = endpoint({
  name: 'sessions',
  method: 'get',
  path: '/sessions',
  summary: 'Open sessions',
  description:
    'The open event streams of your account in all processes, of managed streams and the order feed, oldest first.',
  parameters: z.object({}),
  answer: z.object({
    data: z.array(Session),
    total_count: TotalCount,
    used_seconds_today: count(
      'seconds of event streams on this UTC day, summed over all sessions',
      5400,
    ),
  }),
  problems: [],
  run: async ({ caller, sessions }: StreamsCall) => {
    const data = sessions.list(caller.account).map(wireSession);
    const used = sessions.usedSeconds(caller.account);
    return { data, total_count: data.length, used_seconds_today: used };
  },
});

const listEndedSessions = endpoint({
  name: 'endedSessions',
  method: 'get',
  path: '/sessions/history',
  summary: 'Ended sessions',
  description: `The ended event streams of your account, newest first, with the reason of each end. The last ${HISTORY_LIMIT_MAX} are kept for 30 days.`,
  parameters: z.object({
    limit: integer(1, HISTORY_LIMIT_MAX)
      .default(HISTORY_LIMIT_DEFAULT)
      .meta({ description: 'maximum number of entries' }),
  }),
  answer: z.object({
    data: z.array(EndedSession),
    total_count: count('stored ended event streams', 1),
  }),
  problems: [],
  run: async ({ caller, sessions }: StreamsCall, { limit }) => {
    const { newest, count } = await sessions.history(caller.account, limit);
    const data = newest.map((record) => ({ ...wireSession(record), ...wireEnd(record) }));
    return { data, total_count: count };
  },
});

export const STREAMS_ENDPOINTS: readonly Endpoint<StreamsCall>[] = [
  listStreams,
  createStream,
  deleteStream,
  updateSubscription,
  readMeta,
  updateMeta,
  listSessions,
  listEndedSessions,
];

export type Streams = Awaited<ReturnType<typeof openStreams>>;

/** The managed streams of this process. A watch delivers changes in any process to its listeners. */
export async function openStreams(options: {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly feed: Pick<Feed, 'serve' | 'refilter' | 'endStream' | 'since' | 'eventsOf'>;
  /** How ClickHouse is read for `event: position`. */
  readonly reading: Omit<Reading, 'signal'>;
  readonly sessions: Sessions;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}) {
  const { feed, sessions } = options;
  /** Of streams that somebody listened to. The filter stays the same object while its lists do: each one has a cost for listeners. */
  const filters = new Map<string, { readonly lists: string; readonly filter: Filter }>();
  function filterOf({ addresses, id, markets, series, tags }: StreamRecord): Filter {
    const all = { addresses, tags, series, markets };
    const lists = JSON.stringify(all);
    const known = filters.get(id);
    if (known?.lists === lists) return known.filter;
    const filter = filterOfLists(all);
    filters.set(id, { lists, filter });
    return filter;
  }
  const store = await StreamStore.open({
    ...options,
    onChange: (id, record) => {
      if (record === undefined) feed.endStream(id, 'stream_deleted');
      else if (!record.enabled) feed.endStream(id, 'stream_disabled');
      else if (filters.has(id)) feed.refilter(id, filterOf(record));
      if (record === undefined) filters.delete(id);
    },
  });
  const portfolios = new Portfolios(options.reading);

  /** The current filter. Throws Problem 404 if the stream was deleted, 403 if it was disabled. */
  function filterNow(id: string): Filter {
    const record = store.known(id);
    if (record === undefined) {
      throw new Problem({ error: 'not_found', detail: 'the stream is deleted' });
    }
    if (record.enabled) return filterOf(record);
    const detail = 'the stream is disabled; PUT /streams/{id}/meta enables it';
    throw new Problem({ error: 'stream_disabled', detail });
  }

  const listen: RequestHandler = async (request, response) => {
    const given = parseStreamQuery(request.query, request.get('Last-Event-ID'));
    const { positions, ...query } = given;
    const caller = callerOf(response);
    const { addresses, id } = await store.find(caller, String(request.params.id));
    if (positions && addresses.length === 0) {
      const message = 'needs a stream with addresses, whose positions are told';
      throw invalid([{ path: 'positions', message }]);
    }
    const filter = () => filterNow(id);
    // Check before a session is opened. The feed checks again afterwards.
    filter();
    const wanted = { ...query, format: 'tx', streamId: id, filter } as const;
    const wallets = () => store.known(id)?.addresses ?? [];
    const tell = positions ? createTeller({ ...options, portfolios, wallets }) : undefined;
    await feed.serve({ ...wanted, tell }, request, response);
  };

  return {
    store,
    sessions,
    /** Mount behind `requireKey`, with the stream's id as the path parameter `id`. */
    listen,
    /** Settles when the bucket is no longer watched; rejects if `close` was not called. */
    watching: store.watching,
    close: () => store.close(),
  };
}

/** Throws Problem 404 for an unknown market. */
async function resolved<Body extends Subscription>(
  { conditionOf }: StreamsCall,
  { markets, ...body }: Body,
): Promise<Resolved<Body>> {
  if (markets === undefined) return body;
  return { ...body, markets: [...new Set(await Promise.all(markets.map(conditionOf)))] };
}

function wire({ sessions }: StreamsCall, record: StreamRecord): Stream {
  const open = sessions.list(record.account).filter(({ streamId }) => streamId === record.id);
  return wireStream(record, open.length);
}

function wireSession({ id, streamId, startedAtMs }: OpenRecord) {
  return { id, stream_id: streamId, started_at: new Date(startedAtMs).toISOString() };
}

function wireEnd({ endedAtMs, end, events }: ClosedRecord) {
  return { ended_at: new Date(endedAtMs).toISOString(), end, events };
}
