/**
 * Which pages may read the api from a browser: those of the configured origins, with an API key in
 * the header and never with cookies. Closed by default: without origins nothing is added, and a
 * preflight is answered as any other request.
 */
import cors from 'cors';
import type { RequestHandler } from 'express';

const PREFLIGHT_SECONDS = 600;

/** Answers preflights before they need a key. `*` allows every origin. */
export function allowOrigins(origins: readonly string[]): RequestHandler {
  if (origins.length === 0) return (_request, _response, next) => next();
  return cors({
    origin: origins.includes('*') ? '*' : [...origins],
    methods: ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE'],
    // Cache-Control: what fetch-based readers of event streams send.
    allowedHeaders: ['X-Service-Key', 'Last-Event-ID', 'Content-Type', 'Cache-Control'],
    exposedHeaders: [
      ...['RateLimit', 'RateLimit-Policy', 'Retry-After', 'X-Request-Id'],
      ...['Link', 'X-Total-Count'],
    ],
    maxAge: PREFLIGHT_SECONDS,
  });
}
