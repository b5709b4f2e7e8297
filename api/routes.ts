/**
 * Endpoints as express routes: a key is required, a body is read where there is one, the answer is
 * sent in the format and coding that the client prefers, and a method that no endpoint of the path
 * has is 405.
 */
import express, { type Express, type RequestHandler } from 'express';
import { requireKey } from './auth/authenticate.ts';
import { callerOf } from './auth/keys.ts';
import type { Asked, Context, Endpoint } from './endpoint.ts';
import { Problem } from './errors.ts';
import { formatFor, send } from './response.ts';
import { sendStream } from './streamed.ts';

const BODY_BYTES_MAX = 256 * 1024;

/** Serves these endpoints; `shared` is what all calls of them work with. */
export function mount<Call extends Context>(
  app: Express,
  endpoints: readonly Endpoint<Call>[],
  shared: Omit<Call, keyof Context>,
): void {
  for (const [path, own] of Map.groupBy(endpoints, (endpoint) => endpoint.path)) {
    const route = app.route(path);
    for (const endpoint of own) {
      const body = endpoint.body === undefined ? [] : [requireJson, readJson];
      route[endpoint.method ?? 'get'](requireKey, ...body, answer(endpoint, shared));
    }
    const methods = own.flatMap(({ method = 'get' }) =>
      method === 'get' ? ['GET', 'HEAD'] : [method.toUpperCase()],
    );
    route.all(refuseMethod(methods.join(', ')));
  }
}

/** Refuses every method with 405; `allow` lists those that a path has. */
export function refuseMethod(allow: string): RequestHandler {
  return (request) => {
    throw new Problem({
      status: 405,
      error: 'method_not_allowed',
      detail: `${request.method} is not allowed here; allowed is ${allow}`,
      headers: { Allow: allow },
    });
  };
}

/** Answers one request; its reads end when the client goes away, unless the answer is kept. */
function answer<Call extends Context>(
  endpoint: Endpoint<Call>,
  shared: Omit<Call, keyof Context>,
): RequestHandler {
  return async (request, response) => {
    const gone = endpoint.isKept ? undefined : new AbortController();
    const onClose = () => gone?.abort();
    if (gone !== undefined) response.once('close', onClose);
    const context: Context = { caller: callerOf(response), signal: gone?.signal ?? null };
    // What is shared and the context make a call, by the parameter's type.
    const call = { ...shared, ...context } as Call;
    const asked: Asked = {
      url: request.originalUrl,
      params: request.params,
      // Parsed each time that it is asked for.
      get query() {
        return request.query;
      },
      body: request.body,
      format: formatFor(request),
    };
    const given = await endpoint.respond(call, asked);
    response.status(endpoint.status ?? 200);
    if (given.kind === 'streamed') await sendStream(request, response, given);
    else await send(request, response, given);
    if (gone !== undefined) response.off('close', onClose);
  };
}

const requireJson: RequestHandler = (request, _response, next) => {
  if (request.is('application/json') === false) {
    const detail = 'the body must be application/json';
    throw new Problem({ status: 415, error: 'unsupported_media_type', detail });
  }
  next();
};

const readJson = express.json({ limit: BODY_BYTES_MAX, type: 'application/json' });
