/**
 * Rate limits. There is a token bucket for each key, for each account and tier, for each remote address without a valid
 * key, and for each visitor. A bucket holds one second of requests. Every response has the `RateLimit` and
 * `RateLimit-Policy` headers of draft-ietf-httpapi-ratelimit-headers. Every SHARE_MS, each api process reports the requests
 * that it admitted. The other processes deduct them from their own buckets, which may go into debt. In any t seconds, n
 * processes admit at most rate · t + n · rate requests of a key or account, and on average never more than the rate, except
 * while NATS is unavailable. Each process counts addresses on its own.
 */
import { randomUUID } from 'node:crypto';
import type { Response } from 'express';
import { LRUCache } from 'lru-cache';
import { z } from 'zod';
import type { Nats } from '../../infra/nats/connection.ts';
import { parseValue } from '../../infra/nats/kv.ts';
import type { Tier } from '../http/caller.ts';
import { Problem } from '../http/errors.ts';
import { ANONYMOUS_REQUESTS_PER_SECOND, TIERS } from './tiers.ts';

/** A key, an account, a remote address without a valid key, or a visitor. */
export type Counted = {
  readonly name: string;
  readonly policy: Tier | `${Tier}-account` | 'anonymous' | 'public';
};

export type Limits = ReturnType<typeof createLimits>;

type Policy = Counted['policy'];
type Bucket = { readonly name: string; readonly policy: Policy; tokens: number; atMs: number };

const WINDOW_SECONDS = 1;
/** Buckets of callers, and of addresses. Evicting the least recently used ones forgives at most their debt. */
const BUCKETS_MAX = 100_000;
/** Maximum debt of a bucket, in seconds of its rate, so that a stopped clock never locks anyone out for long. */
const DEBT_SECONDS_MAX = 10;

const RATES: Readonly<Record<Policy, number>> = {
  anonymous: ANONYMOUS_REQUESTS_PER_SECOND,
  public: TIERS.demo.accountRequestsPerSecond,
  demo: TIERS.demo.requestsPerSecond,
  individual: TIERS.individual.requestsPerSecond,
  pro: TIERS.pro.requestsPerSecond,
  'demo-account': TIERS.demo.accountRequestsPerSecond,
  'individual-account': TIERS.individual.accountRequestsPerSecond,
  'pro-account': TIERS.pro.accountRequestsPerSecond,
};

/** The policies that count addresses instead of keys. */
const OF_ADDRESSES: ReadonlySet<Policy> = new Set(['anonymous', 'public']);

/** The policies as written in the headers. */
const POLICIES = Object.fromEntries(
  Object.entries(RATES).map(([policy, rate]) => [
    policy,
    `"${policy}";q=${rate};w=${WINDOW_SECONDS}`,
  ]),
) as Readonly<Record<Policy, string>>;

export function createLimits(
  options: {
    /** Milliseconds of a monotonic clock. */
    readonly now?: () => number;
    readonly shared?: Pick<SharedCounts, 'counted' | 'onOthers'> | undefined;
  } = {},
) {
  const { now = () => performance.now(), shared } = options;
  // Separate caches, so that requests from many addresses never evict an account's bucket.
  const addresses = new LRUCache<string, Bucket>({ max: BUCKETS_MAX });
  const callers = new LRUCache<string, Bucket>({ max: BUCKETS_MAX });

  /** The bucket, refilled up to now. An account with keys of two tiers has two buckets. */
  function bucketOf(counted: Counted): Bucket {
    const { policy } = counted;
    const buckets = OF_ADDRESSES.has(policy) ? addresses : callers;
    const name = sharedName(counted);
    const atMs = now();
    const bucket = buckets.get(name);
    if (bucket === undefined) {
      const full = { name, policy, tokens: RATES[policy], atMs };
      buckets.set(name, full);
      return full;
    }
    const refill = ((atMs - bucket.atMs) / 1000) * RATES[policy];
    bucket.tokens = Math.min(RATES[policy], bucket.tokens + refill);
    bucket.atMs = atMs;
    return bucket;
  }

  shared?.onOthers((name, count) => {
    const counted = parseSharedName(name);
    if (counted === undefined) return;
    const bucket = bucketOf(counted);
    const debtMax = RATES[counted.policy] * DEBT_SECONDS_MAX;
    bucket.tokens = Math.max(bucket.tokens - count, -debtMax);
  });

  return {
    /** Takes one request from each bucket and sets the headers. Throws Problem 429 if a bucket is empty. */
    charge(response: Response, all: readonly Counted[]): void {
      const buckets = all.map(bucketOf);
      const used = buckets.find(({ tokens }) => tokens < 1);
      if (used === undefined) for (const bucket of buckets) bucket.tokens -= 1;
      setHeaders(response, buckets);
      if (used !== undefined) throw rateLimited(used);
      for (const { name, policy } of buckets) {
        if (!OF_ADDRESSES.has(policy)) shared?.counted(name);
      }
    },
    /** Sets the headers without counting a request, for probes. */
    show(response: Response, all: readonly Counted[]): void {
      setHeaders(response, all.map(bucketOf));
    },
  };
}

