/**
 * Authentication: finds the caller by the `X-Service-Key` header and charges the request to the key
 * and its account, or to the remote address if there is no valid key. Routes that need a key use `requireKey`,
 * so that unknown routes and probes respond without one. A bucket that cannot be reached is 503, not
 * 401: a client must not conclude that its key was revoked.
 */
import type { Request, RequestHandler, Response } from 'express';
import { Problem, unavailable } from '../errors.ts';
import { hashKey, hasKeyForm, KEY_IN_TEXT, type Keys, type Lookup } from './keys.ts';
import type { Limits } from './rate-limit.ts';
import type { Usage } from './usage.ts';

const KEY_HEADER = 'X-Service-Key';

/** Sets `response.locals.caller` if the key is valid, and charges the request. */
export function authenticate(
  keys: Keys,
  limits: Limits,
  usage: Pick<Usage, 'count'>,
): RequestHandler {
  return async (request, response, next) => {
    const found = await lookUp(keys, limits, request, response);
    if (found.kind === 'valid') {
      response.locals.caller = found.caller;
      const { account, keyHash, tier } = found.caller;
      limits.charge(response, [
        { name: keyHash, policy: tier },
        { name: account, policy: `${tier}-account` },
      ]);
      usage.count(account);
    } else {
      response.locals.refusal = found.kind;
    }
    next();
  };
}

/** Sets the rate limit headers without charging the request. */
export function uncounted(limits: Limits): RequestHandler {
  return (request, response, next) => {
    limits.show(response, anonymous(request));
    next();
  };
}

/** Throws Problem 401 unless `authenticate` found a valid key. */
export const requireKey: RequestHandler = (_request, response, next) => {
  if (response.locals.caller !== undefined) {
    next();
    return;
  }
  const refusal: Refusal = response.locals.refusal;
  throw new Problem({
    error: 'unauthorized',
    detail: REFUSALS[refusal],
    headers: { 'WWW-Authenticate': `ApiKey header="${KEY_HEADER}"` },
  });
};

/** Throws Problem 400 if the URL contains a key, valid or not: proxies may have logged it by now. */
export const refuseKeyInUrl: RequestHandler = (request, _response, next) => {
  if (!KEY_IN_TEXT.test(decoded(request.originalUrl))) {
    next();
    return;
  }
  throw new Problem({
    error: 'invalid_request',
    detail: 'the URL contains an API key: send it in X-Service-Key, and revoke this one',
  });
};

type Refusal = Exclude<Lookup['kind'], 'valid'> | 'missing';

const REFUSALS: Readonly<Record<Refusal, string>> = {
  missing: `the request has no ${KEY_HEADER} header`,
  unknown: `the ${KEY_HEADER} header is not a key of this service`,
  revoked: `the key in ${KEY_HEADER} was revoked`,
  expired: `the key in ${KEY_HEADER} has expired`,
};

async function lookUp(
  keys: Keys,
  limits: Limits,
  request: Request,
  response: Response,
): Promise<Lookup | { readonly kind: 'missing' }> {
  const key = String(request.headers[KEY_HEADER.toLowerCase()] ?? '');
  const keyHash = hasKeyForm(key) ? hashKey(key) : undefined;
  const known = keyHash === undefined ? undefined : keys.find(keyHash);
  if (known?.kind === 'valid') return known;
  // Charged before the bucket is read, so that guessing keys cannot load it.
  limits.charge(response, anonymous(request));
  if (known !== undefined) return known;
  if (key === '') return { kind: 'missing' };
  if (keyHash === undefined) return { kind: 'unknown' };
  try {
    return await keys.fetch(keyHash);
  } catch (error) {
    throw unavailable('API keys cannot be read now', error);
  }
}

function anonymous(request: Request) {
  return [{ name: `address:${request.ip}`, policy: 'anonymous' }] as const;
}

function decoded(url: string): string {
  if (!url.includes('%')) return url;
  try {
    return decodeURIComponent(url);
  } catch (error) {
    if (error instanceof URIError) return url;
    throw error;
  }
}
