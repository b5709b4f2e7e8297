/**
 * Event streams over fetch, because EventSource cannot send headers. After any disconnect, end or silence, a stream is
 * reopened and resumes after its cursor. Invariant: the program gets each event once and in order, or a `gap`; only a `position`,
 * which has no cursor of its own, can come again with its match. The cursor
 * advances with the events that the program gets, so a program that stores it loses nothing.
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
import type {
  End,
  Final,
  Gap,
  LabelledMatch,
  LiveTransaction,
  Restored,
  StreamPosition,
  Void,
} from './types.ts';

/** An event of either kind of stream. */
type EventOf<Type extends string, Data> = {
  readonly type: Type;
  /** A stream resumes after this event with this cursor. Store it once the event is handled. */
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
export type StreamEvent =
  | EventOf<'tx', LiveTransaction>
  | EventOf<'position', StreamPosition>
  | Sequel;

/** Known event types. Others are ignored, because they are meant for later versions of this client. */
export const EVENT_TYPES: readonly (FeedEvent | StreamEvent)['type'][] = [
  ...(['order', 'tx', 'position', 'void', 'restored', 'final', 'gap', 'end'] as const),
];

export type StreamState =
  | { readonly kind: 'connecting' }
  /** Open. `cutMs` is the length of the outage, undefined the first time; `from` is the cursor that it resumed after. */
  | { readonly kind: 'live'; readonly cutMs: number | undefined; readonly from: string }
  /** Disconnected for this reason. The stream is reopened after `waitMs` milliseconds. */
  | { readonly kind: 'waiting'; readonly error: FillstreamError; readonly waitMs: number };

export type StreamOptions = CallOptions & {
  /** Cursor of the last event that you have; default: from now on. */
  readonly from?: string | undefined;
  /** Called when the state of the connection changes. */
  readonly onState?: ((state: StreamState) => void) | undefined;
};

const WATCH_MS_MAX = 5_000;
/**
 * How long the server may count a connection that was lost as an open session. If the network has vanished, the server's
 * operating system notices only after a quarter of an hour.
 */
const GHOST_MS_MAX = 1_000_000;

/**
 * The endless events of a stream, for `for await`. It throws when the server rejects it permanently (ApiError 400, 401,
 * 403, 404), when a signal aborts it, or, with `retry: false`, at the first disconnect. A loop that is left and started
 * again resumes after the cursor.
 */
export class EventStream<Event extends FeedEvent | StreamEvent> implements AsyncIterable<Event> {
  readonly #http: Http;
  readonly #path: string;
  readonly #options: StreamOptions;
  #cursor: string;
  /** Whether the stream was open and not ended because of a quota. */
  #wasServed = false;
  /** Set after a gap: the next event may belong to another feed with lower cursors. */
  #behindGap = false;
  #isRead = false;
  /** Start of the current wait for bytes from the server; Infinity while the program handles events. */
  #silentSinceMs = 0;
  /** When the quota first refused this outage's reconnection; undefined if it did not. */
  #refusedAtMs: number | undefined;
  /** When the connection was lost; undefined while there is one, and before the first. */
  #lostAtMs: number | undefined;

  constructor(http: Http, path: string, options: StreamOptions) {
    this.#http = http;
    this.#path = path;
    this.#options = options;
    this.#cursor = options.from ?? '';
  }

  /** The cursor of the stream, which also advances when events are filtered out; '' while it is unknown. */
  get cursor(): string {
    return this.#cursor;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void> {
    if (this.#isRead) throw new Error('this stream is already being read');
    this.#isRead = true;
    const { onState, retry = this.#http.options.retry ?? true } = this.#options;
    const { signal, release } = joined(this.#http.options.signal, this.#options.signal);
    let failures = 0;
    try {
      signal.throwIfAborted();
      onState?.({ kind: 'connecting' });
      for (;;) {
        let error: unknown = new ConnectionError('the stream was disconnected');
        let askedMs = 0;
        let retryMs = 0;
        try {
          for await (const block of this.#blocks(signal)) {
            failures = 0;
            askedMs = block.retryMs ?? askedMs;
            const event = this.#take(block);
            if (event?.type === 'end') {
              // A server that ends the stream also sends a delay before reconnecting. The delay sent when a stream
              // opens is for EventSource: after a lost connection, this client resumes sooner.
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

  /** Until the server notices, it counts our lost connection as an open session. */
  #isOwnGhost(error: unknown): error is ApiError {
    if (!this.#wasServed || !(error instanceof ApiError)) return false;
    if (error.code !== 'quota_exceeded') return false;
    if (error.quota?.name === 'stream_seconds_per_day') return false;
    this.#refusedAtMs ??= Date.now();
    return Date.now() - this.#refusedAtMs < GHOST_MS_MAX;
  }

  /** The blocks of one connection, until it ends. Throws ApiError, ConnectionError or the signal's reason. */
  async *#blocks(outer: AbortSignal): AsyncGenerator<Block, void> {
    const { silenceMs = 45_000 } = this.#http.options;
    const { signal, abort, release } = joined(outer);
    this.#silentSinceMs = Date.now();
    // Timers stop while a machine sleeps, so compare with the clock.
    const watch = setInterval(
      () => {
        if (Date.now() - this.#silentSinceMs <= silenceMs) return;
        // Count the outage from the last bytes.
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
      this.#refusedAtMs = undefined;
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

  /** Moves the cursor to the block, and returns its event unless the program already has it. */
  #take({ id, type, data }: Block): Event | undefined {
    if (type === 'gap') this.#behindGap = true;
    else if (id !== '') {
      // The program already has this event.
      if (!this.#behindGap && Number(id) <= Number(this.#cursor)) return undefined;
      this.#behindGap = false;
    }
    if (id !== '') this.#cursor = id;
    if (data === '' || !EVENT_TYPES.some((one) => one === type)) return undefined;
    return { type, cursor: this.#cursor, data: JSON.parse(data) } as Event;
  }
}

/** The fields between two empty lines of an event stream; '' for absent ones. */
export type Block = {
  readonly id: string;
  readonly type: string;
  readonly data: string;
  readonly retryMs: number | undefined;
};

/** Splits an event stream into blocks according to the HTML standard. */
export class BlockParser {
  /** Drops a byte order mark. */
  readonly #decoder = new TextDecoder();
  /** The incomplete last line. */
  #rest = '';
  /** The last line ended with CR, so a following LF belongs to it. */
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