/** `RateLimit-Policy` lists every policy, `RateLimit` the one with the fewest requests left. */
function setHeaders(response: Response, buckets: readonly Bucket[]): void {
  response.setHeader('RateLimit-Policy', buckets.map(({ policy }) => POLICIES[policy]).join(', '));
  const { policy, tokens } = buckets.reduce((a, b) => (b.tokens < a.tokens ? b : a));
  const left = Math.max(0, Math.floor(tokens));
  response.setHeader(
    'RateLimit',
    `"${policy}";r=${left};t=${secondsUntilFree(RATES[policy], tokens)}`,
  );
}

function rateLimited({ policy, tokens }: Bucket): Problem {
  const rate = RATES[policy];
  const whose = policy.endsWith('-account') ? 'of this account' : 'with this key';
  const without = policy === 'public' ? 'without a key' : 'without a valid key';
  return new Problem({
    error: 'rate_limited',
    detail: `more than ${rate} requests per second ${OF_ADDRESSES.has(policy) ? without : whose}`,
    headers: { 'Retry-After': String(secondsUntilFree(rate, tokens)) },
  });
}

/** Whole seconds until a request is admitted again, rounded up; at least one window. */
function secondsUntilFree(perSecond: number, tokens: number): number {
  return Math.max(WINDOW_SECONDS, Math.ceil((1 - tokens) / perSecond));
}

function sharedName({ policy, name }: Counted): string {
  return `${policy} ${name}`;
}

function parseSharedName(text: string): Counted | undefined {
  const [policy = '', ...name] = text.split(' ');
  if (!Object.hasOwn(RATES, policy) || OF_ADDRESSES.has(policy as Policy)) return undefined;
  return { policy: policy as Policy, name: name.join(' ') };
}

/** Followed by the id of the sending process. */
const SUBJECT = 'fillstream.api.counted.';
const SHARE_MS = 50;
/** Keeps a message under NATS's maximum of 1 MB. The next message has the rest. */
const NAMES_MAX = 1_000;

/** Pairs, because an object with a thousand names is slow to parse. */
const Counts = z.array(z.tuple([z.string(), z.int().min(1)]));

export type SharedCounts = ReturnType<typeof shareCounts>;

/**
 * Exchanges counts with the other api processes over plain NATS. During an outage each process counts alone, so the rate
 * is inexact for that time.
 */
export function shareCounts(nats: Pick<Nats, 'connection' | 'connected'>) {
  const own = SUBJECT + randomUUID();
  const unsent = new Map<string, number>();
  let listener: (name: string, count: number) => void = () => undefined;

  const subscription = nats.connection.subscribe(`${SUBJECT}*`, {
    callback: (error, message) => {
      if (error !== null || message.subject === own) return;
      for (const [name, count] of parseValue(Counts, message.data) ?? []) listener(name, count);
    },
  });

  const timer = setInterval(() => {
    if (unsent.size === 0 || !nats.connected) return;
    const counts = [...unsent].slice(0, NAMES_MAX);
    for (const [name] of counts) unsent.delete(name);
    nats.connection.publish(own, JSON.stringify(counts));
  }, SHARE_MS);
  timer.unref();

  return {
    /** Records a request that this process admitted. */
    counted(name: string): void {
      // The counts of an outage, deducted at once, would lock out callers who kept to their rate.
      if (!nats.connected) return;
      unsent.set(name, (unsent.get(name) ?? 0) + 1);
    },
    /** Sets the listener for requests that other processes admitted. */
    onOthers(callback: (name: string, count: number) => void): void {
      listener = callback;
    },
    close(): void {
      clearInterval(timer);
      subscription.unsubscribe();
    },
  };
}
