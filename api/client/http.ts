/**
 * Requests to the API: each is retried while that can help, within a time limit, and lists are read page by page.
 * What fails is a FillstreamError, or the reason of the caller's own signal.
 */
import type { Problem } from './types.ts';

export type Options = {
  /** Where the API is, such as `https://api.example.com`. */
  readonly url: string;
  /** API key, sent in the header `X-Service-Key`. */
  readonly key: string;
  /** Sends every request; default: the global `fetch`. */
  readonly fetch?: ((url: string, init: RequestInit) => Promise<Response>) | undefined;
  /** Aborts every request and stream of this client; default: none. */
  readonly signal?: AbortSignal | undefined;
  /** false: what fails once has failed; default: true. */
  readonly retry?: boolean | undefined;
  /** How long one try of a request may take, with its body, milliseconds; default: 30,000. */
  readonly timeoutMs?: number | undefined;
  /** Silence after which a stream is reopened, milliseconds; default: 45,000, as a heartbeat comes every 30,000. */
  readonly silenceMs?: number | undefined;
};

export type CallOptions = {
  /** Aborts this call; default: none. */
  readonly signal?: AbortSignal | undefined;
  /** false: the first failure is final; default: that of the client. */
  readonly retry?: boolean | undefined;
};

/** What every error of this package is; `status` is 0 if the server did not answer. */
export abstract class FillstreamError extends Error {
  /** HTTP status. */
  abstract readonly status: number;
  /** Stable code, such as `not_found` or `rate_limited`. */
  abstract readonly code: string;
  /** Id of the request, by which the server's log names it; '' if unknown. */
  abstract readonly requestId: string;
  /** What the server asked to wait, seconds; 0 if it did not. */
  abstract readonly retryAfterSeconds: number;
}

/** The server answered with an error. */
export class ApiError extends FillstreamError {
  override readonly name = 'ApiError';
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly retryAfterSeconds: number;
  /** What is wrong with each parameter or member of the body. */
  readonly issues: NonNullable<Problem['issues']>;
  /** The quota that is used up. */
  readonly quota: Problem['quota'];

  constructor({ status, headers }: Response, body: Partial<Problem>) {
    super(body.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.error ?? 'unknown';
    this.requestId = body.request_id ?? headers.get('X-Request-Id') ?? '';
    this.retryAfterSeconds = Number(headers.get('Retry-After')) || 0;
    this.issues = body.issues ?? [];
    this.quota = body.quota;
  }
}

/** The server could not be reached, took too long, or broke off. */
export class ConnectionError extends FillstreamError {
  override readonly name = 'ConnectionError';
  readonly status = 0;
  readonly code = 'unreachable';
  readonly requestId = '';
  readonly retryAfterSeconds = 0;
}

/** The first page as a promise; `for await` gives the entries of all pages, `pages()` the pages. */
export type List<Answer, Entry> = Promise<Answer> &
  AsyncIterable<Entry> & { pages(): AsyncGenerator<Answer, void> };

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export type Query = Readonly<Record<string, unknown>>;

const TRIES_MAX = 5;
/** A request does not wait longer than this for the server to recover. */
const RETRY_AFTER_SECONDS_MAX = 60;
const BACKOFF_MS = { least: 500, most: 15_000 };

/** How long to wait after so many failures in a row: from half to all of 500 ms, 1 s, 2 s … 15 s. */
export function backoffMs(failures: number): number {
  const { least, most } = BACKOFF_MS;
  return Math.min(most, least * 2 ** (failures - 1)) * (0.5 + Math.random() / 2);
}

/** Whether the same request may succeed later. */
export function isTransient(error: unknown): error is FillstreamError {
  if (!(error instanceof FillstreamError)) return false;
  return error.status === 0 || [408, 429].includes(error.status) || error.status >= 500;
}

export class Http {
  readonly options: Options;
  readonly #base: string;

  /** Throws TypeError for what is no URL, and for a key that no header can hold. */
  constructor(options: Options) {
    this.options = options;
    this.#base = new URL(options.url).href.replace(/\/+$/, '');
    new Headers({ 'X-Service-Key': options.key });
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

  /** Requests the first page at once, the others when they are asked for; `list` is the member with the entries. */
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
    async function* pages() {
      // The iteration throws what it rejects with.
      answer.catch(() => undefined);
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

  /** Sends a request once. Rejects with ApiError unless the status is a success, and with ConnectionError. */
  async send(
    method: Method,
    path: string,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>>,
    body?: string,
  ): Promise<Response> {
    const { key, fetch: send = globalThis.fetch } = this.options;
    const response = await send(this.#base + path, {
      method,
      signal,
      headers: { ...headers, 'X-Service-Key': key },
      body: body ?? null,
    }).catch((error: unknown) => {
      throw failure(signal, error, 'the server cannot be reached');
    });
    if (response.ok) return response;
    // The error page of a proxy is no problem document.
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
      // The repetition of a POST creates nothing more.
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
          // Whether a DELETE that was cut off took effect is for the caller to find out.
          if (method === 'DELETE' && error.status === 0) throw error;
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
    const late = new ConnectionError(`no answer within ${timeoutMs} ms`);
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

/** What a request failed with: the reason of its signal, or a ConnectionError about what broke. */
export function failure(
  signal: AbortSignal,
  error: unknown,
  message = 'the connection was cut',
): unknown {
  if (signal.aborted) return signal.reason;
  if (error instanceof FillstreamError) return error;
  return new ConnectionError(message, { cause: error });
}

/** A signal that these signals abort, until it is released; AbortSignal.any would stay with a long-lived one. */
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
      for (const one of leave) one();
    },
  };
}

/** Resolves after the time, or as soon as a browser is online again. Rejects with the signal's reason. */
export async function pause(ms: number, signal: AbortSignal): Promise<void> {
  // Programs outside of browsers get no `online` event.
  const host = globalThis as Partial<EventTarget>;
  await new Promise<void>((resolve) => {
    const timer = setTimeout(done, ms);
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

/** The query with its question mark; '' if nothing is given. Lists are joined by commas. */
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
