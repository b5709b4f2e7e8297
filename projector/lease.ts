/**
 * Leases in JetStream KV. Instance i of n owns the partitions p with p mod n = i. A lease on each partition prevents
 * projectors with overlapping configurations from writing it at the same time. If a projector stops, or dies on this
 * machine, its successor takes over at once. If it dies elsewhere, its leases must expire first.
 *
 * A rebuild or a backup pauses the projectors by holding PAUSE_KEY. A projector then finishes its writes, releases its
 * partitions and waits. The pause ends when its holder is done or dead.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { ExpectedError } from '../infra/expected.ts';
import { type Nats, NatsUnavailableError } from '../infra/nats/connection.ts';
import { type Kv, KvConflictError, openKv } from '../infra/nats/kv.ts';
import { PARTITIONS } from '../ingest/contract.ts';

/** Leases of the projectors, by partition. */
export const PROJECTORS_BUCKET = 'projectors';
/** While this lease is held, no projector may own a partition. */
export const PAUSE_KEY = 'pause';
/** Held by a running rebuild, of which there may be only one. */
export const REBUILD_KEY = 'rebuild';

/**
 * Lifetime of a lease that is not renewed. Longer than a process may go without CPU: with 3 s, projectors on two cores
 * shared with 30 other processes kept losing their leases.
 */
export const LEASE_TTL_MS = 10_000;
const RENEW_MS = 1_000;
const POLL_MS = 250;

export function openLeases(nats: Nats, replicas: number): Promise<Kv> {
  return openKv(nats, PROJECTORS_BUCKET, { ttlMs: LEASE_TTL_MS, replicas });
}

/** Partitions of instance `index` of `count`, ascending. */
export function partitionsOf(index: number, count: number): readonly number[] {
  return Array.from({ length: PARTITIONS }, (_, partition) => partition).filter(
    (partition) => partition % count === index,
  );
}

/** A lease expired or was taken over: another process may own its resource. */
export class LeaseLostError extends ExpectedError {}

/** Another process held a lease for longer than `patienceMs`; the message names that process. */
class LeaseTakenError extends ExpectedError {}

export type LeaseOptions = {
  readonly kv: Kv;
  /** The key of a partition is its number. */
  readonly keys: readonly (number | string)[];
  readonly holder: string;
  readonly logger: Logger;
  /** Aborting ends the wait for the leases; it does not release them. */
  readonly signal: AbortSignal;
  /** Called when another process holds a lease, before the wait for it. */
  readonly onTaken?: () => void;
  /** How long to wait for all leases; forever by default. */
  readonly patienceMs?: number;
};

export type Held = {
  /** Throws LeaseLostError unless it is certain that we still hold every lease. */
  assertHeld(): void;
  /** Aborts when a lease is lost or cannot be renewed, with the error. */
  readonly lost: AbortSignal;
};

/**
 * Acquires the leases of all `keys`, renews them while `work` runs and releases them afterwards. Throws
 * LeaseTakenError, LeaseLostError and the errors of `work`.
 */
export async function withLeases<T>(
  options: LeaseOptions,
  work: (held: Held) => Promise<T>,
): Promise<T> {
  const { kv, holder } = options;
  const revisions = await takeAll(options);
  const done = new AbortController();
  const lost = new AbortController();
  let renewedAt = performance.now();
  const renewing = (async () => {
    while (!done.signal.aborted) {
      await delay(RENEW_MS, undefined, { signal: done.signal }).catch(() => undefined);
      if (done.signal.aborted) return;
      const startedAt = performance.now();
      await renew(kv, revisions, holder);
      renewedAt = startedAt;
    }
  })().catch((error: unknown) => lost.abort(error));
  try {
    const result = await work({
      lost: lost.signal,
      assertHeld() {
        lost.signal.throwIfAborted();
        if (performance.now() - renewedAt > LEASE_TTL_MS) {
          throw new LeaseLostError('the leases were not renewed in time');
        }
      },
    });
    lost.signal.throwIfAborted();
    return result;
  } finally {
    done.abort();
    await renewing;
    await release(kv, revisions);
  }
}

