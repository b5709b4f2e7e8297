/**
 * Publishes the pUSD balances of active traders to METADATA: those of its traders after each match, those of everyone who
 * traded the market after a resolution, and in turn those of the RECENT_MAX most recent traders, because redemptions,
 * deposits and transfers change a balance without a match. A full turn takes about seven minutes. Balances are read in
 * batches at the newest final block, so a catch-up over thousands of blocks reads each trader once. If a node lacks the
 * state of that block, the balance is read at the node's newest final block, then at its head. Balances are only for
 * display: after a failed call, that trader alone waits for the next round.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { BalanceBatch } from '../contract.ts';
import type { Rpc } from './rpc.ts';
import { RpcError } from './rpc-pool.ts';

const ROUND_MS = 2_000;
const ROUND_MS_MAX = 60_000;
const ROUND_TRADERS_MAX = 500;
/** About 100 bytes each; read in order of arrival. */
const TOUCHED_MAX = 200_000;
const RECENT_MAX = 2_000;
/** Five calls a second, which ordinary providers allow in addition to the reads of blocks. */
const TURN_TRADERS_MAX = 10;
/** Traders of markets, over all markets; about 100 bytes each. */
const MARKET_TRADERS_MAX = 200_000;

type Matched = {
  readonly conditionId: string;
  readonly fills: readonly { readonly trader: string }[];
};

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
  /** The most recent traders, with the last published balance. */
  readonly #recent = new LRUCache<string, { balance: bigint | undefined }>({ max: RECENT_MAX });
  /** Those of `#recent` whose turn is next. */
  #turn: string[] = [];
  /** The traders of the markets that were matched last. */
  readonly #traders = new LRUCache<string, Set<string>>({
    maxSize: MARKET_TRADERS_MAX,
    sizeCalculation: (traders) => traders.size,
  });
  #block = 0;
  /** Number of traders whose balance is being read after a match or a resolution. */
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

  /** Balances are read at this final block from now on. */
  reached(block: number): void {
    this.#block = Math.max(this.#block, block);
  }

  /** Queues the traders of a match. */
  matched({ conditionId, fills }: Matched): void {
    const traders = this.#traders.get(conditionId) ?? new Set();
    for (const { trader } of fills) {
      this.#touch(trader);
      this.#recent.set(trader, { balance: this.#recent.peek(trader)?.balance });
      traders.add(trader);
    }
    // Removed first: the cache would keep the old size of a set that it already holds.
    this.#traders.delete(conditionId);
    this.#traders.set(conditionId, traders);
  }

  /** Queues the traders of a market, who may now redeem. */
  resolved(conditionId: string): void {
    for (const trader of this.#traders.get(conditionId) ?? []) this.#touch(trader);
    this.#traders.delete(conditionId);
  }

  /** Reads and publishes until the signal aborts. */
  async run(): Promise<void> {
    const { logger, signal, roundMs = ROUND_MS } = this.#options;
    for (let waitMs = roundMs; !signal.aborted; ) {
      const { read, failure } = await this.#round();
      if (failure !== undefined && !signal.aborted) {
        logger.warn(
          { err: failure, waiting: this.waiting },
          'balances could not be read, retrying',
        );
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
    // Traders of `#recent` wait while others are queued, and are not retried before their next
    // turn.
    const isTurn = this.#touched.size === 0;
    let waiting = isTurn ? this.#nextTurn() : [...this.#touched].slice(0, ROUND_TRADERS_MAX);
    // Removed first, so that a trader who trades during the request is queued again.
    for (const trader of waiting) this.#touched.delete(trader);
    this.#asked = isTurn ? 0 : waiting.length;
    let read = 0;
    let failure: unknown;
    try {
      for (const tag of ['seen', 'finalized', 'latest'] as const) {
        if (waiting.length === 0) break;
        const block = tag === 'seen' ? this.#block : await rpc.blockNumber(tag);
        const answer = await this.#ask(waiting, block, isTurn);
        read += answer.read;
        waiting = answer.failed;
        failure = answer.failure;
        // Retry at another block only if the state is missing.
        if (!(failure instanceof RpcError && failure.class === 'refused')) break;
      }
    } catch (error) {
      failure = error;
    } finally {
      if (!isTurn) for (const trader of waiting) this.#touch(trader);
      this.#asked = 0;
    }
    if (failure !== undefined) this.counts.failed += waiting.length;
    return { read, failure };
  }

  #nextTurn(): string[] {
    if (this.#turn.length === 0) this.#turn = [...this.#recent.keys()];
    return this.#turn.splice(0, TURN_TRADERS_MAX);
  }

  /** Reads and publishes the balances; with `changedOnly` those that differ from what was published. */
  async #ask(traders: readonly string[], block: number, changedOnly: boolean) {
    const { rpc, token, onBalances } = this.#options;
    const answers = await Promise.allSettled(
      traders.map((trader) => rpc.balance(token, trader as Hex, block)),
    );
    const balances: BalanceBatch['balances'] = [];
    let read = 0;
    const failed: string[] = [];
    let failure: unknown;
    for (const [i, answer] of answers.entries()) {
      const address = (traders[i] ?? '') as Hex;
      if (answer.status === 'fulfilled') {
        read += 1;
        const known = this.#recent.peek(address);
        if (!changedOnly || known?.balance !== answer.value) balances.push([address, answer.value]);
        if (known !== undefined) known.balance = answer.value;
      } else {
        failed.push(address);
        failure ??= answer.reason;
      }
    }
    if (balances.length > 0) await onBalances({ kind: 'balances', blockNumber: block, balances });
    this.counts.read += read;
    return { read, failed, failure };
  }
}
