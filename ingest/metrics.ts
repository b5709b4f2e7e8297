/**
 * Prometheus metrics and readiness of ingest: the pending side, metadata, and publishing. A metadata API
 * that is down does not make ingest unready, because fills are published without texts;
 * `fillstream_metadata_degraded` reports it.
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { Reasons } from '../infra/metrics.ts';
import type { Nats } from '../infra/nats/connection.ts';
import type { StreamWriter } from '../infra/nats/writer.ts';
import type { Balances } from './balances.ts';
import type { Gamma } from './gamma.ts';
import type { Metadata } from './metadata.ts';

/** From a push to a block: Polygon takes about 2 s, and 2 to 5 s more until that is final. */
const SECONDS_BUCKETS = [0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300];
/** JetStream acknowledges within milliseconds; a server that restarts takes some seconds. */
const UNSTORED_MS_MAX = 5_000;

export type PendingMetrics = ReturnType<typeof pendingMetrics>;

export function pendingMetrics(registry: Registry) {
  const registers = [registry];
  return {
    shown: new Counter({
      name: 'fillstream_feed_matches_shown_total',
      help: 'matches shown in FEED, by where they were seen first',
      labelNames: ['source'],
      registers,
    }),
    source: new Gauge({
      name: 'fillstream_mempool_source',
      help: '1 for the current source of pending transactions',
      labelNames: ['source'],
      registers,
    }),
    refused: new Counter({
      name: 'fillstream_pending_calls_refused_total',
      help: 'pending calls to an exchange that were not shown, by reason',
      labelNames: ['reason'],
      registers,
    }),
    dropped: new Counter({
      name: 'fillstream_pending_pushes_dropped_total',
      help: 'pushed transactions or hashes that were dropped, by reason',
      labelNames: ['reason'],
      registers,
    }),
    ended: new Counter({
      name: 'fillstream_pending_matches_ended_total',
      help: 'matches shown before they were final, by outcome',
      labelNames: ['outcome'],
      registers,
    }),
    restored: new Counter({
      name: 'fillstream_pending_matches_restored_total',
      help: 'matches that were voided as never mined and then mined',
      registers,
    }),
    head: new Gauge({
      name: 'fillstream_head_block',
      help: 'newest block whose matches were read for FEED',
      registers,
    }),
    open: new Gauge({
      name: 'fillstream_pending_matches_open',
      help: 'matches that were shown and are not final yet',
      registers,
    }),
    toMined: new Histogram({
      name: 'fillstream_pending_to_mined_seconds',
      help: 'from the detection of a pending match to reading the block that holds it',
      buckets: SECONDS_BUCKETS,
      registers,
    }),
    toFinal: new Histogram({
      name: 'fillstream_pending_to_final_seconds',
      help: 'from the detection of a pending match to reading it in a final block',
      buckets: SECONDS_BUCKETS,
      registers,
    }),
    toFeed: new Histogram({
      name: 'fillstream_pending_to_feed_seconds',
      help: 'from the detection of a pending match until FEED has stored it',
      buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    }),
    differences: new Counter({
      name: 'fillstream_calldata_differences_total',
      help: 'fields of matches that differ between FEED and the final logs',
      labelNames: ['field'],
      registers,
    }),
  };
}

/** Sets the current source of pending transactions. */
export function setSource({ source }: PendingMetrics, name: string): void {
  source.reset();
  source.set({ source: name }, 1);
}

/** Registers the gauges of the metadata and of its requests. */
export function countMetadata(registry: Registry, metadata: Metadata, gamma: Gamma): void {
  const registers = [registry];
  const gauge = (name: string, help: string, value: () => number) => {
    new Gauge({
      name: `fillstream_metadata_${name}`,
      help,
      registers,
      collect() {
        this.set(value());
      },
    });
  };
  new Gauge({
    name: 'fillstream_metadata_requests',
    help: 'requests to the metadata API since the start, by outcome',
    labelNames: ['outcome'],
    registers,
    collect() {
      for (const [outcome, count] of gamma.outcomes) this.set({ outcome }, count);
    },
  });
  gauge('degraded', '1 while the metadata API does not answer', () => (gamma.downMs > 0 ? 1 : 0));
  gauge('down_seconds', 'for how long the metadata API has not answered', () => gamma.downMs / 1e3);
  gauge(
    'malformed',
    'markets, events and profiles that could not be parsed',
    () => gamma.malformed,
  );
  countMetadataCaches(registry, metadata);
  gauge('token_mismatches', 'markets with other tokens than the chain derives', () => {
    return metadata.state.mismatches;
  });
  gauge('tokens_awaited', 'tokens without a market that LEDGER waits for', () => {
    return metadata.state.tokensAwaited;
  });
  gauge('tokens_given_up', 'tokens without a market whose matches were refused', () => {
    return metadata.state.tokensGivenUp;
  });
  gauge('tokens_found_late', 'tokens given up whose market appeared later: rebuild', () => {
    return metadata.state.tokensFoundLate;
  });
}

