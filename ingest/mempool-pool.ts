/**
 * The pool by polling, for a node that pushes no pending transactions: each poll reads all of it and
 * passes on what the poll before did not hold. Costs the node a whole pool a poll, so the pause grows
 * with the time that a poll takes.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { MempoolNode } from './mempool-node.ts';

const POLL_MS = 250;
/** The pause is at least this many times the duration of the poll. */
const REST_FACTOR = 2;
const FAILED_MS = 2_000;

/** Polls until the signal aborts. Never rejects: a poll that fails is the caller's to count. */
export async function pollPool(options: {
  readonly node: Pick<MempoolNode, 'pool'>;
  readonly signal: AbortSignal;
  readonly onBody: (body: object) => void;
  /** Called when the pool cannot be read; it is tried again. */
  readonly onFailure: (error: unknown) => void;
}): Promise<void> {
  const { node, signal, onBody, onFailure } = options;
  let known: ReadonlyMap<string, object> = new Map();
  while (!signal.aborted) {
    const startedAt = performance.now();
    let waitMs = FAILED_MS;
    try {
      const pool = await node.pool();
      if (signal.aborted) return;
      for (const [hash, body] of pool) if (!known.has(hash)) onBody(body);
      known = pool;
      waitMs = Math.max(POLL_MS, (performance.now() - startedAt) * REST_FACTOR);
    } catch (error) {
      if (signal.aborted) return;
      onFailure(error);
    }
    await delay(waitMs, undefined, { signal }).catch(() => undefined);
  }
}
