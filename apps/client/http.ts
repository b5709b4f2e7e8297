/**
 * Requests to the API. Transient failures are retried, each attempt has a time limit, and lists are read page by page.
 * Rejects with a FillstreamError, or with the reason of the caller's signal.
 */
import type { Problem } from './types.ts';

export type Options = {
  /** URL of the API, such as `https://api.example.com`. */
  readonly url: string;
  /** API key, sent in the header `X-Service-Key`; default: none, to read what the server shows everyone. */
  readonly key?: string | undefined;
  /** Sends every request; default: the global `fetch`. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Aborts every request and stream of this client; default: none. */
  readonly signal?: AbortSignal | undefined;
  /** false: the first failure is final; default: true. */
  readonly retry?: boolean | undefined;
  /** Time limit of one attempt, including the response body, milliseconds; default: 30,000. */
  readonly timeoutMs?: number | undefined;
  /** A stream that is silent for this long is reopened, milliseconds; default: 45,000 (heartbeats come every 30,000). */
  readonly silenceMs?: number | undefined;
};

export type CallOptions = {
  /** Aborts this call; default: none. */
  readonly signal?: AbortSignal | undefined;
  /** false: the first failure is final; default: the client's setting. */
  readonly retry?: boolean | undefined;
};

/** Base class of all errors of this package; `status` is 0 if the server did not respond. */
export abstract class FillstreamError extends Error {
  /** HTTP status. */
  abstract readonly status: number;
  /** Stable code, such as `not_found` or `rate_limited`. */
  abstract readonly code: string;
  /** Id of the request in the server's log; '' if unknown. */
  abstract readonly requestId: string;
  /** Seconds to wait before a retry, as requested by the server; 0 if it requested none. */
  abstract readonly retryAfterSeconds: number;
}

/** The server responded with an error. */
export class ApiError extends FillstreamError {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly retryAfterSeconds: number;
  /** One issue per bad parameter or body member. */
  readonly issues: NonNullable<Problem['issues']>;
  /** The quota that is used up. */
  readonly quota: Problem['quota'];

  constructor({ status, headers }: Response, body: Partial<Problem>) {
    super(body.detail ?? `the server responded with ${status}`);
    this.status = status;
    this.code = body.error ?? 'unknown';
    this.requestId = body.request_id ?? headers.get('X-Request-Id') ?? '';
    this.retryAfterSeconds = secondsIn(headers.get('Retry-After') ?? '');
    this.issues = body.issues ?? [];
    this.quota = body.quota;
  }
}

/** The server was unreachable, took too long, or closed the connection. */
export class ConnectionError extends FillstreamError {
  override readonly name = 'ConnectionError';
  readonly status = 0;
  readonly code = 'unreachable';
  readonly requestId = '';
  readonly retryAfterSeconds = 0;
}

/** A promise of the first page. `for await` yields the entries of all pages, `pages()` the pages. */
export type List<Answer, Entry> = Promise<Answer> &
  AsyncIterable<Entry> & { pages(): AsyncGenerator<Answer, void> };

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export type Query = Readonly<Record<string, unknown>>;

/** The seconds of a `Retry-After`, which are a number or a date; 0 for other text. */
function secondsIn(text: string): number {
  const seconds = Number.isNaN(Number(text)) ? (Date.parse(text) - Date.now()) / 1_000 : +text;
  return Math.max(0, Math.ceil(seconds) || 0);
}

