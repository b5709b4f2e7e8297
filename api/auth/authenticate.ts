/**
 * Authentication: finds the caller by the `X-Service-Key` header. Counts the request against the rate limits of the key
 * and its account, or of the remote address if there is no valid key. Routes that need a key use `requireKey`; unknown
 * routes and probes respond without one. Read-only routes use `allowVisitors`, which admits requests without a key if the
 * operator allows them. An unreachable bucket returns 503, not 401, so that no client concludes that its key was revoked.
 */

import { hash } from 'node:crypto';
import type { Request, RequestHandler, Response } from 'express';
import { foreignRequest, isLoopback } from '../../infra/loopback.ts';
import type { Caller } from '../http/caller.ts';
import { Problem, unavailable } from '../http/errors.ts';
import { networkOf } from '../http/network.ts';
import { hashKey, hasKeyForm, KEY_IN_TEXT, type Keys, type Lookup } from './keys.ts';
import type { Limits } from './rate-limit.ts';
import type { Usage } from './usage.ts';

const KEY_HEADER = 'X-Service-Key';

/**
 * Counts the request and sets `response.locals.caller` if the key is valid. If `isPublic`, requests without a key set
 * `response.locals.visitor`.
 */
export function authenticate(
  keys: Keys,
  limits: Limits,
  usage: Pick<Usage, 'count'>,
  isPublic: boolean,
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
      if (isPublic && found.kind === 'missing') response.locals.visitor = visitorOf(request);
    }
    next();
  };
}

/** Sets the rate limit headers without counting the request. */
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

/**
 * Admits visitors as callers of the demo tier. Its rate for an account applies to each address. Throws Problem 401 if
 * there is neither a valid key nor a visitor.
 */
export function allowVisitors(limits: Limits): RequestHandler {
  return (request, response, next) => {
    const visitor: Caller | undefined = response.locals.visitor;
    if (visitor !== undefined) {
      limits.charge(response, [{ name: visitor.keyHash, policy: 'public' }]);
      response.locals.caller = visitor;
    }
    requireKey(request, response, next);
  };
}

/** Throws Problem 400 if the URL contains a key, even an invalid one, because proxies may have logged it. */
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
  missing: `the request has no ${KEY_HEADER} header: npm start prints a key; of another service, ask its operator`,
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
  // Count the request before reading the bucket, so that guessed keys cannot overload the bucket.
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
  return [{ name: `address:${networkOf(request.ip ?? '')}`, policy: 'anonymous' }] as const;
}

/**
 * The caller of a request without a key. On loopback, a web page of another site must not read the service through the
 * operator's browser, directly or by DNS rebinding, so such a request gets no caller.
 */
function visitorOf({ headers, ip = '' }: Request): Caller | undefined {
  const network = networkOf(ip);
  const isLocal = isLoopback(network) || network === LOOPBACK_NETWORK;
  if (isLocal && foreignRequest(headers) !== undefined) return undefined;
  return { keyHash: hash('sha256', `visitor ${network}`, 'hex'), account: '', tier: 'demo' };
}

/** The network of `::1`. */
const LOOPBACK_NETWORK = '0:0:0:0::/64';

function decoded(url: string): string {
  if (!url.includes('%')) return url;
  try {
    return decodeURIComponent(url);
  } catch (error) {
    if (error instanceof URIError) return url;
    throw error;
  }
}
