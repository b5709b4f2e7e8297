/** Metrics of publishing to LEDGER and FEED, from the publishers' own counts. */
import { Counter, Gauge, type Registry } from 'prom-client';
import type { OrderedPublisher } from '../infra/nats/publisher.ts';

const FIGURES = {
  published: 'messages given to the publisher',
  acked: 'messages that JetStream stored',
  resent: 'sends beyond the first, after an outage or a lost acknowledgement',
  duplicates: 'messages whose id the stream held already',
  reordered: 'messages stored after a later one: never, unless a cluster lost what it had accepted',
} as const;

export function countPublishers(
  registry: Registry,
  publishers: Readonly<Record<string, Pick<OrderedPublisher, 'stats' | 'unstoredMs'>>>,
): void {
  for (const [figure, help] of Object.entries(FIGURES)) {
    new Counter({
      name: `fillstream_stream_${figure}_total`,
      help,
      labelNames: ['stream'],
      registers: [registry],
      collect() {
        this.reset();
        for (const [stream, { stats }] of Object.entries(publishers)) {
          this.inc({ stream }, stats[figure as keyof typeof FIGURES]);
        }
      },
    });
  }
  new Gauge({
    name: 'fillstream_stream_unstored_seconds',
    help: 'for how long JetStream has not stored the oldest message that was sent to it',
    labelNames: ['stream'],
    registers: [registry],
    collect() {
      for (const [stream, { unstoredMs }] of Object.entries(publishers)) {
        this.set({ stream }, unstoredMs / 1_000);
      }
    },
  });
}
