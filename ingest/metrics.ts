/** Metrics of the live side: what was shown, from where, what was not, and what became of it. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';

/** From a push to a block: Polygon takes about 2 s, and 2 to 5 s more until that is final. */
const SECONDS_BUCKETS = [0.1, 0.25, 0.5, 1, 2, 3, 5, 8, 13, 20, 30, 60, 120, 300];

export type LiveMetrics = ReturnType<typeof liveMetrics>;

export function liveMetrics(registry: Registry) {
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
      help: '1 for the way in which pending transactions come',
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
      help: 'pushed transactions or hashes that were not looked at, by reason',
      labelNames: ['reason'],
      registers,
    }),
    ended: new Counter({
      name: 'fillstream_pending_matches_ended_total',
      help: 'matches shown before they were final, by what became of them',
      labelNames: ['outcome'],
      registers,
    }),
    restored: new Counter({
      name: 'fillstream_pending_matches_restored_total',
      help: 'matches that were told to be never mined and then were mined',
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
      help: 'from the detection of a pending match to handing it to the publisher of FEED',
      buckets: [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 5],
      registers,
    }),
    differences: new Counter({
      name: 'fillstream_calldata_differences_total',
      help: 'fields of matches that final logs showed otherwise than FEED before',
      labelNames: ['field'],
      registers,
    }),
  };
}

/** Shows a way in place of the one before. */
export function tellSource({ source }: LiveMetrics, name: string): void {
  source.reset();
  source.set({ source: name }, 1);
}
