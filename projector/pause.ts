/**
 * A rebuild asks the projectors to pause: it holds the lease PAUSE_KEY in the bucket of the partition
 * leases. A paused projector has finished what it was storing, given its partitions back and waits.
 * It ends with the rebuild, dead or done, so nobody has to lift the pause.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { NatsUnavailableError } from '../infra/nats/connection.ts';
import type { Kv } from '../infra/nats/kv.ts';
import { isDead } from './lease.ts';

/** Held while no projector may own a partition. */
export const PAUSE_KEY = 'pause';
/** Held by the one rebuild that runs. */
export const REBUILD_KEY = 'rebuild';
/** Asking costs the server one direct get. */
const POLL_MS = 250;

/** Resolves when nobody asks for a pause, or the signal aborts; tells whether it had to wait. */
export async function pauseLifted(kv: Kv, signal: AbortSignal): Promise<boolean> {
  let waited = false;
  while (!signal.aborted && (await isAsked(kv)) !== false) {
    waited = true;
    await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
  return waited;
}

/** Resolves when a pause is asked for, or the signal aborts. */
export async function pauseAsked(kv: Kv, signal: AbortSignal): Promise<void> {
  while (!signal.aborted && (await isAsked(kv)) !== true) {
    await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
  }
}

/** Undefined while NATS does not answer. */
async function isAsked(kv: Kv): Promise<boolean | undefined> {
  try {
    const asked = await kv.get(PAUSE_KEY);
    return asked !== undefined && !isDead(new TextDecoder().decode(asked.value));
  } catch (error) {
    if (!(error instanceof NatsUnavailableError)) throw error;
    return undefined;
  }
}
