/**
 * Names each request, logs its end once and counts it. The line has no query, no key and no address of
 * the client. An API key in the URL is refused: by then proxies may have logged it.
 */
import { randomUUID } from 'node:crypto';
import type { RequestHandler } from 'express';
import type { Logger } from 'pino';
import { withoutSecrets } from '../infra/secrets.ts';
import { callerOf } from './auth/keys.ts';
import { Problem } from './errors.ts';
import type { HttpMetrics } from './metrics.ts';

const REQUEST_ID_FORM = /^[\w.-]{1,64}$/;
const KEY_IN_URL = /fs_(?:demo|individual|pro)_[1-9A-HJ-NP-Za-km-z]{32}/;

/** Takes over a client's request id where it is harmless; the answer's field is set by others. */
export function logRequests(logger: Logger, metrics: HttpMetrics | undefined): RequestHandler {
  return (request, response, next) => {
    const given = String(request.headers['x-request-id'] ?? '');
    const isHarmless = REQUEST_ID_FORM.test(given) && !KEY_IN_URL.test(given);
    const requestId = isHarmless ? given : randomUUID();
    const startMs = performance.now();
    response.locals.requestId = requestId;
    response.on('close', () => {
      const ms = performance.now() - startMs;
      metrics?.answered(request, response, ms);
      if (!logger.isLevelEnabled('info')) return;
      logger.info({
        request_id: requestId,
        method: request.method,
        // Without the query: it may hold anything.
        path: withoutSecrets(request.originalUrl.split('?', 1)[0] ?? ''),
        status: response.statusCode,
        // The end of an event stream too: it has no last byte.
        complete: response.writableFinished,
        ms: Math.round(ms),
        account: response.locals.caller === undefined ? undefined : callerOf(response).account,
      });
    });
    next();
  };
}

/** Throws Problem 400 where the URL holds a key, whatever the key is worth. */
export const refuseKeyInUrl: RequestHandler = (request, _response, next) => {
  if (!KEY_IN_URL.test(decoded(request.originalUrl))) {
    next();
    return;
  }
  throw new Problem({
    status: 400,
    error: 'invalid_request',
    detail: 'the URL holds an API key: send it in X-Service-Key, and revoke this one',
  });
};

function decoded(url: string): string {
  if (!url.includes('%')) return url;
  try {
    return decodeURIComponent(url);
  } catch (error) {
    if (error instanceof URIError) return url;
    throw error;
  }
}
