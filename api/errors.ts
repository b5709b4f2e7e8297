/**
 * Every error response: RFC 9457 `application/problem+json`, plus `error` and `message` for existing
 * clients. Handlers throw a Problem; any other error is a bug, logged once and sent as 500 `internal`.
 * No response contains a stack trace, a key, or the text of another library's error.
 */
import type { ErrorRequestHandler, Response } from 'express';
import type { Logger } from 'pino';
import { z } from 'zod';
import { NatsUnavailableError, StreamMissingError } from '../infra/nats/connection.ts';
import { withoutSecrets } from '../infra/secrets.ts';
import type { Tier } from './auth/tiers.ts';

const TITLES = {
  invalid_request: 'The request is not valid',
  unauthorized: 'A valid API key is required',
  tier_required: 'The tier of this key does not include this',
  quota_exceeded: 'A quota of this account is used up',
  stream_disabled: 'The stream is disabled',
  not_found: 'Not found',
  method_not_allowed: 'The method is not allowed here',
  payload_too_large: 'The body is too large',
  unsupported_media_type: 'The media type of the body is not supported',
  rate_limited: 'Too many requests',
  internal: 'Internal error',
  unavailable: 'Temporarily unavailable',
} as const;

/** The stable codes in `error`. */
export type ProblemCode = keyof typeof TITLES;

/** The body of every error response. */
export const ProblemBody = z.object({
  type: z.string().describe('URN of the kind of problem'),
  title: z.string().describe('the kind of problem in words'),
  status: z.int().describe('HTTP status'),
  detail: z.string().describe('what is wrong with this request'),
  instance: z.string().describe('path of the request'),
  error: z.enum(Object.keys(TITLES)).describe('stable code of the kind of problem'),
  message: z.string().describe('the same as detail'),
  request_id: z.string().describe('the X-Request-Id header; quote it when you ask for help'),
  issues: z
    .array(
      z.object({
        path: z.string().describe('name of the parameter'),
        message: z.string().describe('the given value and the allowed ones'),
      }),
    )
    .optional()
    .describe('one per bad parameter'),
  quota: z
    .object({
      name: z.string().describe('name of the quota'),
      limit: z.int().describe('what the tier allows'),
      used: z.int().describe('what the account uses'),
    })
    .optional()
    .describe('the quota that is used up'),
});

export type Quota = { readonly name: string; readonly limit: number; readonly used: number };

export type Issue = { readonly path: string; readonly message: string };

/** Thrown by a handler to respond with this status and code; clients see `detail`. */
export class Problem extends Error {
  readonly status: number;
  readonly error: ProblemCode;
  readonly detail: string;
  readonly issues: readonly Issue[] | undefined;
  readonly quota: Quota | undefined;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    init: {
      readonly status: number;
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
    this.status = init.status;
    this.error = init.error;
    this.detail = init.detail;
    this.issues = init.issues;
    this.quota = init.quota;
    this.headers = init.headers ?? {};
  }
}

const RETRY_AFTER_SECONDS = 2;

/** 503 with Retry-After: a store that the request needs is unreachable or too slow. */
export function unavailable(detail: string, cause?: unknown): Problem {
  return new Problem(
    {
      status: 503,
      error: 'unavailable',
      detail,
      headers: { 'Retry-After': String(RETRY_AFTER_SECONDS) },
    },
    { cause },
  );
}

/** 403: the account has used up a quota of its tier; the response names the quota, limit and usage. */
export function quotaExceeded(name: string, tier: Tier, limit: number, used: number): Problem {
  return new Problem({
    status: 403,
    error: 'quota_exceeded',
    detail: `the quota ${name} of tier ${tier} is used up: ${used} of ${limit} in use`,
    quota: { name, limit, used },
  });
}

/** Express error middleware; mount it last. */
export function problemHandler(logger: Logger): ErrorRequestHandler {
  return (error: unknown, request, response, next) => {
    // The request failed because its client disconnected.
    if (request.socket.destroyed && (!response.headersSent || isPrematureClose(error))) return;
    const problem = toProblem(error);
    const requestId = requestIdOf(response);
    if (problem.status >= 500) {
      logger.error({ err: error, request_id: requestId, path: request.path }, problem.detail);
    }
    if (response.headersSent) {
      // The status has been sent: Express closes the connection.
      next(error);
      return;
    }
    response
      .status(problem.status)
      .set(problem.headers)
      .type('application/problem+json')
      .send(
        JSON.stringify({
          type: `urn:fillstream:problem:${problem.error}`,
          title: TITLES[problem.error],
          status: problem.status,
          detail: problem.detail,
          instance: withoutSecrets(request.originalUrl.split('?', 1)[0] ?? ''),
          error: problem.error,
          message: problem.detail,
          request_id: requestId,
          ...(problem.issues === undefined ? {} : { issues: problem.issues }),
          ...(problem.quota === undefined ? {} : { quota: problem.quota }),
        }),
      );
  };
}

/** The id of this request, as in its X-Request-Id header. */
export function requestIdOf(response: Response): string {
  return String(response.locals.requestId ?? '');
}

function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error;
  if (error instanceof NatsUnavailableError || error instanceof StreamMissingError) {
    return unavailable('a store that this request needs cannot be reached now', error);
  }
  const status = httpStatusOf(error);
  // Express and its body parser throw http-errors, whose status is right but whose text is not for clients.
  if (status === 413) {
    return new Problem({ status, error: 'payload_too_large', detail: 'the body is too large' });
  }
  if (status === 415) {
    const detail = 'the body must be application/json in UTF-8';
    return new Problem({ status, error: 'unsupported_media_type', detail });
  }
  if (status !== undefined && status >= 400 && status < 500) {
    const detail = 'the request cannot be read: malformed URL, header or JSON';
    return new Problem({ status: 400, error: 'invalid_request', detail });
  }
  const detail = 'the request failed for a reason that is logged under its request_id';
  return new Problem({ status: 500, error: 'internal', detail });
}

/** The error of a response whose client disconnected. */
function isPrematureClose(error: unknown): boolean {
  return error instanceof Error && 'code' in error && error.code === 'ERR_STREAM_PREMATURE_CLOSE';
}

function httpStatusOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('status' in error)) return undefined;
  return typeof error.status === 'number' ? error.status : undefined;
}
