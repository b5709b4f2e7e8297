/**
 * The one retry helper: exponential backoff with jitter until the operation succeeds, a non-retryable error occurs or
 * the signal aborts. Loops whose next step depends on the error (RPC failover, fork checks, the stream writer) do not
 * use it.
 */
import { setTimeout as delay } from 'node:timers/promises';
import pRetry from 'p-retry';

const PAUSE_MIN_MS = 200;
const PAUSE_MAX_MS = 5_000;

export type RetryOptions = {
  /** Aborting rejects with the signal's reason, even during a pause, unless a running attempt succeeds. */
  readonly signal?: AbortSignal;
  /** True for errors that are worth another attempt. All others are thrown at once. */
  readonly isRetryable: (error: unknown) => boolean;
  /** Called before each pause, for example to log. */
  readonly onRetry?: (error: unknown) => void;
  /** Extra milliseconds to wait before the next attempt, for example from Retry-After. */
  readonly retryAfterMs?: (error: unknown) => number;
  /** Gives up with the last error after this time; retries forever by default. */
  readonly giveUpAfterMs?: number;
  /** Pause after the first failure, 200 by default; doubles up to 5,000. */
  readonly pauseMs?: number;
};

/** Resolves with the result of the first attempt that succeeds. Rejects with the attempt's own error. */
export async function retry<T>(attempt: () => Promise<T>, options: RetryOptions): Promise<T> {
  const { signal, isRetryable, onRetry, retryAfterMs, giveUpAfterMs, pauseMs } = options;
  let success: { readonly result: T } | undefined;
  const recorded = async () => {
    success = { result: await attempt() };
    return success.result;
  };
  const repeated = pRetry(recorded, {
    retries: Number.POSITIVE_INFINITY,
    minTimeout: pauseMs ?? PAUSE_MIN_MS,
    maxTimeout: PAUSE_MAX_MS,
    randomize: true,
    ...(signal === undefined ? {} : { signal }),
    ...(giveUpAfterMs === undefined ? {} : { maxRetryTime: giveUpAfterMs }),
    shouldRetry: ({ error }) => isRetryable(error),
    async onFailedAttempt({ error }) {
      if (!isRetryable(error) || signal?.aborted === true) return;
      onRetry?.(error);
      const extraMs = retryAfterMs?.(error) ?? 0;
      if (extraMs > 0) await delay(extraMs, undefined, signal === undefined ? {} : { signal });
    },
  });
  try {
    return await repeated;
  } catch (error) {
    // p-retry discards a result that arrives after the abort, but the attempt had its effect.
    if (success !== undefined) return success.result;
    throw error;
  }
}
