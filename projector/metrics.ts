/** Metrics of the projector's writing: batches, how long their inserts take, what had to be repaired. */
import { Counter, Histogram, type Registry } from 'prom-client';

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
      help: 'one batch into bookings and all of its views, retries included',
      buckets: [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120],
      registers,
    }),
    healed: new Counter({
      name: 'fillstream_projector_healed_batches_total',
      help: 'batches that were inserted again after a restart; ClickHouse dropped what it had',
      registers,
    }),
    retries: new Counter({
      name: 'fillstream_projector_retries_total',
      help: 'work that ClickHouse did not take and that was tried again, by what it was',
      labelNames: ['what'],
      registers,
    }),
    unreadable: new Counter({
      name: 'fillstream_projector_unreadable_total',
      help: 'LEDGER messages that could not be read: a fault of this software',
      registers,
    }),
  };
}
