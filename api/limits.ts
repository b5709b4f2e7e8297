/**
 * Request rates: a token bucket for each key (and for each remote address without one), and the
 * `RateLimit` and `RateLimit-Policy` fields of the IETF draft (draft-ietf-httpapi-ratelimit-headers)
 * that every response carries. A bucket holds one second of requests. Counts are of this process:
 * n processes behind one balancer allow up to n times the rate.
 */
import type { Response } from 'express';
import { Problem } from './problems.ts';
import { ANONYMOUS_REQUESTS_PER_SECOND, TIERS, type Tier } from './tiers.ts';

/** What is counted: one key, or one remote address that shows none. */
type Account = { readonly name: string; readonly policy: Tier | 'anonymous' };

export type Limits = {
  /** Takes one request. Throws Problem 429 when none is left; sets the fields either way. */
  charge(response: Response, account: Account): void;
  /** Sets the fields without counting: for probes. */
  show(response: Response, account: Account): void;
};

type Bucket = { tokens: number; atMs: number };

const WINDOW_SECONDS = 1;
const BUCKETS_MAX = 100_000;

export function createLimits(now: () => number = () => performance.now()): Limits {
  const buckets = new Map<string, Bucket>();

  /** The refilled bucket, or a full one; the map keeps the least recently used first. */
  function bucketOf(account: Account, perSecond: number): Bucket {
    const atMs = now();
    const found = buckets.get(account.name);
    if (found === undefined) return { tokens: perSecond, atMs };
    const refill = ((atMs - found.atMs) / 1000) * perSecond;
    return { tokens: Math.min(perSecond, found.tokens + refill), atMs };
  }

  function keep(account: Account, bucket: Bucket): void {
    buckets.delete(account.name);
    buckets.set(account.name, bucket);
    // Dropping the bucket that was quiet longest costs it nothing: it is full again after 1 s.
    const [oldest] = buckets.keys();
    if (buckets.size > BUCKETS_MAX && oldest !== undefined) buckets.delete(oldest);
  }

  return {
    charge(response, account) {
      const perSecond = rateOf(account);
      const bucket = bucketOf(account, perSecond);
      const allowed = bucket.tokens >= 1;
      if (allowed) bucket.tokens -= 1;
      keep(account, bucket);
      setFields(response, account, perSecond, bucket.tokens);
      if (!allowed) throw rateLimited(perSecond);
    },
    show(response, account) {
      const perSecond = rateOf(account);
      setFields(response, account, perSecond, bucketOf(account, perSecond).tokens);
    },
  };
}

function rateOf(account: Account): number {
  return account.policy === 'anonymous'
    ? ANONYMOUS_REQUESTS_PER_SECOND
    : TIERS[account.policy].requestsPerSecond;
}

function setFields(response: Response, account: Account, perSecond: number, tokens: number): void {
  response.set({
    'RateLimit-Policy': `"${account.policy}";q=${perSecond};w=${WINDOW_SECONDS}`,
    RateLimit: `"${account.policy}";r=${Math.floor(tokens)};t=${WINDOW_SECONDS}`,
  });
}

function rateLimited(perSecond: number): Problem {
  return new Problem({
    status: 429,
    error: 'rate_limited',
    detail: `more than ${perSecond} requests a second`,
    headers: { 'Retry-After': String(WINDOW_SECONDS) },
  });
}
