/**
 * How far the projector is behind LEDGER, for /readyz and Prometheus, in blocks and in seconds of the chain's
 * time. All owned partitions advance together, so each of them has the same figures.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Reasons } from '../infra/metrics.ts';
import { type Nats, NatsUnavailableError } from '../infra/nats/connection.ts';
import { lastBlock, newestMessage, UnreadableLedgerError } from '../ingest/ledger.ts';
import type { Reached } from './queue.ts';

/** Above this, about ten minutes, the figures of the api are too old to be called current. */
const READY_BLOCKS_MAX = 300;
const POLL_MS = 2_000;

export type Lag = {
  /** Reports what is stored now. */
  stored(reached: Reached): void;
  /** Why nothing is projected, for /readyz; undefined when it is. */
  blocked(reason: string | undefined): void;
  notReady(): Reasons;
  /** Compares with the end of LEDGER every POLL_MS until the signal aborts. */
  watch(nats: Nats, signal: AbortSignal): Promise<void>;
};

export function createLag(registry: Registry, partitions: readonly number[]): Lag {
  let stored: Reached | undefined;
  let newest: Reached | undefined;
  let isWatching = false;
  let reason: string | undefined;
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
  gauge(
    'lag_seconds',
    'by how much the newest block of LEDGER is newer than the newest stored one',
    () => behind('time'),
  );
  gauge('stored_block', 'block up to which everything is stored', () => stored?.block ?? 0);
  gauge('stored_age_seconds', 'age of the newest stored block', () =>
    stored === undefined ? 0 : Date.now() / 1_000 - stored.time,
  );
  gauge('blocked', '1 while LEDGER cannot be projected; /readyz says why', () =>
    reason === undefined ? 0 : 1,
  );
  return {
    stored(reached) {
      stored = reached;
    },
    blocked(why) {
      reason = why;
    },
    notReady() {
      if (reason !== undefined) return { projection: reason };
      if (!isWatching) return { projection: 'starting' };
      if (newest === undefined) return {};
      if (stored === undefined) return { projection: 'nothing is stored yet' };
      const blocks = behind('block');
      return blocks <= READY_BLOCKS_MAX ? {} : { projection: `${blocks} blocks behind` };
    },
    async watch(nats, signal) {
      while (!signal.aborted) {
        try {
          const range = (await newestMessage(nats))?.range;
          isWatching = true;
          if (range?.kind === 'blocks') newest = { block: range.to, time: lastBlock(range).time };
        } catch (error) {
          const passes =
            error instanceof NatsUnavailableError || error instanceof UnreadableLedgerError;
          if (!passes) throw error;
        }
        await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
