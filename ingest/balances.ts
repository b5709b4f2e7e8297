/**
 * pUSD balances of the traders that were seen, as LEDGER events: read in batches at the newest final
 * block, so that a catch-up over thousands of blocks asks once for each trader. A node that has no
 * state of that block any more is asked at the newest final block that it names, then at its head.
 * Balances are for display: a call that fails costs its own trader a round, nobody else.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import { Gauge, type Registry } from 'prom-client';
import type { Hex } from 'viem';
import type { Hash } from './contract.ts';
import type { Balance } from './contract-metadata.ts';
import type { Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const ROUND_MS = 2_000;
const ROUND_MS_MAX = 60_000;
const ROUND_TRADERS_MAX = 500;
/** About 100 bytes each; the longest waiting ones go first. */
const TOUCHED_MAX = 200_000;

export type BalancesOptions = {
  readonly rpc: Pick<Rpc, 'balance' | 'blockNumber'>;
  readonly token: Hex;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onBalance: (balance: Balance) => Promise<void>;
  /** Pause between two rounds, milliseconds; 2,000 by default. */
  readonly roundMs?: number;
};

/** Registers what the balances count. */
export function countBalances(registry: Registry, balances: Balances): void {
  const registers = [registry];
  new Gauge({
    name: 'fillstream_balances',
    help: 'balances since the start: read, failed calls, dropped as too many traders waited',
    labelNames: ['outcome'],
    registers,
    collect() {
      for (const [outcome, count] of Object.entries(balances.counts)) this.set({ outcome }, count);
    },
  });
  new Gauge({
    name: 'fillstream_balances_waiting',
    help: 'traders whose balance is to be read',
    registers,
    collect() {
      this.set(balances.waiting);
    },
  });
}

export class Balances {
  readonly #options: BalancesOptions;
  readonly #touched = new Set<string>();
  #block = 0;
  /** Since the start: balances published, calls that failed, traders dropped as too many waited. */
  readonly counts = { read: 0, failed: 0, dropped: 0 };

  constructor(options: BalancesOptions) {
    this.#options = options;
  }

  /** Traders whose balance is to be read. */
  get waiting(): number {
    return this.#touched.size;
  }

  /** These traders were part of a match in the block, which is the newest one. */
  touch(traders: Iterable<string>, block: number): void {
    for (const trader of traders) this.#touch(trader);
    this.#block = Math.max(this.#block, block);
  }

  /** Reads and publishes until the signal aborts. */
  async run(): Promise<void> {
    const { signal, roundMs = ROUND_MS } = this.#options;
    for (let waitMs = roundMs; !signal.aborted; ) {
      const { read, failure } = await this.#round();
      if (failure !== undefined && !signal.aborted) this.#warn(failure);
      // Only a round without any answer slows the next one down.
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
    let waiting = [...this.#touched].slice(0, ROUND_TRADERS_MAX);
    // Taken out first: a trader who is touched while the answer is under way is asked for again.
    for (const trader of waiting) this.#touched.delete(trader);
    let read = 0;
    let failure: unknown;
    try {
      for (const blockOf of this.#blocks()) {
        if (waiting.length === 0) break;
        const answer = await this.#ask(waiting, await blockOf());
        read += answer.read;
        waiting = answer.failed;
        failure = answer.failure;
        // Only a missing state is helped by another block.
        if (!(failure instanceof RpcError && failure.class === 'refused')) break;
      }
    } catch (error) {
      failure = error;
    } finally {
      for (const trader of waiting) this.#touch(trader);
    }
    if (failure !== undefined) this.counts.failed += waiting.length;
    return { read, failure };
  }

  /** Where to read: each is tried for those that the one before has no state of. */
  #blocks(): readonly (() => Promise<number>)[] {
    const { rpc } = this.#options;
    return [
      async () => this.#block,
      () => rpc.blockNumber('finalized'),
      () => rpc.blockNumber('latest'),
    ];
  }

  async #ask(traders: readonly string[], block: number) {
    const { rpc, token, onBalance } = this.#options;
    const answers = await Promise.allSettled(
      traders.map((trader) => rpc.balance(token, trader as Hex, block)),
    );
    const failed: string[] = [];
    let failure: unknown;
    for (const [i, answer] of answers.entries()) {
      const address = (traders[i] ?? '') as Hash;
      if (answer.status === 'rejected') {
        failed.push(address);
        failure ??= answer.reason;
        continue;
      }
      await onBalance({ kind: 'balance', address, balance: answer.value, blockNumber: block });
      this.counts.read += 1;
    }
    return { read: traders.length - failed.length, failed, failure };
  }

  #warn(error: unknown): void {
    const { logger } = this.#options;
    logger.warn({ err: error, waiting: this.#touched.size }, 'balances not available');
  }
}