/** Resolves once no pause is requested or the signal aborts, with true if it had to wait. */
export async function pauseLifted(kv: Kv, signal: AbortSignal): Promise<boolean> {
  let waited = false;
  while (!signal.aborted && (await isPauseRequested(kv)) !== false) {
    waited = true;
    await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
  return waited;
}

/** Resolves once a pause is requested or the signal aborts. */
export async function pauseRequested(kv: Kv, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await isPauseRequested(kv)) !== true) {
    await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** The value of a lease: a readable name, and what is needed to detect that the holder is dead. */
export function leaseHolder(name: string): string {
  return `${name} on ${hostname()}, process ${process.pid} of ${processSpace()}`;
}

async function takeAll(options: LeaseOptions): Promise<Map<string, number>> {
  const { kv, keys, holder, logger, signal, onTaken } = options;
  const { patienceMs = Number.POSITIVE_INFINITY } = options;
  const revisions = new Map<string, number>();
  const giveUpAt = performance.now() + patienceMs;
  try {
    for (const key of keys.map(String)) {
      let isTaken = false;
      for (let logged = false; ; logged = true) {
        const revision = await take(kv, key, holder);
        if (revision !== undefined) {
          revisions.set(key, revision);
          break;
        }
        if (performance.now() > giveUpAt) {
          throw new LeaseTakenError(`${key} is held by ${await holderOf(kv, key)}`);
        }
        if (!logged) logger.info({ key }, 'another process holds the lease, waiting');
        // After an outage, it may still be our own.
        if (!isTaken && (await holderOf(kv, key)) !== holder) {
          isTaken = true;
          onTaken?.();
        }
        await delay(POLL_MS, undefined, { signal });
        await renew(kv, revisions, holder);
      }
    }
    return revisions;
  } catch (error) {
    await release(kv, revisions);
    throw error;
  }
}

async function take(kv: Kv, key: string, holder: string): Promise<number | undefined> {
  try {
    return await kv.create(key, holder);
  } catch (error) {
    if (!(error instanceof KvConflictError)) throw error;
  }
  const held = await kv.get(key);
  if (held === undefined || !isDead(new TextDecoder().decode(held.value))) return undefined;
  try {
    return await kv.update(key, holder, held.revision);
  } catch (error) {
    if (!(error instanceof KvConflictError)) throw error;
    return undefined;
  }
}

async function renew(kv: Kv, revisions: Map<string, number>, holder: string): Promise<void> {
  await Promise.all(
    [...revisions].map(async ([key, revision]) => {
      try {
        revisions.set(key, await kv.update(key, holder, revision));
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
        throw new LeaseLostError(`the lease of ${key} was taken over`);
      }
    }),
  );
}

async function release(kv: Kv, revisions: ReadonlyMap<string, number>): Promise<void> {
  await Promise.allSettled([...revisions].map(([key, revision]) => kv.delete(key, revision)));
}

async function holderOf(kv: Kv, key: string): Promise<string> {
  const entry = await kv.get(key);
  return entry === undefined
    ? 'a process that just released it'
    : new TextDecoder().decode(entry.value);
}

/** Undefined while NATS does not respond. */
async function isPauseRequested(kv: Kv): Promise<boolean | undefined> {
  try {
    const entry = await kv.get(PAUSE_KEY);
    return entry !== undefined && !isDead(new TextDecoder().decode(entry.value));
  } catch (error) {
    if (!(error instanceof NatsUnavailableError)) throw error;
    return undefined;
  }
}

/** True if the holder was a process of this machine that no longer exists; false when in doubt. */
function isDead(holder: string): boolean {
  const [, pid, space] = / process (\d+) of (\S+)$/.exec(holder) ?? [];
  if (pid === undefined || space === UNKNOWN_SPACE || space !== processSpace()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}

const UNKNOWN_SPACE = 'unknown';

/** Where a process id is unique: in one PID namespace during one boot. Available on Linux only. */
function processSpace(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}/${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return UNKNOWN_SPACE;
  }
}
