/**
 * Event streams over fetch, because EventSource cannot send a header. A stream is opened again after any cut,
 * end or silence, and resumes after its cursor. Invariant: each event is given once and in order, or a `gap` is;
 * the cursor moves with what is given, so that a program that keeps it loses nothing.
 */
import {
  ApiError,
  backoffMs,
  type CallOptions,
  ConnectionError,
  type FillstreamError,
  failure,
  type Http,
  isTransient,
  joined,
  pause,
} from './http.ts';
import type { End, Final, Gap, LabelledMatch, LiveTransaction, Restored, Void } from './types.ts';

/** What both kinds of streams say about matches, and about themselves. */
type EventOf<Type extends string, Data> = {
  readonly type: Type;
  /** Where a stream goes on after this event: keep it once the event is handled. */
  readonly cursor: string;
  readonly data: Data;
};
type Sequel =
  | EventOf<'void', Void>
  | EventOf<'restored', Restored>
  | EventOf<'final', Final>
  | EventOf<'gap', Gap>
  | EventOf<'end', End>;
/** An event of the order feed. */
export type FeedEvent = EventOf<'order', LabelledMatch> | Sequel;
/** An event of a managed stream. */
export type StreamEvent = EventOf<'tx', LiveTransaction> | Sequel;

/** Others are for later versions of this client. */
export const EVENT_TYPES: readonly (FeedEvent | StreamEvent)['type'][] = [
  ...(['order', 'tx', 'void', 'restored', 'final', 'gap', 'end'] as const),
];

export type StreamState =
  | { readonly kind: 'connecting' }
  /** Open; `cutMs`: how long it was not, undefined the first time; `from`: the cursor that it resumed after. */
  | { readonly kind: 'live'; readonly cutMs: number | undefined; readonly from: string }
  /** Cut, for this reason; it is opened again after `waitMs` milliseconds. */
  | { readonly kind: 'waiting'; readonly error: FillstreamError; readonly waitMs: number };

export type StreamOptions = CallOptions & {
  /** Cursor of the last event that you have; default: from now on. */
  readonly from?: string | undefined;
  /** Called when the connection changes; default: nothing. */
  readonly onState?: ((state: StreamState) => void) | undefined;
};

const WATCH_MS_MAX = 5_000;

/**
 * The events of a stream, without end: iterate it with `for await`. It throws when the server refuses it
 * for good (ApiError 400, 401, 403, 404), when a signal aborts it, or with `retry: false` at the first cut. A
 * loop that is left and begun again resumes after the cursor.
 */
export class EventStream<Event extends FeedEvent | StreamEvent> implements AsyncIterable<Event> {
  readonly #http: Http;
  readonly #path: string;
  readonly #options: StreamOptions;
  #cursor: string;
  /** Whether it was open, and not ended for want of quota. */
  #wasServed = false;
  /** What follows a gap may be of another feed, whose cursors are lower. */
  #behindGap = false;
  #isRead = false;
  /** Since when the server has not been heard while it was listened to; Infinity while the program works. */
  #silentSinceMs = 0;
  /** Since when there is no connection; undefined while there is one, and before the first. */
  #lostAtMs: number | undefined;

  constructor(http: Http, path: string, options: StreamOptions) {
    this.#http = http;
    this.#path = path;
    this.#options = options;
    this.#cursor = options.from ?? '';
  }

