/**
 * Request rates: a token bucket for each account and tier (and for each remote address without a valid
 * key), and the `RateLimit` and `RateLimit-Policy` fields of the IETF draft
 * (draft-ietf-httpapi-ratelimit-headers) that every response carries. A bucket holds one second of
 * requests. The buckets of all api processes are drained together (shared-counts.ts), some 50 ms late,
 * and may owe what they let through meanwhile. So in any t seconds n processes admit at most
 * rate · t + n · rate requests of an account, and on average never more than the rate. Addresses are
 * counted by each process for itself.
 */
import type { Response } from 'express';
import { Problem } from './problems.ts';
import type { SharedCounts } from './shared-counts.ts';
import { ANONYMOUS_REQUESTS_PER_SECOND, TIERS, type Tier } from './tiers.ts';

/** What is counted: an account, or one remote address that shows no valid key. */
export type Counted = { readonly name: string; readonly policy: Tier | 'anonymous' };

export type Limits = {
  /** Takes one request. Throws Problem 429 when none is left; sets the fields either way. */
  charge(response: Response, counted: Counted): void;
  /** Sets the fields without counting: for probes. */
  show(response: Response, counted: Counted): void;
};

type Bucket = { tokens: number; atMs: number };

const WINDOW_SECONDS = 1;
const BUCKETS_MAX = 100_000;
/** What a bucket owes at most, in seconds of its rate: clocks that stop must not shut anyone out. */
const DEBT_SECONDS_MAX = 10;

export function createLimits(
  options: {
    /** Milliseconds of a clock that never goes back. */
    readonly now?: () => number;
    readonly shared?: Pick<SharedCounts, 'counted' | 'onOthers'>;
  } = {},
): Limits {
  const { now = () => performance.now(), shared } = options;
  const buckets = new Map<string, Bucket>();

  /** The refilled bucket, or a full one; the map keeps the least recently used first. */
  function bucketOf(name: string, perSecond: number): Bucket {
    const atMs = now();
    const found = buckets.get(name);
    if (found === undefined) return { tokens: perSecond, atMs };
    const refill = ((atMs - found.atMs) / 1000) * perSecond;
    return { tokens: Math.min(perSecond, found.tokens + refill), atMs };
  }

  function keep(name: string, bucket: Bucket): void {
    buckets.delete(name);
    buckets.set(name, bucket);
    // Dropping the bucket that was quiet longest costs it little: its debt is paid in seconds.
    const [oldest] = buckets.keys();
    if (buckets.size > BUCKETS_MAX && oldest !== undefined) buckets.delete(oldest);
  }

  shared?.onOthers((sharedName, count) => {
    const counted = parseSharedName(sharedName);
    if (counted === undefined) return;
    const perSecond = rateOf(counted);
    const name = nameOf(counted);
    const bucket = bucketOf(name, perSecond);
    bucket.tokens = Math.max(bucket.tokens - count, -perSecond * DEBT_SECONDS_MAX);
    keep(name, bucket);
  });

  return {
    charge(response, counted) {
      const perSecond = rateOf(counted);
      const name = nameOf(counted);
      const bucket = bucketOf(name, perSecond);
      const allowed = bucket.tokens >= 1;
      if (allowed) bucket.tokens -= 1;
      keep(name, bucket);
      setFields(response, counted, perSecond, bucket.tokens);
      if (!allowed) throw rateLimited(perSecond, bucket.tokens);
      if (counted.policy !== 'anonymous') shared?.counted(name);
    },
    show(response, counted) {
      const perSecond = rateOf(counted);
      setFields(response, counted, perSecond, bucketOf(nameOf(counted), perSecond).tokens);
    },
  };
}

/** Keys of one account in two tiers count apart: each has the rate that it was sold with. */
function nameOf({ name, policy }: Counted): string {
  return `${policy} ${name}`;
}

function parseSharedName(text: string): Counted | undefined {
  const [policy = '', ...name] = text.split(' ');
  const tier = Object.hasOwn(TIERS, policy) ? (policy as Tier) : undefined;
  return tier === undefined ? undefined : { policy: tier, name: name.join(' ') };
}

function rateOf({ policy }: Counted): number {
  return policy === 'anonymous' ? ANONYMOUS_REQUESTS_PER_SECOND : TIERS[policy].requestsPerSecond;
}

function setFields(response: Response, counted: Counted, perSecond: number, tokens: number): void {
  const left = Math.max(0, Math.floor(tokens));
  response.setHeader('RateLimit-Policy', `"${counted.policy}";q=${perSecond};w=${WINDOW_SECONDS}`);
  response.setHeader(
    'RateLimit',
    `"${counted.policy}";r=${left};t=${secondsUntilFree(perSecond, tokens)}`,
  );
}

function rateLimited(perSecond: number, tokens: number): Problem {
  return new Problem({
    status: 429,
    error: 'rate_limited',
    detail: `more than ${perSecond} requests a second`,
    headers: { 'Retry-After': String(secondsUntilFree(perSecond, tokens)) },
  });
}

/** Whole seconds until a request is admitted again, rounded up; at least the window. */
function secondsUntilFree(perSecond: number, tokens: number): number {
  return Math.max(WINDOW_SECONDS, Math.ceil((1 - tokens) / perSecond));
}
