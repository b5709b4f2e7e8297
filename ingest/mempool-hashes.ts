/**
 * Bodies for a node that pushes hashes only: looked up in batches, a few at a time. Bounded in number
 * and in age: a hash that waits too long is dropped, because the block brings its match anyway. A node
 * may push a hash before it can answer for it, so a missing body is asked for again while it is young.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { MempoolNode } from './mempool-node.ts';

const WAITING_MAX = 10_000;
const KNOWN_MAX = 100_000;
const BATCH_MAX = 100;
const CONCURRENT_MAX = 4;
/** Two blocks of Polygon. */
const AGE_MS_MAX = 4_000;
const AGAIN_MS = 100;

export type HashLookupOptions = {
  readonly node: Pick<MempoolNode, 'transactions'>;
  readonly onBody: (body: object) => void;
  /** Called for hashes that are given up, with why. */
  readonly onDropped: (reason: 'too_many' | 'too_old', count: number) => void;
  /** Called when the node cannot be asked; the hashes of that batch are asked for again. */
  readonly onFailure: (error: unknown) => void;
};

type Waiting = { readonly hash: string; readonly sinceMs: number };

export class HashLookups {
  readonly #options: HashLookupOptions;
  #waiting: Waiting[] = [];
  readonly #known = new Set<string>();
  #running = 0;
  #scheduled = false;

  constructor(options: HashLookupOptions) {
    this.#options = options;
  }

  /** Asks for the body of a hash that was pushed; a hash that came before is left out. */
  add(hash: string): void {
    if (this.#known.has(hash)) return;
    this.#known.add(hash);
    const [oldest] = this.#known;
    if (this.#known.size > KNOWN_MAX && oldest !== undefined) this.#known.delete(oldest);
    // The newest is the most likely to be still pending, but what waits is nearer to its answer.
    if (this.#waiting.length >= WAITING_MAX) this.#options.onDropped('too_many', 1);
    else {
      this.#waiting.push({ hash, sinceMs: performance.now() });
      this.#schedule();
    }
  }

  #schedule(): void {
    if (this.#scheduled || this.#running >= CONCURRENT_MAX || this.#waiting.length === 0) return;
    this.#scheduled = true;
    // What comes in the same turn travels together; no longer wait, as latency is the point.
    setImmediate(() => {
      this.#scheduled = false;
      const batch = this.#take();
      if (batch.length > 0) {
        this.#running += 1;
        void this.#lookUp(batch).finally(() => {
          this.#running -= 1;
          this.#schedule();
        });
      }
      this.#schedule();
    });
  }

  #take(): readonly Waiting[] {
    const oldest = performance.now() - AGE_MS_MAX;
    const old = this.#waiting.filter(({ sinceMs }) => sinceMs < oldest).length;
    if (old > 0) {
      this.#waiting = this.#waiting.filter(({ sinceMs }) => sinceMs >= oldest);
      this.#options.onDropped('too_old', old);
    }
    return this.#waiting.splice(0, BATCH_MAX);
  }

  async #lookUp(batch: readonly Waiting[]): Promise<void> {
    let again = batch;
    try {
      const bodies = await this.#options.node.transactions(batch.map(({ hash }) => hash));
      again = batch.filter((_, i) => bodies[i] === undefined);
      for (const body of bodies) if (body !== undefined) this.#options.onBody(body);
    } catch (error) {
      this.#options.onFailure(error);
    }
    if (again.length === 0) return;
    await delay(AGAIN_MS);
    const room = Math.max(0, WAITING_MAX - this.#waiting.length);
    if (again.length > room) this.#options.onDropped('too_many', again.length - room);
    this.#waiting.push(...again.slice(0, room));
  }
}