  /** The cursor of the stream, which advances where events are filtered out, too; '' before it is known. */
  get cursor(): string {
    return this.#cursor;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void> {
    if (this.#isRead) throw new Error('this stream is being read already');
    this.#isRead = true;
    const { onState, retry = this.#http.options.retry ?? true } = this.#options;
    const { signal, release } = joined(this.#http.options.signal, this.#options.signal);
    let failures = 0;
    try {
      signal.throwIfAborted();
      onState?.({ kind: 'connecting' });
      for (;;) {
        let error: unknown = new ConnectionError('the stream broke off');
        let askedMs = 0;
        let retryMs = 0;
        try {
          for await (const block of this.#blocks(signal)) {
            failures = 0;
            askedMs = block.retryMs ?? askedMs;
            const event = this.#take(block);
            if (event?.type === 'end') {
              // A server that ends the stream also says when to come back.
              retryMs = askedMs;
              if (event.data.reason === 'quota_used_up') this.#wasServed = false;
              error = new ConnectionError(`the server ended the stream: ${event.data.reason}`);
            }
            if (event !== undefined) yield event;
          }
        } catch (thrown) {
          error = thrown;
        }
        signal.throwIfAborted();
        if (!retry || !(isTransient(error) || this.#isOwnGhost(error))) throw error;
        this.#lostAtMs ??= Date.now();
        failures += 1;
        const waitMs = Math.max(backoffMs(failures), error.retryAfterSeconds * 1_000, retryMs);
        onState?.({ kind: 'waiting', error, waitMs });
        await pause(waitMs, signal);
      }
    } finally {
      this.#isRead = false;
      release();
    }
  }

  /** For some seconds, the server counts a connection that a kill cut off as a session that is open. */
  #isOwnGhost(error: unknown): error is ApiError {
    return this.#wasServed && error instanceof ApiError && error.code === 'quota_exceeded';
  }

  /** The blocks of one connection, until it ends. Throws ApiError, ConnectionError, and the signal's reason. */
  async *#blocks(outer: AbortSignal): AsyncGenerator<Block, void> {
    const { silenceMs = 45_000 } = this.#http.options;
    const { signal, abort, release } = joined(outer);
    this.#silentSinceMs = Date.now();
    // Timers stand still while a machine sleeps, so the clock decides.
    const watch = setInterval(
      () => {
        if (Date.now() - this.#silentSinceMs <= silenceMs) return;
        // It was lost when the last bytes came.
        this.#lostAtMs ??= this.#silentSinceMs;
        abort(new ConnectionError(`the server was silent for ${silenceMs} ms`));
      },
      Math.min(WATCH_MS_MAX, silenceMs / 4),
    );
    try {
      const response = await this.#http.send('GET', this.#path, signal, {
        Accept: 'text/event-stream',
        ...(this.#cursor !== '' && { 'Last-Event-ID': this.#cursor }),
      });
      const isStream = response.headers.get('Content-Type')?.startsWith('text/event-stream');
      if (!isStream || response.body === null) throw new ConnectionError('no event stream');
      const cutMs = this.#lostAtMs === undefined ? undefined : Date.now() - this.#lostAtMs;
      this.#lostAtMs = undefined;
      this.#wasServed = true;
      this.#options.onState?.({ kind: 'live', cutMs, from: this.#cursor });
      const reader = response.body.getReader();
      const parser = new BlockParser();
      for (;;) {
        this.#silentSinceMs = Date.now();
        const { done, value } = await reader.read().catch((error: unknown) => {
          throw failure(signal, error);
        });
        if (done) return;
        this.#silentSinceMs = Number.POSITIVE_INFINITY;
        yield* parser.push(value);
      }
    } finally {
      clearInterval(watch);
      release();
      abort();
    }
  }

  /** Moves the cursor to the block, and returns the event if it is one to give. */
  #take({ id, type, data }: Block): Event | undefined {
    if (type === 'gap') this.#behindGap = true;
    else if (id !== '') {
      // Given already.
      if (!this.#behindGap && Number(id) <= Number(this.#cursor)) return undefined;
      this.#behindGap = false;
    }
    if (id !== '') this.#cursor = id;
    if (data === '' || !EVENT_TYPES.some((one) => one === type)) return undefined;
    return { type, cursor: this.#cursor, data: JSON.parse(data) } as Event;
  }
}

/** What stands between two empty lines of an event stream; '' where it says nothing. */
export type Block = {
  readonly id: string;
  readonly type: string;
  readonly data: string;
  readonly retryMs: number | undefined;
};

/** Splits an event stream into blocks, as the HTML standard says. */
export class BlockParser {
  /** Drops a byte order mark. */
  readonly #decoder = new TextDecoder();
  /** The line that is not whole yet. */
  #rest = '';
  /** The last line ended with CR, so an LF would be part of that. */
  #afterCr = false;
  #id = '';
  #type = '';
  #data: string[] = [];
  #retryMs: number | undefined;

  push(bytes: Uint8Array): Block[] {
    const text = this.#decoder.decode(bytes, { stream: true });
    if (text === '') return [];
    const lines = (this.#afterCr ? text.replace(/^\n/, '') : text).split(/\r\n?|\n/);
    this.#afterCr = text.endsWith('\r');
    lines[0] = this.#rest + (lines[0] ?? '');
    this.#rest = lines.pop() ?? '';
    return lines.flatMap((line) => this.#line(line) ?? []);
  }

  #line(line: string): Block | undefined {
    if (line === '') return this.#end();
    const [, name, value = ''] = /^([^:]*):? ?(.*)$/s.exec(line) ?? [];
    if (name === 'id' && !value.includes('\0')) this.#id = value;
    else if (name === 'event') this.#type = value;
    else if (name === 'data') this.#data.push(value);
    else if (name === 'retry' && /^\d+$/.test(value)) this.#retryMs = Number(value);
    return undefined;
  }

  #end(): Block | undefined {
    const block = {
      ...{ id: this.#id, type: this.#type, data: this.#data.join('\n'), retryMs: this.#retryMs },
    };
    this.#id = '';
    this.#type = '';
    this.#data = [];
    this.#retryMs = undefined;
    const { id, data, retryMs } = block;
    return id === '' && data === '' && retryMs === undefined ? undefined : block;
  }
}
