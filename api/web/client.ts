/**
 * Requests to the API on the page's own host. Sends the key as a header and returns JSON; every failure is a
 * ProblemError with the server's message. Retries only 429 responses, after `Retry-After`, a few times.
 */
import { forgetKey, key } from './key.ts';

const RATE_LIMITED_TRIES_MAX = 4;

/** The server returned an error, or cannot be reached (status 0). */
export class ProblemError extends Error {
  override readonly name = 'ProblemError';
  readonly status: number;
  readonly code: string;
  readonly requestId: string;
  readonly issues: readonly { readonly path: string; readonly message: string }[];

  constructor(status: number, body: Partial<ProblemBody>) {
    super(body.detail ?? `the server answered ${status}`);
    this.status = status;
    this.code = body.error ?? 'unknown';
    this.requestId = body.request_id ?? '';
    this.issues = body.issues ?? [];
  }
}

type ProblemBody = {
  readonly detail: string;
  readonly error: string;
  readonly request_id: string;
  readonly issues: readonly { readonly path: string; readonly message: string }[];
};

type Options = {
  readonly method?: string;
  readonly body?: object;
  readonly signal?: AbortSignal;
  /** Used instead of this tab's key. */
  readonly key?: string;
};

/** Returns the JSON body. Rejects with ProblemError, or AbortError when the signal aborts. */
export async function ask<Answer>(path: string, options: Options = {}): Promise<Answer> {
  for (let tries = 1; ; tries += 1) {
    const response = await request(path, options);
    if (response.ok) return (await response.json()) as Answer;
    if (response.status !== 429 || tries === RATE_LIMITED_TRIES_MAX)
      throw await problemOf(response);
    const seconds = Number(response.headers.get('Retry-After') ?? 1);
    await new Promise((resolve) => setTimeout(resolve, seconds * 1_000));
    options.signal?.throwIfAborted();
  }
}

/** Sends one request with the key. Rejects with ProblemError only if the server cannot be reached. */
export async function request(
  path: string,
  { method = 'GET', body, signal, key: used = key.value }: Options,
  headers: Readonly<Record<string, string>> = {},
): Promise<Response> {
  try {
    const response = await fetch(path, {
      method,
      signal: signal ?? null,
      headers: {
        ...headers,
        'X-Service-Key': used,
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
      },
      body: body === undefined ? null : JSON.stringify(body),
    });
    if (response.status === 401 && used === key.value) {
      const { message } = await problemOf(response.clone());
      // Another request may have failed first, and the user may already have entered a new key.
      if (used === key.value) forgetKey(message);
    }
    return response;
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new ProblemError(0, { detail: 'the service cannot be reached', error: 'unreachable' });
  }
}

export async function problemOf(response: Response): Promise<ProblemError> {
  try {
    return new ProblemError(response.status, (await response.json()) as ProblemBody);
  } catch {
    // A proxy's own error page has no problem body.
    return new ProblemError(response.status, {});
  }
}
