/**
 * Serves endpoints as Express routes. A route requires a key, or runs the guard of its group. It reads a JSON body
 * if the endpoint has one, sends the response in the format and coding that the client prefers, and rejects other methods
 * with 405.
 */
import { createHmac } from 'node:crypto';
import express, { type Express, type Request, type RequestHandler, type Response } from 'express';
import { type Caller, callerOf } from './caller.ts';
import type { CallerContext, Context, Endpoint } from './endpoint.ts';
import { invalid, methodNotAllowed, Problem } from './errors.ts';
import { formatFor, send } from './response.ts';

const BODY_BYTES_MAX = 256 * 1024;

/** Serves these endpoints; `shared` is passed to all their calls. `admit` guards them. */
export function serveEndpoints<Call extends Context>(
  app: Express,
  endpoints: readonly Endpoint<Call>[],
  shared: Omit<Call, keyof CallerContext>,
  admit: RequestHandler,
): void {
  for (const [path, own] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    const route = app.route(path);
    for (const endpoint of own) {
      const body = endpoint.body === undefined ? [] : [requireJson, readJson];
      const { method = 'get' } = endpoint;
      route[method](admit, ...body, handlerOf(endpoint, shared));
    }
    const methods = own.flatMap(({ method = 'get' }) =>
      method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()],
    );
    route.all(refuseMethod(methods.join(', ')));
  }
}

/** Rejects every method with 405; `allow` lists the methods that the path supports. */
export function refuseMethod(allow: string): RequestHandler {
  return (request) => {
    throw methodNotAllowed(request.method, allow);
  };
}

/** Handles one request; reads are aborted when the client disconnects. */
function handlerOf<Call extends Context>(
  endpoint: Endpoint<Call>,
  shared: Omit<Call, keyof CallerContext>,
): RequestHandler {
  return async (request, response) => {
    const context = { caller: callerOf(response), signal: abortedWith(response) };
    // `Call` is `context` and `shared` together, by the type of the parameter.
    const call = { ...shared, ...context } as unknown as Parameters<typeof endpoint.respond>[0];
    const { params, query, body } = request;
    const format = formatFor(request);
    const seed = endpoint.method === 'post' ? seedOf(request, context.caller) : null;
    const answer = await endpoint.respond(call, { params, query, body, format, seed });
    response.status(endpoint.status ?? 200);
    await send(request, response, answer);
  };
}

/** Aborted if the client disconnects before the response is complete. */
export function abortedWith(response: Response): AbortSignal {
  const gone = new AbortController();
  response.once('close', () => {
    if (!response.writableFinished) gone.abort();
  });
  return gone.signal;
}

/**
 * The seed of a repeatable request. It is keyed with the API key itself, which is never stored, so nobody
 * else can derive what the request creates.
 */
function seedOf(request: Request, { keyHash }: Caller): Buffer | null {
  const given = request.get('Idempotency-Key') ?? '';
  if (given === '') return null;
  if (!/^[\x21-\x7e]{1,255}$/.test(given)) {
    const message = 'must be 1 to 255 visible ASCII characters';
    throw invalid([{ path: 'Idempotency-Key', message }]);
  }
  const secret = request.get('X-Service-Key') ?? '';
  return createHmac('sha256', secret).update(`${keyHash} ${request.path} ${given}`).digest();
}

const requireJson: RequestHandler = (request, _response, next) => {
  if (request.is('application/json') === false) {
    const detail = 'the body must be application/json';
    throw new Problem({ error: 'unsupported_media_type', detail });
  }
  next();
};

/** Refuses a compressed body, whose size is unknown until it is read. */
export const readJson = express.json({
  limit: BODY_BYTES_MAX,
  type: 'application/json',
  inflate: false,
});
