/** Requests to other services: limited in time and size. */

export class ResponseTooLongError extends Error {}

/** Rejects with ResponseTooLongError above `bytesMax` unpacked bytes, and when the connection breaks. */
export async function boundedBody({ body }: Response, bytesMax: number): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    // Leaving the loop cancels the download.
    if (bytes > bytesMax) throw new ResponseTooLongError(`more than ${bytesMax} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, bytes);
}

export type HttpAnswer = {
  readonly status: number;
  readonly text: string;
  /** From the Retry-After header; undefined without a valid one. */
  readonly retryAfterMs: number | undefined;
};

/** There was no complete response. */
export class NoAnswerError extends Error {
  readonly reason: 'timeout' | 'network' | 'too_long';

  constructor(reason: NoAnswerError['reason'], cause: unknown) {
    super(reason === 'too_long' ? (cause as Error).message : `no response: ${reason}`, { cause });
    this.reason = reason;
  }
}

/** Sends one request and reads the whole response, for any status. Throws NoAnswerError. */
export async function request(
  url: string | URL,
  limits: { readonly msMax: number; readonly bytesMax: number },
  init: RequestInit = {},
): Promise<HttpAnswer> {
  const timeout = AbortSignal.timeout(limits.msMax);
  const signal = AbortSignal.any(init.signal ? [init.signal, timeout] : [timeout]);
  try {
    const response = await fetch(url, { ...init, signal });
    const text = (await boundedBody(response, limits.bytesMax)).toString();
    const retryAfterMs = retryAfter(response.headers.get('retry-after'));
    return { status: response.status, text, retryAfterMs };
  } catch (error) {
    if (error instanceof ResponseTooLongError) throw new NoAnswerError('too_long', error);
    // `fetch` rejects with many kinds of errors; the signal distinguishes a timeout from the others.
    throw new NoAnswerError(timeout.aborted ? 'timeout' : 'network', error);
  }
}

const RETRY_AFTER_MS_MAX = 60_000;

/** Milliseconds of a Retry-After header, seconds or a date. Limited, because with a wrong clock a date could mean hours. */
function retryAfter(header: string | null): number | undefined {
  const given = header ?? '';
  const waitMs = /^\d+$/.test(given) ? Number(given) * 1_000 : Date.parse(given) - Date.now();
  return Number.isNaN(waitMs) ? undefined : Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}

const BEGINNING_MAX = 300;

/** The beginning of a body in one line, for messages. */
export function beginningOf(text: string): string {
  return text.slice(0, BEGINNING_MAX).replaceAll(/\s+/g, ' ').trim();
}
