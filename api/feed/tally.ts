/** Counts of the feed since the start of the process: its listeners, and what was sent to them. */
import type { SessionEnd } from '../sessions/record.ts';
import type { Listener } from './listener.ts';

export type FeedFigures = {
  readonly listeners: number;
  /** Listeners that read what is stored and are not at the head yet. */
  readonly replaying: number;
  /** Messages of the stream that this process has not taken in. */
  readonly behind: number;
  readonly opened: { readonly fromNow: number; readonly resumed: number };
  readonly ended: ReadonlyMap<SessionEnd, number>;
  readonly events: number;
  readonly gaps: number;
};

export class Tally {
  readonly #opened = { fromNow: 0, resumed: 0 };
  readonly #ended = new Map<SessionEnd, number>();
  #events = 0;
  #gaps = 0;

  /** Counts a listener, and what it was sent once it is gone. */
  follow(listener: Listener, requested: bigint): void {
    this.#opened[requested === 0n ? 'fromNow' : 'resumed'] += 1;
    void listener.connection.gone.then(() => {
      const { why } = listener.connection;
      this.#ended.set(why, (this.#ended.get(why) ?? 0) + 1);
      this.#events += listener.delivered;
      this.#gaps += listener.gaps;
    });
  }

  /** With those that are connected now; `behind` as in FeedFigures. */
  figures(listeners: ReadonlySet<Listener>, behind: number): FeedFigures {
    const open = [...listeners];
    return {
      listeners: open.length,
      replaying: open.filter((listener) => !listener.live).length,
      behind,
      opened: this.#opened,
      ended: this.#ended,
      events: open.reduce((sum, { delivered }) => sum + delivered, this.#events),
      gaps: open.reduce((sum, { gaps }) => sum + gaps, this.#gaps),
    };
  }
}