function countMetadataCaches(registry: Registry, metadata: Metadata): void {
  const figures = {
    known: 'keys whose metadata is known',
    missing: 'keys that the metadata API does not know',
    waiting: 'keys that wait for an answer',
    dropped: 'keys not asked for because too many waited',
    oldest_wait_seconds: 'how long the first of the waiting keys has waited',
  };
  for (const [figure, help] of Object.entries(figures)) {
    new Gauge({
      name: `fillstream_metadata_${figure}`,
      help,
      labelNames: ['kind'],
      registers: [registry],
      collect() {
        for (const kind of ['listings', 'profiles'] as const) {
          const { oldestMs, ...counts } = metadata.state[kind];
          const values = { ...counts, oldest_wait_seconds: oldestMs / 1_000 };
          this.set({ kind }, values[figure as keyof typeof values]);
        }
      },
    });
  }
}

const WRITER_FIGURES = {
  published: 'messages passed to the writer of the stream',
  acked: 'messages that JetStream stored',
  resent: 'publishes beyond the first of a message: after an outage, or another writer was faster',
  duplicates: 'messages that the stream turned out to hold already',
} as const;

export function countWriters(
  registry: Registry,
  writers: Readonly<Record<string, Pick<StreamWriter, 'stats' | 'unstoredMs'>>>,
): void {
  for (const [figure, help] of Object.entries(WRITER_FIGURES)) {
    new Counter({
      name: `fillstream_stream_${figure}_total`,
      help,
      labelNames: ['stream'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [stream, { stats }] of Object.entries(writers)) {
          this.inc({ stream }, stats[figure as keyof typeof WRITER_FIGURES]);
        }
      },
    });
  }
  new Gauge({
    name: 'fillstream_stream_unstored_seconds',
    help: 'how long the oldest message sent to JetStream has not been stored',
    labelNames: ['stream'],
    registers: [registry],
    collect() {
      for (const [stream, { unstoredMs }] of Object.entries(writers)) {
        this.set({ stream }, unstoredMs / 1_000);
      }
    },
  });
}

export function countBalances(registry: Registry, balances: Balances): void {
  const registers = [registry];
  new Gauge({
    name: 'fillstream_balances',
    help: 'balances since the start: read, failed calls, dropped because too many traders waited',
    labelNames: ['outcome'],
    registers,
    collect() {
      for (const [outcome, count] of Object.entries(balances.counts)) this.set({ outcome }, count);
    },
  });
  new Gauge({
    name: 'fillstream_balances_waiting',
    help: 'traders whose balance is to be read',
    registers,
    collect() {
      this.set(balances.waiting);
    },
  });
}

/** Whether ingest is ready: what its parts report, the connection to NATS, and whether JetStream stores. */
export class Readiness {
  /** Reasons by part; each part removes its own when it recovers. */
  readonly reasons: Record<string, string> = { final: 'catching up' };
  readonly #writers = new Map<string, Pick<StreamWriter, 'unstoredMs'>>();
  #nats: Pick<Nats, 'connected'> | undefined;

  /** Watches the connection. */
  connected(nats: Pick<Nats, 'connected'>): void {
    this.#nats = nats;
  }

  /** Watches writers, by stream. */
  writing(writers: Readonly<Record<string, Pick<StreamWriter, 'unstoredMs'>>>): void {
    for (const [stream, writer] of Object.entries(writers)) {
      this.#writers.set(stream, writer);
    }
  }

  /** Why ingest is not ready; empty when it is. */
  get notReady(): Reasons {
    const reasons: Record<string, string> = { ...this.reasons };
    if (this.#nats?.connected !== true) reasons.nats = 'not connected';
    for (const [stream, { unstoredMs }] of this.#writers) {
      if (unstoredMs <= UNSTORED_MS_MAX) continue;
      reasons[stream] = `JetStream has stored nothing for ${Math.round(unstoredMs / 1_000)} s`;
    }
    return reasons;
  }
}
