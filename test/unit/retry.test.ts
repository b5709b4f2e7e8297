import { describe, expect, test } from 'vitest';
import { retry } from '../../infra/retry.ts';

class BusyError extends Error {}

describe('retry', () => {
  test('retries after retryable errors until the operation succeeds', async () => {
    const seen: unknown[] = [];
    let attempts = 0;
    const result = await retry(
      async () => {
        attempts += 1;
        if (attempts < 3) throw new BusyError(`attempt ${attempts}`);
        return 'done';
      },
      {
        isRetryable: (error) => error instanceof BusyError,
        onRetry: (e) => seen.push(e),
        pauseMs: 1,
      },
    );
    expect(result).toBe('done');
    expect(seen.map(String)).toEqual(['Error: attempt 1', 'Error: attempt 2']);
  });

  test('throws any other error at once, unchanged', async () => {
    const wrong = new RangeError('wrong');
    const attempt = () => Promise.reject(wrong);
    await expect(retry(attempt, { isRetryable: (e) => e instanceof BusyError })).rejects.toBe(
      wrong,
    );
  });

  test("rejects with the signal's reason if it aborts during a pause", async () => {
    const stop = new AbortController();
    const attempt = () => Promise.reject(new BusyError('busy'));
    const result = retry(attempt, {
      signal: stop.signal,
      isRetryable: () => true,
      onRetry: () => stop.abort('stopped'),
      pauseMs: 60_000,
    });
    await expect(result).rejects.toBe('stopped');
  });

  test('resolves if the running attempt succeeds after the signal aborted', async () => {
    const stop = new AbortController();
    const attempt = async () => {
      stop.abort();
      return 'written';
    };
    const result = await retry(attempt, { signal: stop.signal, isRetryable: () => true });
    expect(result).toBe('written');
  });
});
