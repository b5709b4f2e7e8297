/** The client: every endpoint as a method, lists as iterables of pages, streams as iterables of events. */
import { Endpoints, EndpointsV1 } from './endpoints.ts';
import { type CallOptions, Http, type Method, type Options, type Query, search } from './http.ts';
import { EventStream, type FeedEvent, type StreamEvent, type StreamOptions } from './stream.ts';
import type { FeedQuery, StreamQuery } from './types.ts';

export { traderAddress } from './address.ts';
export {
  ApiError,
  type CallOptions,
  ConnectionError,
  FillstreamError,
  type List,
  type Options,
} from './http.ts';
export {
  EventStream,
  type FeedEvent,
  type StreamEvent,
  type StreamOptions,
  type StreamState,
} from './stream.ts';
export { type Traded, traded } from './traded.ts';
export type * from './types.ts';

export class Fillstream extends Endpoints {
  /** The endpoints of version 1, where amounts are decimal strings. */
  readonly v1: EndpointsV1;

  /** Throws TypeError for an invalid URL, or a key with characters that a header cannot contain. */
  constructor(options: Options) {
    const http = new Http(options);
    super(http);
    this.v1 = new EndpointsV1(http);
  }

  /** Every match when it is first seen, and later events about it, from now on or after `options.from`. */
  feed(query: FeedQuery = {}, options: StreamOptions = {}): EventStream<FeedEvent> {
    const path = `/v1/stream/orders${search({ ...query, format: 'json' })}`;
    return new EventStream(this.http, path, options);
  }

  /** The matches that pass the filters of a managed stream, and what became of them. */
  stream(
    id: string,
    query: StreamQuery = {},
    options: StreamOptions = {},
  ): EventStream<StreamEvent> {
    const path = `/streams/${encodeURIComponent(id)}${search(query)}`;
    return new EventStream(this.http, path, options);
  }

  /** The JSON of any path, for endpoints that this version has no method for. */
  request<Answer>(
    method: Method,
    path: string,
    given: { readonly query?: Query; readonly body?: unknown } = {},
    options: CallOptions = {},
  ): Promise<Answer> {
    return this.http.call(method, path, given, options);
  }
}
