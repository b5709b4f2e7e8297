/**
 * Admission of a request: finds out who calls by the X-Service-Key field and counts the request
 * against the key's account, or against the remote address where there is no valid key. A route that needs a
 * key says so with `requireKey`, so that unknown routes and probes answer without one.
 * A bucket that cannot be reached is 503, not 401: a client must not take its key for revoked.
 */
import type { Request, RequestHandler, Response } from 'express';
import { Problem, unavailable } from '../errors.ts';
import { type Caller, hashKey, hasKeyForm, type Keys, type Lookup } from './keys.ts';
import type { Limits } from './rate-limit.ts';
import type { Usage } from './usage.ts';

const KEY_HEADER = 'X-Service-Key';

/** Sets `response.locals.caller` where the key is valid, and counts the request. */
export function admit(keys: Keys, limits: Limits, usage: Pick<Usage, 'count'>): RequestHandler {
  return async (request, response, next) => {
    const found = await lookUp(keys, limits, request, response);
    if (found.kind === 'valid') {
      response.locals.caller = found.caller;
      const { account, tier } = found.caller;
      limits.charge(response, { name: account, policy: tier });
      usage.count(account);
    } else {
      response.locals.refusal = found.kind;
    }
    next();
  };
}

/** Who calls, where the key is known to this process and valid. */
export function knownCaller(keys: Keys, request: Request): Caller | undefined {
  const keyHash = keyHashOf(request);
  const found = keyHash === undefined ? undefined : keys.find(keyHash);
  return found?.kind === 'valid' ? found.caller : undefined;
}

/** Sets the rate fields of a probe without counting it. */
export function uncounted(limits: Limits): RequestHandler {
  return (request, response, next) => {
    limits.show(response, anonymous(request));
    next();
  };
}

/** Throws Problem 401 unless `admit` found a valid key. */
export const requireKey: RequestHandler = (_request, response, next) => {
  if (response.locals.caller !== undefined) {
    next();
    return;
  }
  const refusal: Refusal = response.locals.refusal;
  throw new Problem({
    status: 401,
    error: 'unauthorized',
    detail: REFUSALS[refusal],
    headers: { 'WWW-Authenticate': `ApiKey header="${KEY_HEADER}"` },
  });
};

type Refusal = Exclude<Lookup['kind'], 'valid'> | 'missing';

const REFUSALS: Readonly<Record<Refusal, string>> = {
  missing: `the request has no ${KEY_HEADER} field`,
  unknown: `the ${KEY_HEADER} field is not a key of this service`,
  revoked: `the key in ${KEY_HEADER} is revoked`,
  expired: `the key in ${KEY_HEADER} is expired`,
};

async function lookUp(
  keys: Keys,
  limits: Limits,
  request: Request,
  response: Response,
): Promise<Lookup | { readonly kind: 'missing' }> {
  const keyHash = keyHashOf(request);
  const known = keyHash === undefined ? undefined : keys.find(keyHash);
  if (known?.kind === 'valid') return known;
  // Counted before the bucket is asked, so that guessing keys cannot load it.
  limits.charge(response, anonymous(request));
  if (known !== undefined) return known;
  if (keyOf(request) === '') return { kind: 'missing' };
  if (keyHash === undefined) return { kind: 'unknown' };
  try {
    return await keys.fetch(keyHash);
  } catch (error) {
    throw unavailable('the keys cannot be read now', error);
  }
}

function keyHashOf(request: Request): string | undefined {
  const key = keyOf(request);
  return hasKeyForm(key) ? hashKey(key) : undefined;
}

function keyOf(request: Request): string {
  return String(request.headers[KEY_HEADER.toLowerCase()] ?? '');
}

function anonymous(request: Request) {
  return { name: `address:${request.ip}`, policy: 'anonymous' } as const;
}
