/** Metrics of the process that evaluates alerts and delivers events. */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { labelledCounter } from '../../infra/metrics-server.ts';
import { EVENT_STATES } from './event.ts';

export type AlertMetrics = ReturnType<typeof alertMetrics>;

const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600];

export function alertMetrics(registry: Registry) {
  const registers = [registry];
  return {
    evaluated: new Counter({
      ...{ name: 'fillstream_alerts_evaluated_total', help: 'events of FEED evaluated', registers },
    }),
    events: labelledCounter(
      ...([registry, 'fillstream_alerts_events_total', 'events sent by alerts'] as const),
      ...(['state', EVENT_STATES] as const),
    ),
    open: new Gauge({
      name: 'fillstream_alerts_open_events',
      help: 'events that may have to be taken back',
      labelNames: ['pass'],
      registers,
    }),
    attempts: labelledCounter(
      ...([registry, 'fillstream_alerts_attempts_total', 'attempts to deliver an event'] as const),
      ...(['outcome', ['delivered', 'failed']] as const),
    ),
    latency: new Histogram({
      name: 'fillstream_alerts_delivery_seconds',
      help: 'from the detection of a match until its event was delivered',
      ...{ buckets: SECONDS, registers },
    }),
    waiting: new Gauge({
      name: 'fillstream_alerts_waiting_deliveries',
      help: 'deliveries that wait, of all destinations',
      registers,
    }),
    failing: new Gauge({
      name: 'fillstream_alerts_failing_destinations',
      help: 'destinations whose latest delivery failed',
      registers,
    }),
  };
}
