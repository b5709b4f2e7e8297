/**
 * Whether ingest is ready, and why not: what its parts say (`reasons`), the connection to NATS, and
 * whether JetStream stores what is published. The metadata API being down makes nothing unready: fills
 * go on without texts.
 */
import type { Reasons } from '../infra/metrics.ts';
import type { Nats } from '../infra/nats/connection.ts';
import type { OrderedPublisher } from '../infra/nats/publisher.ts';

/** JetStream acknowledges within milliseconds; a server that restarts takes some seconds. */
const UNSTORED_MS_MAX = 5_000;

export class Readiness {
  /** By part; a part removes its own when it is well. */
  readonly reasons: Record<string, string> = { final: 'catching up' };
  readonly #publishers = new Map<string, Pick<OrderedPublisher, 'unstoredMs'>>();
  #nats: Pick<Nats, 'connected'> | undefined;

  /** Watches the connection. */
  connected(nats: Pick<Nats, 'connected'>): void {
    this.#nats = nats;
  }

  /** Watches publishers, by stream. */
  publishing(publishers: Readonly<Record<string, Pick<OrderedPublisher, 'unstoredMs'>>>): void {
    for (const [stream, publisher] of Object.entries(publishers)) {
      this.#publishers.set(stream, publisher);
    }
  }

  /** Why ingest is not ready; empty when it is. */
  get notReady(): Reasons {
    const reasons: Record<string, string> = { ...this.reasons };
    if (this.#nats?.connected !== true) reasons.nats = 'not connected';
    for (const [stream, { unstoredMs }] of this.#publishers) {
      if (unstoredMs <= UNSTORED_MS_MAX) continue;
      reasons[stream] = `JetStream has stored nothing for ${Math.round(unstoredMs / 1_000)} s`;
    }
    return reasons;
  }
}
