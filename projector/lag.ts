/**
 * How far the projector is behind LEDGER, for /readyz and Prometheus: messages between what is stored
 * and the end of the stream, and the age of the newest stored message. All owned partitions advance
 * together, so each of them has the same figures.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Gauge, type Registry } from 'prom-client';
import type { Reasons } from '../infra/metrics.ts';
import { type Nats, NatsUnavailableError, streamState } from '../infra/nats/connection.ts';
import { LEDGER_STREAM } from '../ingest/contract.ts';

/** Above this the api answers from figures that are too old to be called current. */
const READY_MESSAGES_MAX = 10_000;
const POLL_MS = 2_000;

/** Everything up to a LEDGER sequence is stored; `timeMs` is when JetStream had stored that message. */
export type Stored = { readonly sequence: number; readonly timeMs: number };

export type Lag = {
  /** Tells what is stored now. */
  stored(progress: Stored): void;
  notReady(): Reasons;
  /** Compares with the end of the stream every POLL_MS until the signal aborts. */
  watch(nats: Nats, signal: AbortSignal): Promise<void>;
};

export function createLag(registry: Registry, partitions: readonly number[]): Lag {
  let stored: Stored | undefined;
  let lastSequence: number | undefined;
  const behind = () => Math.max(0, (lastSequence ?? 0) - (stored?.sequence ?? 0));
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
  gauge('lag_messages', 'LEDGER messages that are not stored yet', behind);
  gauge(
    'stored_sequence',
    'LEDGER sequence up to which everything is stored',
    () => stored?.sequence ?? 0,
  );
  gauge('stored_age_seconds', 'age of the newest stored LEDGER message', () =>
    stored === undefined ? 0 : (Date.now() - stored.timeMs) / 1_000,
  );
  return {
    stored(progress) {
      stored = progress;
    },
    notReady() {
      if (lastSequence === undefined) return { projection: 'starting' };
      if (behind() <= READY_MESSAGES_MAX) return {};
      return { projection: `${behind()} messages behind` };
    },
    async watch(nats, signal) {
      while (!signal.aborted) {
        try {
          ({ lastSequence } = await streamState(nats, LEDGER_STREAM));
        } catch (error) {
          if (!(error instanceof NatsUnavailableError)) throw error;
        }
        await delay(POLL_MS, undefined, { signal }).catch(() => undefined);
      }
    },
  };
}