const TRIES_MAX = 5;
const TOO_MANY_REQUESTS = 429;
/** If the server requests a longer wait than this, the request fails. */
const RETRY_AFTER_SECONDS_MAX = 60;
const BACKOFF_MS = { least: 500, most: 15_000 };
/** A timer with a longer time ends at once. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** The wait after this many failures in a row: a random time between half and all of 500 ms, 1 s, 2 s … 15 s. */
export function backoffMs(failures: number): number {
  const { least, most } = BACKOFF_MS;
  return Math.min(most, least * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}

/** Whether the same request may succeed later. */
export function isTransient(error: unknown): error is FillstreamError {
  if (!(error instanceof FillstreamError)) return false;
  return (
    error.status === 0 || [408, TOO_MANY_REQUESTS].includes(error.status) || error.status >= 500
  );
}

export class Http {
  readonly options: Options;
  readonly #base: string;

  /** Throws TypeError for an invalid URL, or a key with characters that a header cannot contain. */
  constructor(options: Options) {
    this.options = options;
    this.#base = new URL(options.url).href.replace(/\/+$/, '');
    new Headers({ 'X-Service-Key': options.key ?? '' });
  }

  /** Returns the JSON body. */
  async call<Answer>(
    method: Method,
    path: string,
    given: { readonly query?: Query; readonly body?: unknown } = {},
    options: CallOptions = {},
  ): Promise<Answer> {
    return (await this.#page<Answer>(method, path, given, options)).answer;
  }

  /** Requests the first page at once and the others on demand; `list` is the member with the entries. */
  list<Answer, Entry>(
    path: string,
    list: keyof Answer,
    query: Query,
    options: CallOptions = {},
  ): List<Answer, Entry> {
    const page = (cursor: Query) =>
      this.#page<Answer>('GET', path, { query: { ...query, ...cursor } }, options);
    const first = page({});
    const answer = first.then((one) => one.answer);
    // Awaiting or iterating throws the error. Until then, it is no unhandled rejection.
    answer.catch(() => undefined);
    async function* pages() {
      for (let next = first; ; ) {
        const { answer: one, cursor } = await next;
        yield one;
        if (cursor === '') return;
        // A list continues from a cursor or from an offset.
        next = page({ cursor, offset: undefined });
      }
    }
    async function* entries() {
      for await (const one of pages()) yield* one[list] as readonly Entry[];
    }
    return Object.assign(answer, { pages, [Symbol.asyncIterator]: entries });
  }

  /** Sends a request once. Rejects with ApiError for an error status, and with ConnectionError. */
  async send(
    method: Method,
    path: string,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>>,
    body?: string,
  ): Promise<Response> {
    const { key = '', fetch: send = globalThis.fetch } = this.options;
    const response = await send(this.#base + path, {
      method,
      signal,
      headers: key === '' ? headers : { ...headers, 'X-Service-Key': key },
      body: body ?? null,
      // Following a redirect would send the key to wherever it points.
      redirect: 'manual',
    }).catch((error: unknown) => {
      throw failure(signal, error, 'the server cannot be reached');
    });
    if (response.ok) return response;
    // A proxy's error page is not a problem document.
    const problem: unknown = await response.json().catch(() => null);
    throw new ApiError(response, problem instanceof Object ? problem : {});
  }

  async #page<Answer>(
    method: Method,
    path: string,
    { query = {}, body }: { readonly query?: Query; readonly body?: unknown },
    options: CallOptions,
  ): Promise<{ answer: Answer; cursor: string }> {
    const abort = joined(this.options.signal, options.signal);
    const text = body === undefined ? undefined : JSON.stringify(body);
    const headers = {
      Accept: 'application/json',
      ...(text !== undefined && { 'Content-Type': 'application/json' }),
      // Keeps a retried POST from creating anything twice.
      ...(method === 'POST' && { 'Idempotency-Key': randomText() }),
    };
    try {
      for (let failures = 1; ; failures += 1) {
        try {
          return await this.#try(method, path + search(query), abort.signal, headers, text);
        } catch (error) {
          abort.signal.throwIfAborted();
          const { retry = this.options.retry ?? true } = options;
          if (!retry || failures === TRIES_MAX || !isTransient(error)) throw error;
          // A DELETE may have taken effect before the response was lost, which only the caller can find out.
          if (method === 'DELETE' && error.status !== TOO_MANY_REQUESTS) throw error;
          if (error.retryAfterSeconds > RETRY_AFTER_SECONDS_MAX) throw error;
          const waitMs = Math.max(error.retryAfterSeconds * 1_000, backoffMs(failures));
          await pause(waitMs, abort.signal);
        }
      }
    } finally {
      abort.release();
    }
  }

  async #try<Answer>(
    method: Method,
    path: string,
    outer: AbortSignal,
    headers: Readonly<Record<string, string>>,
    body: string | undefined,
  ): Promise<{ answer: Answer; cursor: string }> {
    const { timeoutMs = 30_000 } = this.options;
    const { signal, abort, release } = joined(outer);
    const late = new ConnectionError(`no response within ${timeoutMs} ms`);
    const timer = setTimeout(() => abort(late), timeoutMs);
    try {
      const response = await this.send(method, path, signal, headers, body);
      const answer = (await response.json()) as Answer;
      return { answer, cursor: cursorIn(response.headers.get('Link') ?? '') };
    } catch (error) {
      throw failure(signal, error);
    } finally {
      clearTimeout(timer);
      release();
    }
  }
}

/** The error of a failed request: the reason of its signal, or a FillstreamError. */
export function failure(
  signal: AbortSignal,
  error: unknown,
  message = 'the connection was lost',
): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof FillstreamError) return error;
  return new ConnectionError(message, { cause: error });
}

/** A signal that any of these signals aborts, until it is released. AbortSignal.any could not be detached from a long-lived one. */
export function joined(...signals: readonly (AbortSignal | undefined)[]) {
  const controller = new AbortController();
  const leave: (() => void)[] = [];
  for (const signal of signals) {
    if (signal === undefined) continue;
    const follow = () => controller.abort(signal.reason);
    if (signal.aborted) follow();
    signal.addEventListener('abort', follow);
    leave.push(() => signal.removeEventListener('abort', follow));
  }
  return {
    signal: controller.signal,
    abort: (reason?: unknown) => controller.abort(reason),
    release: () => {
      for (const detach of leave) detach();
    },
  };
}

/** Resolves after the given time, or as soon as a browser is online again. Rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // Outside of browsers there is no `online` event.
  const host = globalThis as Partial<EventTarget>;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, Math.min(ms, TIMER_MS_MAX));
    function done(): void {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      host.removeEventListener?.('online', done);
      resolve();
    }
    signal.addEventListener('abort', done);
    host.addEventListener?.('online', done);
    if (signal.aborted) done();
  });
  signal.throwIfAborted();
}

/** The query string with its question mark; '' if it is empty. Lists are comma-separated. */
export function search(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined) parameters.set(name, String(value));
  }
  const text = parameters.toString();
  return text === '' ? '' : `?${text}`;
}

/** The cursor of the next page in a `Link` header; '' on the last page. */
function cursorIn(link: string): string {
  const [, next = ''] = /<[^>?]*\?([^>]*)>;\s*rel="?next/.exec(link) ?? [];
  return new URLSearchParams(next).get('cursor') ?? '';
}

function randomText(): string {
  return crypto.getRandomValues(new Uint32Array(4)).join('-');
}
