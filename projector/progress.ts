/**
 * Metrics and readiness of the projector: its writes, and its lag behind LEDGER in blocks and in seconds of the
 * chain's time. All owned partitions advance together, so they share the same figures.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { storeFault } from '../infra/clickhouse.ts';
import { labelledCounter, type Reasons } from '../infra/metrics-server.ts';
import { type Nats, NatsUnavailableError } from '../infra/nats/connection.ts';
import { retry } from '../infra/retry.ts';
import { lastBlock, newestMessage, UnreadableLedgerError } from '../ingest/ledger/ledger.ts';
import { RESULTS } from './compare-balances.ts';
import { LeaseLostError } from './lease.ts';
import { ForgottenBatchError } from './store.ts';

/** The projector is not ready if it is more blocks than this behind, about ten minutes. */
const READY_BLOCKS_MAX = 300;
const POLL_MS = 2_000;

/** A block up to whose end everything is folded or stored; `time` in seconds since the epoch. */
export type Reached = { readonly block: number; readonly time: number };

/** Operations that are retried: the values of the label `what`. */
const RETRIED = ['heal', 'restore', 'facts', 'batch', 'checkpoint', 'LEDGER', 'metadata'] as const;

export type ProjectorMetrics = ReturnType<typeof projectorMetrics>;

export function projectorMetrics(registry: Registry) {
  const registers = [registry];
  return {
    batchRows: new Histogram({
      name: 'fillstream_projector_batch_rows',
      help: 'rows of an insert into bookings',
      buckets: [1, 3, 10, 30, 100, 300, 1_000, 3_000, 10_000],
      registers,
    }),
    insertSeconds: new Histogram({
      name: 'fillstream_projector_insert_seconds',
      help: 'time to insert a batch into bookings and all of its views, including retries',
      buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120],
      registers,
    }),
    healed: new Counter({
      name: 'fillstream_projector_healed_batches_total',
      help: 'batches that were inserted again after a restart; ClickHouse drops rows that it already has',
      registers,
    }),
    retries: labelledCounter(
      registry,
      'fillstream_projector_retries_total',
      'failed reads and writes that were retried, by operation',
      'what',
      RETRIED,
    ),
    /** Errors of the operations that are being retried, by operation. */
    failing: new Map<string, string>(),
    openings: new Counter({
      name: 'fillstream_openings_total',
      help: 'bookings of shares that a wallet must have had before anything was read of it',
      registers,
    }),
    compared: labelledCounter(
      registry,
      'fillstream_balances_compared_total',
      'balances of shares on the chain that were compared with what was booked; more is a defect',
      'result',
      RESULTS,
    ),
    unreadable: new Counter({
      name: 'fillstream_projector_unreadable_total',
      help: 'METADATA messages that could not be read, which means a bug',
      registers,
    }),
  };
}

/** Retries until it succeeds or the signal aborts. Unreadable LEDGER messages are not retried. */
export async function retryLogged<T>(
  options: {
    readonly logger: Logger;
    readonly metrics?: ProjectorMetrics;
    readonly signal: AbortSignal;
  },
  what: (typeof RETRIED)[number],
  attempt: () => Promise<T>,
): Promise<T> {
  const { logger, metrics, signal } = options;
  try {
    return await retry(attempt, {
      signal,
      isRetryable: (error) =>
        !(
          error instanceof UnreadableLedgerError ||
          error instanceof ForgottenBatchError ||
          error instanceof LeaseLostError
        ),
      onRetry(error) {
        metrics?.retries.inc({ what });
        metrics?.failing.set(what, storeFault(error));
        logger.warn({ err: error, what }, 'failed, retrying');
      },
    });
  } finally {
    metrics?.failing.delete(what);
  }
}

export type Lag = ReturnType<typeof createLag>;

export function createLag(registry: Registry, partitions: readonly number[]) {
  let stored: Reached | undefined;
  let newest: Reached | undefined;
  let isWatching = false;
  let isStarting = true;
  let waitsFor: string | undefined;
  let stopped: { readonly reason: string; readonly block: number } | undefined;
  const blockedBy = () => stopped?.reason ?? waitsFor;
  const behind = (of: keyof Reached) => Math.max(0, (newest?.[of] ?? 0) - (stored?.[of] ?? 0));
  const gauge = (name: string, help: string, value: () => number) =>
    new Gauge({
      name: `fillstream_projector_${name}`,
      help,
      labelNames: ['partition'],
      registers: [registry],
      collect() {
        for (const partition of partitions) this.set({ partition }, value());
      },
    });
  gauge('lag_blocks', 'blocks of LEDGER that are not stored yet', () => behind('block'));
  gauge('lag_seconds', 'chain time between the newest stored block and the newest of LEDGER', () =>
    behind('time'),
  );
  gauge('stored_block', 'block up to which everything is stored', () => stored?.block ?? 0);
  gauge('blocked', '1 while LEDGER cannot be projected; /readyz says why', () =>
    blockedBy() === undefined ? 0 : 1,
  );
  return {
    /** Time of the newest stored block, seconds since the epoch; 0 if there is none. */
    get reachedTime(): number {
      return stored?.time ?? 0;
    },
    /** Block up to which everything is stored; undefined until this is known of the tables as they are now. */
    get storedBlock(): number | undefined {
      return isStarting ? undefined : stored?.block;
    },
    /** Call this when projecting begins, maybe on other tables than before. */
    start(): void {
      isStarting = true;
    },
    /** Call this when everything up to a block is stored. */
    stored(reached: Reached): void {
      isStarting = false;
      stored = reached;
      if (stopped !== undefined && reached.block > stopped.block) stopped = undefined;
    },
    /** Sets the reason why the projector cannot read LEDGER yet, for /readyz; undefined when it can. */
    waits(reason: string | undefined): void {
      waitsFor = reason;
    },
    /** Sets the reason why the projector stopped, for /readyz, until it stores a newer block. */
    stopped(reason: string): void {
      stopped = { reason, block: stored?.block ?? -1 };
    },
    notReady(): Reasons {
      const reason = blockedBy();
      if (reason !== undefined) return { projection: reason };
      if (!isWatching) return { projection: 'starting' };
      if (newest === undefined) return {};
      if (stored === undefined) return { projection: 'nothing is stored yet' };
      const blocks = behind('block');
      return blocks <= READY_BLOCKS_MAX ? {} : { projection: `${blocks} blocks behind` };
    },
    /** Compares with the end of LEDGER every POLL_MS until the signal aborts. */
    async watch(nats: Nats, signal: AbortSignal): Promise<void> {
      while (!signal.aborted) {
        try {
          const range = (await newestMessage(nats))?.range;
          isWatching = true;
          if (range?.kind === 'blocks') newest = { block: range.to, time: lastBlock(range).time };
        } catch (error) {
          const isTransient =
            error instanceof NatsUnavailableError || error instanceof UnreadableLedgerError;
          if (!isTransient) throw error;
        }
        await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
