/** Which pages of other origins may read the API: with a key in the header, never with cookies. */
import cors from 'cors';
import type { RequestHandler } from 'express';

const PREFLIGHT_SECONDS = 600;
const EXPOSED_HEADERS = [
  ...['RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id'],
  ...['Link', 'X-Total-Count', 'Location', 'Age', 'ETag'],
];

/** Lets pages of these origins (`*`: any) read the API. Preflight requests need no key. Without origins it adds nothing. */
export function allowOrigins(origins: readonly string[]): RequestHandler {
  if (origins.length === 0) return (_request, _response, next) => next();
  return cors({
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    // Clients that read event streams with fetch send Cache-Control.
    allowedHeaders: [
      ...['X-Service-Key', 'Last-Event-ID', 'Content-Type', 'Cache-Control', 'Idempotency-Key'],
      'If-None-Match',
      // MCP clients that run in a browser send these.
      ...['Authorization', 'MCP-Protocol-Version'],
    ],
    exposedHeaders: EXPOSED_HEADERS,
    maxAge: PREFLIGHT_SECONDS,
  });
}

/**
 * Headers that let such a page read the response to a request that Node could not parse.
 *
 * @param request As much of the request as arrived, perhaps without its `Origin`. Then the first configured origin is
 *   allowed, which is safe: a browser lets no page of another origin read the response.
 */
export function originHeaders(
  origins: readonly string[],
  request = '',
): Readonly<Record<string, string>> {
  const [first] = origins;
  if (first === undefined) return {};
  const sent = /^origin:[ \t]*(\S+)/im.exec(request)?.[1] ?? '';
  const origin = origins.includes(sent) ? sent : first;
  return {
    'Access-Control-Allow-Origin': origins.includes('*') ? '*' : origin,
    'Access-Control-Expose-Headers': EXPOSED_HEADERS.join(','),
    Vary: 'Origin',
  };
}
