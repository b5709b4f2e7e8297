/**
 * Which LEDGER partitions a projector owns. Instance i of n owns the partitions p with p mod n = i; a
 * lease for each of them in JetStream KV keeps two projectors with overlapping configurations apart.
 * A projector that was killed is succeeded when its leases expire, one that was stopped at once.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type Kv, KvConflictError } from '../infra/nats-kv.ts';
import { PARTITIONS } from '../ingest/contract.ts';

/** The bucket's entries live this long; set where the bucket is opened. */
export const LEASE_TTL_MS = 3_000;
const RENEW_MS = 1_000;
const TAKE_RETRY_MS = 250;

/** Partitions of instance `index` of `count`, ascending. */
export function partitionsOf(index: number, count: number): readonly number[] {
  return Array.from({ length: PARTITIONS }, (_, partition) => partition).filter(
    (partition) => partition % count === index,
  );
}

/** A lease expired or was taken over: another projector may own the partition now. */
export class LeaseLostError extends Error {}

export type Leases = {
  /** Throws LeaseLostError unless every lease is certainly still ours. */
  assertHeld(): void;
  /** Resolves when the signal aborts and the leases are given back; rejects with LeaseLostError. */
  readonly kept: Promise<void>;
};

/** Waits until all partitions are ours, then renews their leases until the signal aborts. */
export async function takeLeases(options: {
  readonly kv: Kv;
  readonly partitions: readonly number[];
  readonly holder: string;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}): Promise<Leases> {
  const { kv, partitions, holder, logger, signal } = options;
  const revisions = new Map<number, number>();
  for (const partition of partitions) {
    for (let told = false; ; told = true) {
      const revision = await take(kv, partition, holder);
      if (revision !== undefined) {
        revisions.set(partition, revision);
        break;
      }
      if (!told) logger.info({ partition }, 'another projector owns the partition, waiting');
      await delay(TAKE_RETRY_MS, undefined, { signal });
      await renew(kv, revisions, holder);
    }
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
    for (const [partition, revision] of revisions) {
      await kv.delete(String(partition), revision).catch(() => undefined);
    }
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
}

async function take(kv: Kv, partition: number, holder: string): Promise<number | undefined> {
  try {
    return await kv.create(String(partition), holder);
  } catch (error) {
    if (!(error instanceof KvConflictError)) throw error;
    return undefined;
  }
}

async function renew(kv: Kv, revisions: Map<number, number>, holder: string): Promise<void> {
  await Promise.all(
    [...revisions].map(async ([partition, revision]) => {
      try {
        revisions.set(partition, await kv.update(String(partition), holder, revision));
      } catch (error) {
        if (!(error instanceof KvConflictError)) throw error;
        throw new LeaseLostError(`partition ${partition} was taken over`);
      }
    }),
  );
}
