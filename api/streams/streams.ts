/**
 * Managed streams of one api process: the store, and `GET /streams/{id}`, which listens to a stream
 * (specification 4.1, 2.13, 6). A change in any process reaches the listeners of this one through
 * the store's watch.
 */
import type { RequestHandler } from 'express';
import type { Logger } from 'pino';
import type { Nats } from '../../infra/nats/connection.ts';
import { callerOf } from '../auth/keys.ts';
import { Problem } from '../errors.ts';
import type { Filter } from '../feed/filter.ts';
import { type Feed, parseCursorQuery } from '../feed/route.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { StreamStore } from './store.ts';
import { filterOf } from './stream.ts';

export type Streams = {
  readonly store: StreamStore;
  readonly sessions: Sessions;
  /** Mount behind `requireKey`, with the stream's id as the path parameter `id`. */
  readonly listen: RequestHandler;
  /** Settles when the bucket is no longer watched; rejects where that was not asked for. */
  readonly watching: Promise<void>;
  close(): Promise<void>;
};

export async function openStreams(options: {
  readonly nats: Nats;
  readonly logger: Logger;
  readonly feed: Pick<Feed, 'serve' | 'refilter' | 'endStream'>;
  readonly sessions: Sessions;
  readonly replicas?: number;
  /** Milliseconds since the epoch. */
  readonly now?: () => number;
}): Promise<Streams> {
  const { feed, sessions } = options;
  const store = await StreamStore.open({
    ...options,
    onChange: (id, record) => {
      if (record === undefined) feed.endStream(id, 'stream_deleted');
      else if (!record.enabled) feed.endStream(id, 'stream_disabled');
      else feed.refilter(id, filterOf(record));
    },
  });

  /** The filter in force now. Throws Problem 404 and 403 where nobody may listen any more. */
  function filterNow(id: string): Filter {
    const record = store.known(id);
    if (record === undefined) {
      throw new Problem({ status: 404, error: 'not_found', detail: 'the stream is deleted' });
    }
    if (record.enabled) return filterOf(record);
    const detail = 'the stream is disabled; PUT /streams/{id}/meta enables it';
    throw new Problem({ status: 403, error: 'stream_disabled', detail });
  }

  return {
    store,
    sessions,
    listen: async (request, response) => {
      const requested = parseCursorQuery(request.query, request.get('Last-Event-ID'));
      const { id } = await store.find(callerOf(response), String(request.params.id));
      const filter = () => filterNow(id);
      // Before a session is opened, and again when it is.
      filter();
      await feed.serve({ format: 'tx', requested, streamId: id, filter }, request, response);
    },
    watching: store.watching,
    close: () => store.close(),
  };
}
