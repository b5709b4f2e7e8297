/**
 * Requests to the metadata API: bounded in number, time and size, with one pace for the whole process. A
 * service that is busy or down gets one request at a time, with growing pauses, until it answers again.
 * Callers decide what they repeat. An outage is logged at its beginning and at its end; every attempt is
 * counted under its class.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { boundedText, ResponseTooLongError } from '../infra/bounded-text.ts';

const CONCURRENT_MAX = 6;
const REQUEST_MS_MAX = 10_000;
const BACKOFF_MIN_MS = 250;
const BACKOFF_MAX_MS = 15_000;
/** Limit on Retry-After, so that a service with a wrong clock does not stop us for a day. */
const RETRY_AFTER_MS_MAX = 120_000;
/** 50 markets with all their fields are about 500 KB. */
const ANSWER_BYTES_MAX = 32 * 1024 * 1024;
/** Consecutive failures that count as an outage. */
const OUTAGE_FAILURES = 3;

/** Why a request failed. `refused` (a 4xx) is final; the others are transient. */
export type GammaFailure = 'timeout' | 'network' | 'busy' | 'server' | 'malformed' | 'refused';

/** The service did not answer or answered with an error; `status` is 0 without an answer. */
export class GammaError extends Error {
  override readonly name = 'GammaError';
  readonly reason: GammaFailure;
  readonly status: number;
  /** From the response's Retry-After; 0 without one. */
  readonly retryAfterMs: number;

  constructor(reason: GammaFailure, message: string, given: ErrorGiven = {}) {
    super(message, 'cause' in given ? { cause: given.cause } : {});
    this.reason = reason;
    this.status = given.status ?? 0;
    this.retryAfterMs = given.retryAfterMs ?? 0;
  }
}
type ErrorGiven = {
  readonly status?: number;
  readonly retryAfterMs?: number;
  readonly cause?: unknown;
};

export type GammaHttpOptions = {
  readonly url: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly requestMsMax?: number;
  readonly backoffMinMs?: number;
  readonly backoffMaxMs?: number;
};

export class GammaHttp {
  readonly #base: string;
  readonly #options: Required<GammaHttpOptions>;
  /** Attempts by outcome: `ok` or a GammaFailure. */
  readonly outcomes = new Map<GammaFailure | 'ok', number>();
  #running = 0;
  #entering: (() => void)[] = [];
  #failures = 0;
  #pausedUntilMs = 0;
  #downSinceMs: number | undefined;

  constructor(options: GammaHttpOptions) {
    this.#base = options.url.replace(/\/$/, '');
    this.#options = {
      requestMsMax: REQUEST_MS_MAX,
      backoffMinMs: BACKOFF_MIN_MS,
      backoffMaxMs: BACKOFF_MAX_MS,
      ...options,
    };
  }

  /** For how long (milliseconds) the service has not answered; 0 while it does. */
  get downMs(): number {
    return this.#downSinceMs === undefined ? 0 : performance.now() - this.#downSinceMs;
  }

  /** Requests a path's JSON once. Throws GammaError. */
  async get(path: string, query: URLSearchParams): Promise<unknown> {
    await this.#enter();
    try {
      const answer = await this.#attempt(path, query);
      this.#ended('ok');
      return answer;
    } catch (error) {
      if (!(error instanceof GammaError)) throw error;
      if (!this.#options.signal.aborted) this.#ended(error.reason, error);
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
    const { signal, requestMsMax } = this.#options;
    const timeout = AbortSignal.timeout(requestMsMax);
    let text: string;
    try {
      const response = await fetch(`${this.#base}${path}?${query}`, {
        signal: AbortSignal.any([signal, timeout]),
      });
      if (!response.ok) {
        await response.body?.cancel();
        throw refusal(path, response);
      }
      text = await boundedText(response, ANSWER_BYTES_MAX);
    } catch (cause) {
      if (cause instanceof GammaError) throw cause;
      if (cause instanceof ResponseTooLongError) {
        throw new GammaError('malformed', `${path} answered ${cause.message}`);
      }
      throw new GammaError(timeout.aborted ? 'timeout' : 'network', `${path} not answered`, {
        cause,
      });
    }
    try {
      return JSON.parse(text);
    } catch (cause) {
      throw new GammaError('malformed', `${path} did not return JSON`, { cause });
    }
  }

  #ended(outcome: GammaFailure | 'ok', error?: GammaError): void {
    this.outcomes.set(outcome, (this.outcomes.get(outcome) ?? 0) + 1);
    const { logger, backoffMinMs, backoffMaxMs } = this.#options;
    if (error === undefined || outcome === 'refused') {
      if (this.#failures >= OUTAGE_FAILURES) {
        logger.info({ downMs: Math.round(this.downMs) }, 'metadata API answers again');
      }
      this.#failures = 0;
      this.#pausedUntilMs = 0;
      this.#downSinceMs = undefined;
      return;
    }
    this.#failures += 1;
    const backoffMs = Math.min(backoffMinMs * 2 ** (this.#failures - 1), backoffMaxMs);
    const pauseMs = Math.max(error.retryAfterMs, backoffMs);
    this.#pausedUntilMs = Math.max(this.#pausedUntilMs, performance.now() + pauseMs);
    if (this.#failures < OUTAGE_FAILURES) return;
    if (this.#downSinceMs === undefined) {
      this.#downSinceMs = performance.now();
      logger.warn({ err: error }, 'metadata API does not answer; fills continue without it');
    }
  }
}

function refusal(path: string, response: Response): GammaError {
  const { status } = response;
  const reason =
    status === 429 || status === 408 || status === 425
      ? 'busy'
      : status >= 500
        ? 'server'
        : 'refused';
  const retryAfterMs = retryAfter(response.headers.get('retry-after'));
  return new GammaError(reason, `${path} answered ${status}`, { status, retryAfterMs });
}

/** Milliseconds from a header in seconds or as a date; 0 if it is neither. */
function retryAfter(value: string | null): number {
  if (value === null) return 0;
  const seconds = /^\d{1,9}$/.test(value)
    ? Number(value)
    : (Date.parse(value) - Date.now()) / 1_000;
  return Number.isNaN(seconds) ? 0 : Math.min(Math.max(seconds * 1_000, 0), RETRY_AFTER_MS_MAX);
}
