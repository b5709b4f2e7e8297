/**
 * Transactions as JSON-RPC gives them in a block, parsed by hand. It accepts exactly what the schema of
 * test/unit/rpc-transaction.test.ts accepts.
 */
import type { Hex } from 'viem';
import { RpcAnswerError } from './rpc-error.ts';
import { dataOf, fieldsOf, lowerCaseOf, quantityOf } from './rpc-field.ts';

/** A transaction as far as ingest reads it. */
export type Transaction = {
  readonly hash: Hex;
  readonly from: Hex;
  /** Null or left out for a contract creation. */
  readonly to?: Hex | null | undefined;
  readonly nonce: number;
  readonly input: Hex;
};

/** The transactions of a block. Throws RpcAnswerError, which names the field. */
export function parseTransactions(answer: unknown): Transaction[] {
  if (!Array.isArray(answer)) throw new RpcAnswerError('transactions are no list');
  return answer.map(parseTransaction);
}

export function parseTransaction(value: unknown): Transaction {
  const { hash, from, to, nonce, input } = fieldsOf(value, 'a transaction');
  return {
    hash: dataOf(hash, 'hash of a transaction'),
    from: lowerCaseOf(from, 'from of a transaction'),
    to: to === null || to === undefined ? to : lowerCaseOf(to, 'to of a transaction'),
    nonce: quantityOf(nonce, 'nonce of a transaction'),
    input: lowerCaseOf(input, 'input of a transaction'),
  };
}
