/**
 * pUSD balances of the traders that were seen, as LEDGER events: read in batches at the newest final
 * block, so that a catch-up over thousands of blocks asks once for each trader. Balances are for
 * display; a failure is logged and the trader is asked for again at the next round.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from 'pino';
import type { Hex } from 'viem';
import type { Balance, Hash } from './contract.ts';
import type { Rpc } from './rpc.ts';

const ROUND_MS = 2_000;
const ROUND_TRADERS_MAX = 500;

export type BalancesOptions = {
  readonly rpc: Rpc;
  readonly token: Hex;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  readonly onBalance: (balance: Balance) => Promise<void>;
};

export class Balances {
  readonly #options: BalancesOptions;
  readonly #touched = new Set<string>();
  #block = 0;

  constructor(options: BalancesOptions) {
    this.#options = options;
  }

  /** These traders were part of a match in the block, which is the newest one. */
  touch(traders: Iterable<string>, block: number): void {
    for (const trader of traders) this.#touched.add(trader);
    this.#block = block;
  }

  /** Reads and publishes until the signal aborts. */
  async run(): Promise<void> {
    const { logger, signal } = this.#options;
    while (!signal.aborted) {
      try {
        await this.#round();
      } catch (error) {
        if (!signal.aborted) logger.warn({ err: error }, 'balances not available');
      }
      await delay(ROUND_MS, undefined, { signal }).catch(() => undefined);
    }
  }

  async #round(): Promise<void> {
    const { rpc, token, onBalance } = this.#options;
    const block = this.#block;
    const traders = [...this.#touched].slice(0, ROUND_TRADERS_MAX);
    // Taken out first: a trader who is touched while the answer is under way is asked for again.
    for (const trader of traders) this.#touched.delete(trader);
    try {
      const balances = await Promise.all(
        traders.map((trader) => rpc.balance(token, trader as Hex, block)),
      );
      for (const [i, trader] of traders.entries()) {
        const balance = balances[i] ?? 0n;
        await onBalance({ kind: 'balance', address: trader as Hash, balance, blockNumber: block });
      }
    } catch (error) {
      for (const trader of traders) this.#touched.add(trader);
      throw error;
    }
  }
}
