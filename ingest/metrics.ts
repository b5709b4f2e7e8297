import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { MEMPOOL_SOURCES } from '../infra/config.ts';
import { labelledCounter } from '../infra/metrics-server.ts';
import type { StreamWriter } from '../infra/nats/writer.ts';
import type { Balances } from './chain/balances.ts';
import type { SampledShares } from './chain/share-balances.ts';
import type { UnknownEvents } from './chain/unknown-events.ts';
import type { UnwatchedFlow } from './chain/unwatched-flow.ts';
import { VOID_REASONS } from './contract.ts';
import { REFUSAL_REASONS } from './events/log.ts';
import type { Gamma } from './metadata/gamma.ts';
import type { Metadata } from './metadata/metadata.ts';

/** On Polygon, a pending match is mined within about 2 s and final 2 to 5 s later. */
const SECONDS_BUCKETS = [0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300];
export type PendingMetrics = ReturnType<typeof pendingMetrics>;

export function pendingMetrics(registry: Registry) {
  const registers = [registry];
  const gauge = <Label extends string>(name: string, help: string, labelNames: Label[] = []) =>
    new Gauge<Label>({ name: `fillstream_${name}`, help, labelNames, registers });
  const seconds = (name: string, help: string, buckets = SECONDS_BUCKETS) =>
    new Histogram({ name: `fillstream_${name}`, help, buckets, registers });
  return {
    shown: labelledCounter(
      registry,
      'fillstream_feed_matches_shown_total',
      'matches shown in FEED, by where they were first seen',
      'source',
      ['block', ...MEMPOOL_SOURCES],
    ),
    source: gauge('mempool_source', '1 for the current source of pending transactions', ['source']),
    refused: labelledCounter(
      registry,
      'fillstream_pending_calls_refused_total',
      'pending calls to an exchange that were not shown, by reason',
      'reason',
      ['not_operator', 'busy', 'table_full', ...REFUSAL_REASONS],
    ),
    dropped: labelledCounter(
      registry,
      'fillstream_pending_pushes_dropped_total',
      'pushed transactions or hashes that were dropped, by reason',
      'reason',
      ['malformed', 'too_old'],
    ),
    ended: labelledCounter(
      registry,
      'fillstream_pending_matches_ended_total',
      'matches shown before they were final, by outcome',
      'outcome',
      ['final', 'unconfirmed', ...VOID_REASONS],
    ),
    restored: counterOf(
      registry,
      'pending_matches_restored_total',
      'matches that were voided as never mined and mined later',
    ),
    head: gauge('head_block', 'newest block whose matches were read for FEED'),
    open: gauge('pending_matches_open', 'matches that were shown and are not final yet'),
    toMined: seconds(
      'pending_to_mined_seconds',
      'time from the detection of a pending match until its block was read',
    ),
    toFinal: seconds(
      'pending_to_final_seconds',
      'time from the detection of a pending match until it was read in a final block',
    ),
    toFeed: seconds(
      'pending_to_feed_seconds',
      'time from the detection of a pending match until FEED has stored it',
      [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5],
    ),
    differences: labelledCounter(
      registry,
      'fillstream_calldata_differences_total',
      'fields of matches that differ between FEED and the final logs',
      'field',
      [...['makers', 'order_hash', 'trader', 'side'], ...['token_id', 'shares', 'usdc', 'fee']],
    ),
  };
}

export function setSource({ source }: PendingMetrics, name: string): void {
  source.reset();
  source.set({ source: name }, 1);
}

/** Registers the gauges of metadata. */
export function countMetadata(registry: Registry, metadata: Metadata, gamma: Gamma): void {
  gaugeOf(registry, 'metadata_degraded', '1 while the metadata API does not respond', () =>
    gamma.downMs > 0 ? 1 : 0,
  );
  gaugeOf(
    registry,
    'metadata_down_seconds',
    'how long the metadata API has not responded',
    () => gamma.downMs / 1e3,
  );
  gaugeOf(
    registry,
    'metadata_markets_left_out',
    'markets of protocol version 2 that the metadata API listed with unknown ids',
    () => gamma.leftOut,
  );
  gaugesOf(registry, 'metadata_waiting', 'requested keys without a response', {
    label: 'kind',
    values: () => Object.entries(metadata.waiting),
  });
}

export function counterOf(registry: Registry, name: string, help: string): Counter {
  return new Counter({ name: `fillstream_${name}`, help, registers: [registry] });
}

export function gaugeOf(registry: Registry, name: string, help: string, value: () => number): void {
  new Gauge({
    name: `fillstream_${name}`,
    help,
    registers: [registry],
    collect() {
      this.set(value());
    },
  });
}

/** A gauge with one value for each value of a label. */
function gaugesOf<Label extends string>(
  registry: Registry,
  name: string,
  help: string,
  { label, values }: { label: Label; values: () => Iterable<readonly [string, number]> },
): void {
  new Gauge<string>({
    name: `fillstream_${name}`,
    help,
    labelNames: [label],
    registers: [registry],
    collect() {
      for (const [of, value] of values()) this.set({ [label]: of }, value);
    },
  });
}

type Writer = Pick<StreamWriter, 'stats' | 'unstoredMs'>;

const WRITER_FIGURES = {
  acked: 'messages that JetStream stored',
  resent:
    'messages that were published again, after an outage or because another writer was faster',
  duplicates: 'messages that were already in the stream',
} as const;

/** Registers the counters of the writers, by stream. */
export function countWriters(registry: Registry, writers: Readonly<Record<string, Writer>>): void {
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
  gaugesOf(
    registry,
    'stream_unstored_seconds',
    'how long the oldest message sent to JetStream has been waiting to be stored',
    {
      label: 'stream',
      values: () => Object.entries(writers).map(([stream, one]) => [stream, one.unstoredMs / 1e3]),
    },
  );
}

export function countBalances(registry: Registry, balances: Balances): void {
  const help =
    'balances since startup: read, failed, or dropped because too many traders were queued';
  const values = () => Object.entries(balances.counts);
  gaugesOf(registry, 'balances', help, { label: 'outcome', values });
  gaugeOf(registry, 'balances_waiting', 'traders whose balance is queued or being read', () => {
    return balances.waiting;
  });
}

export function countUnknown(
  registry: Registry,
  unknown: UnknownEvents,
  flow: UnwatchedFlow,
): void {
  const share =
    'part of the sampled pUSD transfers in transactions without a log that is read, 0 to 1';
  gaugeOf(registry, 'unwatched_flow_share', share, () => flow.share ?? 0);
  const help = 'events of protocol version 2 that are not known, since startup';
  gaugeOf(registry, 'unknown_events', help, () => unknown.found);
}

/** `shares` is undefined if movements are not read. */
export function countShares(registry: Registry, shares: SampledShares | undefined): void {
  const help = 'sampled balances of shares since startup, by trader and market: read, or failed';
  const values = () => Object.entries(shares?.counts ?? { read: 0, failed: 0 });
  gaugesOf(registry, 'share_balances', help, { label: 'outcome', values });
}
