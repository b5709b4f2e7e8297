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
import { Problem } from '../errors.ts';
import type { SharedCounts } from './shared-counts.ts';
import { ANONYMOUS_REQUESTS_PER_SECOND, TIERS, type Tier } from './tiers.ts';

/** What is counted: an account, or one remote address that shows no valid key. */
export type Counted = { readonly name: string; readonly policy: Tier | 'anonymous' };

export type Limits = {
  /** Takes one request. Throws Problem 429 when none is left; sets the fields either way. */
  charge(response: Response, counted: Counted): void;
  /** Takes one request and gives the fields, name and value in turn; undefined when none is left. */
  take(counted: Counted): readonly string[] | undefined;
  /** Sets the fields without counting: for probes. */
  show(response: Response, counted: Counted): void;
};

type Policy = Counted['policy'];
type Bucket = {
  /** As other processes are told it. */
  readonly sharedName: string;
  tokens: number;
  atMs: number;
  /** When it was last put at the end of its map. */
  keptAtMs: number;
};

const WINDOW_SECONDS = 1;
/** Of one policy. */
const BUCKETS_MAX = 100_000;
/** How exactly the order of a map is that of use: moving a bucket costs more than taking of it. */
const ORDER_MS = 1_000;
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
  /** Keys of one account in two tiers count apart: each has the rate that it was sold with. */
  const buckets: Readonly<Record<Policy, Map<string, Bucket>>> = {
    anonymous: new Map(),
    demo: new Map(),
    individual: new Map(),
    pro: new Map(),
  };

  /** The bucket, refilled until now; a full one where none is kept. */
  function bucketOf({ policy, name }: Counted): Bucket {
    const atMs = now();
    const perSecond = RATES[policy];
    const bucket = buckets[policy].get(name);
    if (bucket === undefined) {
      const keptAtMs = Number.NEGATIVE_INFINITY;
      return { sharedName: `${policy} ${name}`, tokens: perSecond, atMs, keptAtMs };
    }
    const refill = ((atMs - bucket.atMs) / 1000) * perSecond;
    bucket.tokens = Math.min(perSecond, bucket.tokens + refill);
    bucket.atMs = atMs;
    return bucket;
  }

  /** Each map has the bucket that was quiet longest first. */
  function keep({ policy, name }: Counted, bucket: Bucket): void {
    if (bucket.atMs - bucket.keptAtMs < ORDER_MS) return;
    bucket.keptAtMs = bucket.atMs;
    const own = buckets[policy];
    own.delete(name);
    own.set(name, bucket);
    if (own.size <= BUCKETS_MAX) return;
    // Dropping it costs it little: its debt is paid in seconds.
    const [quietest] = own.keys();
    if (quietest !== undefined) own.delete(quietest);
  }

  shared?.onOthers((sharedName, count) => {
    const counted = parseSharedName(sharedName);
    if (counted === undefined) return;
    const bucket = bucketOf(counted);
    const debtMax = RATES[counted.policy] * DEBT_SECONDS_MAX;
    bucket.tokens = Math.max(bucket.tokens - count, -debtMax);
    keep(counted, bucket);
  });

  function take(counted: Counted) {
    const bucket = bucketOf(counted);
    const allowed = bucket.tokens >= 1;
    if (allowed) bucket.tokens -= 1;
    keep(counted, bucket);
    if (allowed && counted.policy !== 'anonymous') shared?.counted(bucket.sharedName);
    return { allowed, tokens: bucket.tokens };
  }

  return {
    charge(response, counted) {
      const { allowed, tokens } = take(counted);
      setFields(response, counted, tokens);
      if (!allowed) throw rateLimited(RATES[counted.policy], tokens);
    },
    take(counted) {
      const { allowed, tokens } = take(counted);
      return allowed ? fieldsOf(counted, tokens) : undefined;
    },
    show(response, counted) {
      setFields(response, counted, bucketOf(counted).tokens);
    },
  };
}

const RATES: Readonly<Record<Policy, number>> = {
  anonymous: ANONYMOUS_REQUESTS_PER_SECOND,
  demo: TIERS.demo.requestsPerSecond,
  individual: TIERS.individual.requestsPerSecond,
  pro: TIERS.pro.requestsPerSecond,
};

function parseSharedName(text: string): Counted | undefined {
  const [policy = '', ...name] = text.split(' ');
  const tier = Object.hasOwn(TIERS, policy) ? (policy as Tier) : undefined;
  return tier === undefined ? undefined : { policy: tier, name: name.join(' ') };
}

function setFields(response: Response, counted: Counted, tokens: number): void {
  const [policyName, policy, limitName, limit] = fieldsOf(counted, tokens);
  response.setHeader(policyName, policy);
  response.setHeader(limitName, limit);
}

/** The fields as name and value in turn. */
function fieldsOf(counted: Counted, tokens: number): [string, string, string, string] {
  const { policy } = counted;
  const perSecond = RATES[policy];
  const left = Math.max(0, Math.floor(tokens));
  return [
    'RateLimit-Policy',
    `"${policy}";q=${perSecond};w=${WINDOW_SECONDS}`,
    'RateLimit',
    `"${policy}";r=${left};t=${secondsUntilFree(perSecond, tokens)}`,
  ];
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
