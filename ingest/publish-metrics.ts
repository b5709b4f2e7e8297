/** Metrics of publishing to LEDGER and FEED, from the publishers' own counts. */
import { Counter, type Registry } from 'prom-client';
import type { OrderedPublisher } from '../infra/nats-publisher.ts';

const FIGURES = {
  published: 'messages given to the publisher',
  acked: 'messages that JetStream stored',
  resent: 'sends beyond the first, after an outage or a lost acknowledgement',
  duplicates: 'messages whose id the stream held already',
  reordered: 'messages stored after a later one: never, unless a cluster lost what it had accepted',
} as const;

export function countPublishers(
  registry: Registry,
  publishers: Readonly<Record<string, Pick<OrderedPublisher, 'stats'>>>,
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
}
