/**
 * Figures of the catalogue for /metrics. The metadata API being down makes nothing unready: fills go on
 * without texts; `fillstream_metadata_degraded` tells.
 */
import { Gauge, type Registry } from 'prom-client';
import type { Gamma } from './gamma.ts';
import type { Catalogue } from './metadata.ts';

/** Registers the gauges of the catalogue and of its requests. */
export function countCatalogue(registry: Registry, catalogue: Catalogue, gamma: Gamma): void {
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
    help: 'requests to the metadata API since the start, by how they ended',
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
  countLookups(registry, catalogue);
  gauge('token_mismatches', 'markets with other tokens than the chain derives', () => {
    return catalogue.state.mismatches;
  });
  gauge('tokens_awaited', 'tokens without a market that LEDGER waits for', () => {
    return catalogue.state.tokensAwaited;
  });
  gauge('tokens_given_up', 'tokens without a market whose matches were refused', () => {
    return catalogue.state.tokensGivenUp;
  });
  gauge('tokens_found_late', 'tokens given up whose market appeared later: rebuild', () => {
    return catalogue.state.tokensFoundLate;
  });
}

function countLookups(registry: Registry, catalogue: Catalogue): void {
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
          const { oldestMs, ...counts } = catalogue.state[kind];
          const values = { ...counts, oldest_wait_seconds: oldestMs / 1_000 };
          this.set({ kind }, values[figure as keyof typeof values]);
        }
      },
    });
  }
}
