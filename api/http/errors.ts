/**
 * Every error response: RFC 9457 `application/problem+json`, plus `error` and `message` for existing
 * clients. Handlers throw a Problem; any other error is a bug, logged once and sent as 500 `internal`.
 * No response contains a stack trace, a key, or the text of another library's error.
 */
import type { ErrorRequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import { NatsUnavailableError, StreamMissingError } from '../../infra/nats/connection.ts';
import { StreamDamagedError } from '../../infra/nats/reader.ts';
import { withoutSecrets } from '../../infra/secrets.ts';
import { UnreadableLedgerError } from '../../ingest/ledger/ledger.ts';
import type { Tier } from './caller.ts';

/** Status and title of each problem, by its stable code in `error`. */
export const PROBLEMS = {
  invalid_request: { status: 400, title: 'The request is not valid' },
  unauthorized: { status: 401, title: 'A valid API key is required' },
  tier_required: { status: 403, title: 'The tier of this key does not include this' },
  quota_exceeded: { status: 403, title: 'A quota of this account is used up' },
  stream_disabled: { status: 403, title: 'The stream is disabled' },
  not_found: { status: 404, title: 'Not found' },
  method_not_allowed: { status: 405, title: 'The method is not allowed here' },
  request_timeout: { status: 408, title: 'The request took too long' },
  payload_too_large: { status: 413, title: 'The body is too large' },
  unsupported_media_type: {
    status: 415,
    title: 'The media type of the body is not supported',
  },
  rate_limited: { status: 429, title: 'Too many requests' },
  headers_too_large: { status: 431, title: 'The headers are too large' },
  internal: { status: 500, title: 'Internal error' },
  unavailable: { status: 503, title: 'Temporarily unavailable' },
} as const;

export type ProblemCode = keyof typeof PROBLEMS;

/** The body of every error response. */
export const ProblemBody = z.object({
  type: z.string().describe('URN of the kind of problem'),
  title: z.string().describe('the kind of problem in words'),
  status: z.int().describe('HTTP status'),
  detail: z.string().describe('what went wrong with this request'),
  instance: z.string().describe('path of the request'),
  error: z.enum(Object.keys(PROBLEMS)).describe('stable code of the kind of problem'),
  message: z.string().describe('the same as detail'),
  request_id: z
    .string()
    .describe('same as the X-Request-Id header; quote it when you ask for help'),
  issues: z
    .array(
      z.object({
        path: z.string().describe('name of the parameter or body member'),
        message: z.string().describe('the bad value and the allowed ones'),
      }),
    )
    .optional()
    .describe('one per bad parameter or member'),
  quota: z
    .object({
      name: z.string().describe('name of the quota'),
      limit: z.int().describe('limit of the tier'),
      used: z.int().describe('current usage of the account'),
    })
    .optional()
    .describe('the quota that is used up'),
});

export type Quota = { readonly name: string; readonly limit: number; readonly used: number };

export type Issue = { readonly path: string; readonly message: string };

/** Thrown by a handler to respond with this code and its status; clients see `detail`. */
export class Problem extends Error {
  readonly status: number;
  readonly error: ProblemCode;
  readonly detail: string;
  readonly issues: readonly Issue[] | undefined;
  readonly quota: Quota | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    init: {
      readonly error: ProblemCode;
      readonly detail: string;
      readonly issues?: readonly Issue[];
      readonly quota?: Quota;
      readonly headers?: Readonly<Record<string, string>>;
    },
    options?: ErrorOptions,
  ) {
    super(init.detail, options);
    this.name = 'Problem';
    this.status = PROBLEMS[init.error].status;
    this.error = init.error;
    this.detail = init.detail;
    this.issues = init.issues;
    this.quota = init.quota;
    this.headers = init.headers ?? {};
  }
}

/** Problem 400 that names each wrong parameter. */
export function invalid(issues: readonly Issue[]): Problem {
  const detail = issues.map(({ path, message }) => `${path}: ${message}`).join('; ');
  return new Problem({ error: 'invalid_request', detail, issues });
}

const RETRY_AFTER_SECONDS = 2;

