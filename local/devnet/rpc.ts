/**
 * JSON-RPC over a Unix socket to the devnet's own chain, and transactions of its unlocked accounts. Does not retry,
 * because the node is a child process on the same machine, so a failure is a bug.
 */
import { connect } from 'node:net';
import type { Hex } from 'viem';

export type RpcCall = { readonly method: string; readonly params: readonly unknown[] };

type RpcAnswer = {
  readonly id: number;
  readonly result?: unknown;
  readonly error?: { readonly message: string };
};

/** Sends a request on a new connection and resolves with the response's text. */
export function requestAnvil(socket: string, text: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const connection = connect(socket).setEncoding('utf8');
  const parts: string[] = [];
  connection.on('data', (part: string) => {
    parts.push(part);
    // The only line break of a response is its last character.
    if (!part.endsWith('\n')) return;
    resolve(parts.join(''));
    connection.destroy();
  });
  connection.on('error', reject);
  connection.on('close', () => reject(new Error('anvil closed the connection')));
  connection.write(text);
  return promise;
}

/** anvil preserves the order of calls only in batches of up to 30. */
export const ORDERED_CALLS_MAX = 25;

export class Rpc {
  /** Path of anvil's Unix socket. */
  readonly socket: string;

  constructor(socket: string) {
    this.socket = socket;
  }

  /** Makes one call. Throws if the node returns an error. */
  async call<T>(method: string, ...params: readonly unknown[]): Promise<T> {
    const answer = (await this.#post({ jsonrpc: '2.0', id: 0, method, params })) as RpcAnswer;
    return resultOf(answer, method) as T;
  }

  /** Makes many calls in one request; results are in the order of the calls. Throws the first error. */
  async batch<T>(calls: readonly RpcCall[]): Promise<readonly T[]> {
    if (calls.length === 0) return [];
    const body = calls.map((call, id) => ({ jsonrpc: '2.0', id, ...call }));
    const answers = (await this.#post(body)) as readonly RpcAnswer[];
    const results: T[] = new Array(calls.length);
    for (const answer of answers) {
      results[answer.id] = resultOf(answer, calls[answer.id]?.method ?? '?') as T;
    }
    return results;
  }

  async #post(body: unknown): Promise<unknown> {
    return JSON.parse(await requestAnvil(this.socket, JSON.stringify(body)));
  }
}

function resultOf(answer: RpcAnswer, method: string): unknown {
  if (answer.error !== undefined) throw new Error(`${method}: ${answer.error.message}`);
  return answer.result;
}

/** An `eth_call` of a contract at the head. */
export function viewCall(to: Hex, data: Hex): RpcCall {
  return { method: 'eth_call', params: [{ to, data }, 'latest'] };
}

export type Transaction = { readonly from: Hex; readonly to?: Hex; readonly data: Hex };

/** Enough for a match with 6 makers (about 0.6 million) and a redemption of 60 owners. */
const TRANSACTION_GAS = '0x989680';

/**
 * Sends transactions with explicit nonces, and mines on request. Gas is fixed and not estimated, so that a call that
 * will revert is sent and mined like any other. Nonces are counted here, and read from the node again after a
 * refusal.
 */
export class Sender {
  readonly #rpc: Rpc;
  readonly #nonces = new Map<Hex, number>();

  constructor(rpc: Rpc) {
    this.#rpc = rpc;
  }

  /** Adds transactions to the pool in this order; returns their hashes. Throws if one is refused. */
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
      const hashes: Hex[] = [];
      for (let i = 0; i < calls.length; i += ORDERED_CALLS_MAX) {
        hashes.push(...(await this.#rpc.batch<Hex>(calls.slice(i, i + ORDERED_CALLS_MAX))));
      }
      return hashes;
    } catch (error) {
      this.#nonces.clear();
      throw error;
    }
  }

  /** Mines all pending transactions into one block with this timestamp (unix seconds). */
  async mine(time: number): Promise<void> {
    await this.#rpc.call('evm_setNextBlockTimestamp', time);
    await this.#rpc.call('evm_mine');
  }

  async #pendingNonce(from: Hex): Promise<number> {
    return Number(await this.#rpc.call<Hex>('eth_getTransactionCount', from, 'pending'));
  }
}
