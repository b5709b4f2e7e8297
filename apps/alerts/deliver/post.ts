/** Sends one request to a target that a user chose: limited in address, time and size. */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http';
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https';
import type { LookupFunction } from 'node:net';
import { NoAnswerError } from '../../../infra/http-request.ts';
import { createTargetGuard, RefusedTargetError } from './targets.ts';

const MS_MAX = 10_000;
const BODY_BYTES_MAX = 16_384;
const TEXT_CHARACTERS_MAX = 1_024;

const AGENT_OPTIONS = {
  keepAlive: true,
  maxFreeSockets: 64,
  /** Closes idle connections. */
  timeout: 15_000,
};

export type Post = {
  readonly url: string;
  readonly method: 'POST' | 'PATCH';
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | Buffer;
};

export type TextPost = Post & { readonly body: string };

export type Reply = {
  readonly status: number;
  /** First 1,024 characters of the body, to store and show. */
  readonly text: string;
  /** First 16 KiB of the body: messengers return the id of a message after its text. */
  readonly body: string;
  /** At most one hour; undefined without a valid Retry-After header. */
  readonly retryAfterMs: number | undefined;
};

/**
 * Returns the reply for any status, also for redirects, which are never followed. Rejects with RefusedTargetError if the target
 * is not allowed, and with NoAnswerError if there was no complete reply.
 */
export type Sender = (post: Post, signal?: AbortSignal) => Promise<Reply>;

export function createSender(options: {
  /** Networks of the operator, such as 127.0.0.0/8: allowed although private, also with http: */
  readonly allowedNetworks: readonly string[];
  /** Limit of a whole request, from the lookup to the end of the body. */
  readonly msMax?: number;
  /** For tests. */
  readonly lookup?: LookupFunction;
}): Sender & { readonly close: () => void } {
  const { allowedNetworks, msMax = MS_MAX } = options;
  const guard = createTargetGuard(allowedNetworks, options.lookup);
  const http = new HttpAgent({ ...AGENT_OPTIONS, lookup: guard.lookup('http:') });
  const https = new HttpsAgent({ ...AGENT_OPTIONS, lookup: guard.lookup('https:') });

  function responseTo(url: URL, post: Post, signal: AbortSignal): Promise<IncomingMessage> {
    const { method, headers, body } = post;
    return new Promise((resolve, reject) => {
      const init = { method, headers, signal };
      const request =
        url.protocol === 'https:'
          ? httpsRequest(url, { ...init, agent: https })
          : httpRequest(url, { ...init, agent: http });
      request.on('response', resolve);
      request.on('error', reject);
      // Node closes a connection that switches protocols without any other event.
      request.on('close', () => reject(new Error('closed without a response')));
      request.end(body);
    });
  }

  async function send(post: Post, signal?: AbortSignal): Promise<Reply> {
    const url = guard.checkedUrl(post.url);
    const timeout = AbortSignal.timeout(msMax);
    try {
      const both = AbortSignal.any(signal ? [signal, timeout] : [timeout]);
      const response = await responseTo(url, post, both);
      const body = await beginning(response);
      return {
        status: response.statusCode ?? 0,
        text: body.slice(0, TEXT_CHARACTERS_MAX),
        body,
        retryAfterMs: retryAfter(response.headers['retry-after']),
      };
    } catch (error) {
      if (error instanceof RefusedTargetError) throw error;
      throw new NoAnswerError(timeout.aborted ? 'timeout' : 'network', error);
    }
  }

  function close(): void {
    http.destroy();
    https.destroy();
  }

  return Object.assign(send, { close });
}

/** Drops the connection if there is more. */
async function beginning(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    bytes += chunk.length;
    // Leaving the loop destroys the response.
    if (bytes > BODY_BYTES_MAX) break;
  }
  return Buffer.concat(chunks).subarray(0, BODY_BYTES_MAX).toString();
}

const RETRY_AFTER_MS_MAX = 3_600_000;

/** Milliseconds of a Retry-After header, which contains seconds or a date. */
function retryAfter(header = ''): number | undefined {
  const waitMs = /^\d+$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - Date.now();
  return Number.isNaN(waitMs) ? undefined : boundedWaitMs(waitMs);
}

export function boundedWaitMs(waitMs: number): number {
  return Math.min(Math.max(waitMs, 0), RETRY_AFTER_MS_MAX);
}