/** 503 with Retry-After: a store that the request needs is unreachable or too slow. */
export function unavailable(detail: string, cause?: unknown): Problem {
  return new Problem(
    {
      error: 'unavailable',
      detail,
      headers: { 'Retry-After': String(RETRY_AFTER_SECONDS) },
    },
    { cause },
  );
}

/** 403: the tier does not allow a parameter, or its value. */
export function tierRequired(path: string, message: string): Problem {
  return new Problem({
    error: 'tier_required',
    detail: `${path}: ${message}`,
    issues: [{ path, message }],
  });
}

/** 403: the account has used up a quota of its tier; the response names the quota, limit and usage. */
export function quotaExceeded(name: string, tier: Tier, limit: number, used: number): Problem {
  return new Problem({
    error: 'quota_exceeded',
    detail: `the quota ${name} of tier ${tier} is used up: ${used} of ${limit} in use`,
    quota: { name, limit, used },
  });
}

/** The Express error middleware; mount it last. */
export function problemHandler(logger: Logger): ErrorRequestHandler {
  return (error: unknown, request, response, next) => {
    // The client disconnected, so nobody would read a response.
    if (request.socket.destroyed && (!response.headersSent || isPrematureClose(error))) return;
    const problem = toProblem(error);
    const requestId = requestIdOf(response);
    if (problem.status >= 500) {
      logger.error({ err: error, request_id: requestId, path: request.path }, problem.detail);
    }
    if (response.headersSent) {
      // The status has already been sent, so Express closes the connection.
      next(error);
      return;
    }
    response
      .status(problem.status)
      .set(problem.headers)
      .type('application/problem+json')
      .send(
        problemJson(problem, withoutSecrets(request.originalUrl.split('?', 1)[0] ?? ''), requestId),
      );
  };
}

/** The body of an error response, as JSON; `instance` is the path of the request. */
export function problemJson(problem: Problem, instance: string, requestId: string): string {
  return JSON.stringify({
    type: `urn:fillstream:problem:${problem.error}`,
    title: PROBLEMS[problem.error].title,
    status: problem.status,
    detail: problem.detail,
    instance,
    error: problem.error,
    message: problem.detail,
    request_id: requestId,
    issues: problem.issues,
    quota: problem.quota,
  });
}

/** 405; `allow` lists the methods that the path supports. */
export function methodNotAllowed(method: string, allow: string): Problem {
  return new Problem({
    error: 'method_not_allowed',
    detail: `${method} is not allowed here; allowed: ${allow}`,
    headers: { Allow: allow },
  });
}

/** The id of this request, as in its X-Request-Id header. */
export function requestIdOf(response: Response): string {
  return String(response.locals.requestId ?? '');
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  const isStoreUnreadable =
    error instanceof NatsUnavailableError ||
    error instanceof StreamMissingError ||
    error instanceof StreamDamagedError ||
    error instanceof UnreadableLedgerError;
  if (isStoreUnreadable) {
    return unavailable('a store that this request needs cannot be read now', error);
  }
  const status = httpStatusOf(error);
  // Express and its body parser throw http-errors. Their status is right, but their text is not meant for clients.
  if (status === 413) {
    return new Problem({ error: 'payload_too_large', detail: 'the body is too large' });
  }
  if (status === 415) {
    const detail = 'the body must be application/json in UTF-8, not compressed';
    return new Problem({ error: 'unsupported_media_type', detail });
  }
  if (
    typeof error === 'object' &&
    error !== null &&
    'type' in error &&
    error.type === 'entity.parse.failed'
  ) {
    return notJson();
  }
  if (status !== undefined && status >= 400 && status < 500) {
    const detail = 'the request cannot be read: malformed URL, header or body';
    return new Problem({ error: 'invalid_request', detail });
  }
  const detail = 'the request failed for a reason that is logged under its request_id';
  return new Problem({ error: 'internal', detail });
}

function notJson(): Problem {
  const message = 'must be JSON';
  return new Problem({
    error: 'invalid_request',
    detail: `body: ${message}`,
    issues: [{ path: 'body', message }],
  });
}

/** The error of a response whose client disconnected. */
function isPrematureClose(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
}

function httpStatusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('status' in error)) return undefined;
  return typeof error.status === 'number' ? error.status : undefined;
}
