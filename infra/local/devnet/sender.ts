/**
 * Sends transactions of the unlocked accounts with explicit nonces, and mines by hand.
 * Gas is given, never estimated, so that a call that will revert is sent and mined like any other.
 * Nonces are counted here and read again from the node after any refusal.
 */
import type { Hex } from 'viem';
import type { Rpc, RpcCall } from './rpc.ts';

export type Transaction = { readonly from: Hex; readonly to?: Hex; readonly data: Hex };

/** Enough for a match with 6 makers (about 0.6 million) and a redemption of 60 owners. */
const TRANSACTION_GAS = '0x989680';

export class Sender {
  readonly #rpc: Rpc;
  readonly #nonces = new Map<Hex, number>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Puts transactions into the pool in this order; gives their hashes. Throws when one is refused. */
  async send(transactions: readonly Transaction[]): Promise<readonly Hex[]> {
    for (const { from } of transactions) {
      if (!this.#nonces.has(from)) this.#nonces.set(from, await this.#pendingNonce(from));
    }
    const calls = transactions.map((transaction): RpcCall => {
      const nonce = this.#nonces.get(transaction.from) ?? 0;
      this.#nonces.set(transaction.from, nonce + 1);
      const request = { ...transaction, gas: TRANSACTION_GAS, nonce: `0x${nonce.toString(16)}` };
      return { method: 'eth_sendTransaction', params: [{ ...request, gasPrice: '0x0' }] };
    });
    try {
      return await this.#rpc.batch<Hex>(calls);
    } catch (error) {
      this.#nonces.clear();
      throw error;
    }
  }

  /** Mines everything that waits into one block with that timestamp (unix seconds). */
  async mine(time: number): Promise<void> {
    await this.#rpc.call('evm_setNextBlockTimestamp', time);
    await this.#rpc.call('evm_mine');
  }

  async #pendingNonce(from: Hex): Promise<number> {
    return Number(await this.#rpc.call<Hex>('eth_getTransactionCount', from, 'pending'));
  }
}
