/**
 * Publishes the pUSD balances of active traders to METADATA. Balances are read in batches at the newest final block, so
 * a catch-up over thousands of blocks reads each trader once. If a node lacks the state of that block, the balance is
 * read at the node's newest final block, then at its head. Balances are only for display: after a failed call, that
 * trader alone waits for the next round.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { BalanceBatch } from './contract.ts';
import type { Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const ROUND_MS = 2_000;
const ROUND_MS_MAX = 60_000;
const ROUND_TRADERS_MAX = 500;
/** About 100 bytes each; read in order of arrival. */
const TOUCHED_MAX = 200_000;

export type BalancesOptions = {
  readonly rpc: Pick<Rpc, 'balance' | 'blockNumber'>;
  readonly token: Hex;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onBalances: (balances: BalanceBatch) => Promise<void>;
  /** Pause between two rounds, milliseconds; 2,000 by default. */
  readonly roundMs?: number;
};

export class Balances {
  readonly #options: BalancesOptions;
  readonly #touched = new Set<string>();
  #block = 0;
  /** Number of traders whose balance is being read. */
  #asked = 0;
  /**
   * Since startup: balances published, failed calls, and traders dropped because the queue was full.
   */
  readonly counts = { read: 0, failed: 0, dropped: 0 };

  constructor(options: BalancesOptions) {
    this.#options = options;
  }

  /** Number of traders whose balance is queued or being read. */
  get waiting(): number {
    return this.#touched.size + this.#asked;
  }

  /** Queues the traders of a match. `block` becomes the block at which balances are read. */
  touch(traders: Iterable<string>, block: number): void {
    for (const trader of traders) this.#touch(trader);
    this.#block = Math.max(this.#block, block);
  }

  /** Reads and publishes until the signal aborts. */
  async run(): Promise<void> {
    const { logger, signal, roundMs = ROUND_MS } = this.#options;
    for (let waitMs = roundMs; !signal.aborted; ) {
      const { read, failure } = await this.#round();
      if (failure !== undefined && !signal.aborted) {
        logger.warn({ err: failure, waiting: this.waiting }, 'balances not available');
      }
      // Only a round without any response delays the next one.
      const isDown = failure !== undefined && read === 0;
      waitMs = isDown ? Math.min(waitMs * 2, ROUND_MS_MAX) : roundMs;
      await delay(waitMs, undefined, { signal }).catch(() => undefined);
    }
  }

  #touch(trader: string): void {
    if (this.#touched.size < TOUCHED_MAX || this.#touched.has(trader)) this.#touched.add(trader);
    else this.counts.dropped += 1;
  }

  async #round() {
    const { rpc } = this.#options;
    let waiting = [...this.#touched].slice(0, ROUND_TRADERS_MAX);
    // Removed first, so that a trader who trades during the request is queued again.
    for (const trader of waiting) this.#touched.delete(trader);
    this.#asked = waiting.length;
    let read = 0;
    let failure: unknown;
    try {
      for (const tag of ['seen', 'finalized', 'latest'] as const) {
        if (waiting.length === 0) break;
        const block = tag === 'seen' ? this.#block : await rpc.blockNumber(tag);
        const answer = await this.#ask(waiting, block);
        read += answer.read;
        waiting = answer.failed;
        failure = answer.failure;
        // Retry at another block only if the state is missing.
        if (!(failure instanceof RpcError && failure.class === 'refused')) break;
      }
    } catch (error) {
      failure = error;
    } finally {
      for (const trader of waiting) this.#touch(trader);
      this.#asked = 0;
    }
    if (failure !== undefined) this.counts.failed += waiting.length;
    return { read, failure };
  }

  async #ask(traders: readonly string[], block: number) {
    const { rpc, token, onBalances } = this.#options;
    const answers = await Promise.allSettled(
      traders.map((trader) => rpc.balance(token, trader as Hex, block)),
    );
    const balances: BalanceBatch['balances'] = [];
    const failed: string[] = [];
    let failure: unknown;
    for (const [i, answer] of answers.entries()) {
      const address = (traders[i] ?? '') as Hex;
      if (answer.status === 'fulfilled') {
        balances.push([address, answer.value]);
      } else {
        failed.push(address);
        failure ??= answer.reason;
      }
    }
    if (balances.length > 0) await onBalances({ kind: 'balances', blockNumber: block, balances });
    this.counts.read += balances.length;
    return { read: balances.length, failed, failure };
  }
}
