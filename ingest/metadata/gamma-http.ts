/**
 * Requests to the metadata API (Gamma), limited in number, time and size, and what happens while it is down.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { beginningOf, type HttpAnswer, NoAnswerError, request } from '../../infra/http-request.ts';

/** A parameter of the query. */
export type Pair = [name: string, value: string];

const CONCURRENT_MAX = 6;
const REQUEST_MS_MAX = 10_000;
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 15_000;
/** 50 markets with all their fields are about 500 KB. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** An id that the service does not know. */
const NOT_FOUND = 404;
/** This many consecutive failures count as an outage. */
const OUTAGE_FAILURES = 3;

/** Why a request failed. `refused` (a 4xx) is final; the others are transient. */
export type GammaFailure = 'timeout' | 'network' | 'busy' | 'server' | 'malformed' | 'refused';

/** The service did not respond or responded with an error; `status` is 0 without a response. */
export class GammaError extends Error {
  override readonly name = 'GammaError';
  readonly reason: GammaFailure;
  readonly status: number;
  /** From the Retry-After header; 0 if there was none. */
  readonly retryAfterMs: number;

  constructor(
    reason: GammaFailure,
    message: string,
    given: {
      readonly status?: number;
      readonly retryAfterMs?: number;
      readonly cause?: unknown;
    } = {},
  ) {
    super(message, { cause: given.cause });
    this.reason = reason;
    this.status = given.status ?? 0;
    this.retryAfterMs = given.retryAfterMs ?? 0;
  }
}

export type GammaOptions = {
  readonly url: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly requestMsMax?: number;
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
};

/**
 * Sends requests to the metadata API, limited in number, time and size. While the service is busy or down, the whole
 * process sends one request at a time, with growing pauses. Retries are up to the caller. The beginning and the end of
 * an outage are logged.
 */
export class GammaHttp {
  readonly #base: string;
  readonly #options: Required<GammaOptions>;
  #running = 0;
  readonly #entering: (() => void)[] = [];
  #failures = 0;
  #failingSinceMs = 0;
  #pausedUntilMs = 0;
  /** Paths with their status, each logged once. */
  readonly #loggedRefusals = new Set<string>();

  constructor(options: GammaOptions) {
    this.#base = options.url.replace(/\/$/, '');
    this.#options = {
      requestMsMax: REQUEST_MS_MAX,
      backoffMinMs: BACKOFF_MIN_MS,
      backoffMaxMs: BACKOFF_MAX_MS,
      ...options,
    };
  }

  get failingMs(): number {
    return this.#failures === 0 ? 0 : performance.now() - this.#failingSinceMs;
  }

  get downMs(): number {
    return this.#failures < OUTAGE_FAILURES ? 0 : this.failingMs;
  }

  /** Requests the JSON of a path once. Throws GammaError. */
  async get(path: string, query: readonly Pair[]): Promise<unknown> {
    await this.#enter();
    const startedAtMs = performance.now();
    try {
      const answer = await this.#attempt(path, new URLSearchParams([...query]));
      this.#succeeded();
      return answer;
    } catch (error) {
      if (!(error instanceof GammaError)) throw error;
      if (error.reason === 'refused') this.#refused(path, error);
      else if (!this.#options.signal.aborted) this.#failed(error, startedAtMs);
      throw error;
    } finally {
      this.#running -= 1;
      for (const wake of this.#entering.splice(0)) wake();
    }
  }

  async #enter(): Promise<void> {
    const { signal } = this.#options;
    for (;;) {
      signal.throwIfAborted();
      const waitMs = this.#pausedUntilMs - performance.now();
      if (waitMs > 0) {
        await delay(waitMs, undefined, { signal });
      } else if (this.#running < (this.#failures > 0 ? 1 : CONCURRENT_MAX)) {
        this.#running += 1;
        return;
      } else {
        await new Promise<void>((resolve) => this.#entering.push(resolve));
      }
    }
  }

  async #attempt(path: string, query: URLSearchParams): Promise<unknown> {
    const { signal, requestMsMax: msMax } = this.#options;
    const limits = { msMax, bytesMax: ANSWER_BYTES_MAX };
    const url = `${this.#base}${path}?${query}`;
    const answer = await request(url, limits, { signal }).catch((error) => {
      if (!(error instanceof NoAnswerError)) throw error;
      const reason = error.reason === 'too_long' ? 'malformed' : error.reason;
      throw new GammaError(reason, `${path}: ${error.message}`, { cause: error.cause });
    });
    if (answer.status < 200 || answer.status > 299) throw refusal(path, answer);
    try {
      return JSON.parse(answer.text);
    } catch (cause) {
      throw new GammaError('malformed', `${path} did not return JSON`, { cause });
    }
  }

  #succeeded(): void {
    const { downMs } = this;
    if (downMs > 0) {
      this.#options.logger.info({ downMs: Math.round(downMs) }, 'metadata API is available again');
    }
    this.#failures = 0;
    this.#pausedUntilMs = 0;
  }

  /** The service responds, so this is no outage. */
  #refused(path: string, error: GammaError): void {
    this.#succeeded();
    const key = `${path} ${error.status}`;
    if (error.status === NOT_FOUND || this.#loggedRefusals.has(key)) return;
    this.#loggedRefusals.add(key);
    this.#options.logger.error({ err: error }, 'metadata API refuses requests');
  }

  #failed(error: GammaError, startedAtMs: number): void {
    const { logger, backoffMinMs, backoffMaxMs } = this.#options;
    if (this.#failures === 0) this.#failingSinceMs = startedAtMs;
    const backoffMs = Math.min(backoffMinMs * 2 ** this.#failures, backoffMaxMs);
    this.#failures += 1;
    const pauseMs = Math.max(error.retryAfterMs, backoffMs);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, performance.now() + pauseMs);
    if (this.#failures !== OUTAGE_FAILURES) return;
    logger.warn({ err: error }, 'metadata API is unavailable; fills are published without it');
  }
}

function refusal(path: string, { status, text, retryAfterMs }: HttpAnswer): GammaError {
  const reason =
    status === 429 || status === 408 || status === 425
      ? 'busy'
      : status >= 500
        ? 'server'
        : 'refused';
  const message = `${path} returned status ${status}: ${beginningOf(text)}`;
  return new GammaError(reason, message, { status, ...(retryAfterMs && { retryAfterMs }) });
}
