/**
 * Which LEDGER partitions a projector owns. Instance i of n owns the partitions p with p mod n = i; a
 * lease for each of them in JetStream KV keeps two projectors with overlapping configurations apart.
 * A projector that was stopped is succeeded at once, so is one that died on this machine; one that died
 * elsewhere when its leases expire.
 */
import { readFileSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Kv, KvConflictError } from '../infra/nats/kv.ts';
import { PARTITIONS } from '../ingest/contract.ts';

/** Leases of the projectors, by partition. */
export const PROJECTORS_BUCKET = 'projectors';

/**
 * The bucket's entries live this long; set where the bucket is opened. Longer than a process without
 * CPU stands still: with 3 s, 30 others on two cores took the leases away again and again.
 */
export const LEASE_TTL_MS = 10_000;
const RENEW_MS = 1_000;
const TAKE_RETRY_MS = 250;

/** Partitions of instance `index` of `count`, ascending. */
export function partitionsOf(index: number, count: number): readonly number[] {
  return Array.from({ length: PARTITIONS }, (_, partition) => partition).filter(
    (partition) => partition % count === index,
  );
}

/** A lease expired or was taken over: another process may own what it stands for. */
export class LeaseLostError extends Error {}

/** Somebody else held a lease for longer than `patienceMs`; the message says who. */
export class LeaseTakenError extends Error {}

export type Leases = {
  /** Throws LeaseLostError unless every lease is certainly still ours. */
  assertHeld(): void;
  /** Resolves when the signal aborts and the leases are given back; rejects with LeaseLostError. */
  readonly kept: Promise<void>;
};

/**
 * Waits until all `keys` are ours, then renews their leases until the signal aborts. A partition's key
 * is its number. Throws LeaseTakenError when others hold one for longer than `patienceMs`.
 */
export async function takeLeases(options: {
  readonly kv: Kv;
  readonly keys: readonly (number | string)[];
  readonly holder: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** How long to wait for all of them; for ever by default. */
  readonly patienceMs?: number;
}): Promise<Leases> {
  const { kv, keys, holder, logger, signal, patienceMs = Number.POSITIVE_INFINITY } = options;
  const revisions = new Map<string, number>();
  const startedAt = performance.now();
  try {
    for (const key of keys.map(String)) await takeOne(key);
  } catch (error) {
    await giveBack(kv, revisions);
    throw error;
  }
  let renewedAt = performance.now();
  const keep = async () => {
    while (!signal.aborted) {
      await delay(RENEW_MS, undefined, { signal }).catch(() => undefined);
      if (signal.aborted) break;
      const startedAt = performance.now();
      await renew(kv, revisions, holder);
      renewedAt = startedAt;
    }
    await giveBack(kv, revisions);
  };
  const kept = keep();
  // Reported by whoever awaits it; until then a rejection is no accident.
  kept.catch(() => undefined);
  return {
    kept,
    assertHeld() {
      if (performance.now() - renewedAt > LEASE_TTL_MS) {
        throw new LeaseLostError('the leases were not renewed in time');
      }
    },
  };

  async function takeOne(key: string): Promise<void> {
    for (let told = false; ; told = true) {
      const revision = await take(kv, key, holder);
      if (revision !== undefined) {
        revisions.set(key, revision);
        return;
      }
      if (performance.now() - startedAt > patienceMs) {
        throw new LeaseTakenError(`${key} is held by ${await holderOf(kv, key)}`);
      }
      if (!told) logger.info({ key }, 'another process holds the lease, waiting');
      await delay(TAKE_RETRY_MS, undefined, { signal });
      await renew(kv, revisions, holder);
    }
  }
}

/** What a lease's value says of who holds it: a name for people, and how to see that it is dead. */
export function leaseHolder(name: string): string {
  return `${name} on ${hostname()}, process ${process.pid} of ${processSpace()}`;
}

/** Whether the holder was a process of this machine that is there no more; false when in doubt. */
export function isDead(holder: string): boolean {
  const [, pid, space] = / process (\d+) of (\S+)$/.exec(holder) ?? [];
  if (pid === undefined || space === NOWHERE || space !== processSpace()) return false;
  try {
    process.kill(Number(pid), 0);
    return false;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'ESRCH';
  }
}

const NOWHERE = 'unknown';

/** In which process ids mean the same: one boot of one machine, one namespace. Only Linux tells. */
function processSpace(): string {
  try {
    const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim();
    return `${boot}/${readlinkSync('/proc/self/ns/pid')}`;
  } catch {
    return NOWHERE;
  }
}

async function giveBack(kv: Kv, revisions: ReadonlyMap<string, number>): Promise<void> {
  for (const [key, revision] of revisions) await kv.delete(key, revision).catch(() => undefined);
}

async function holderOf(kv: Kv, key: string): Promise<string> {
  const entry = await kv.get(key);
  return entry === undefined
    ? 'somebody who just gave it back'
    : new TextDecoder().decode(entry.value);
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
