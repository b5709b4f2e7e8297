/**
 * Whether the logs of a block hold every fill of its matches. A call to an exchange names its makers, and
 * each of them and the taker log one OrderFilled, or the call reverts: what logs leave out of a match,
 * its own calldata betrays, however full the block's bloom is. Pure.
 */

import type { Chain } from './chains.ts';
import { type ChainLog, makersOfCall, TOPICS } from './decode.ts';
import type { Transaction } from './rpc.ts';

/** True when a call that logged something logged fewer fills than it names. */
export function lacksFills(
  transactions: readonly Transaction[],
  logs: readonly ChainLog[],
  { exchanges }: Pick<Chain, 'exchanges'>,
): boolean {
  const called = new Map<string, string>();
  for (const { hash, to } of transactions) if (exchanges.has(to ?? '')) called.set(hash, to ?? '');
  const filled = new Map<string, number>();
  for (const { address, transactionHash, topics } of logs) {
    if (topics[0] !== TOPICS.orderFilled || called.get(transactionHash) !== address) continue;
    filled.set(transactionHash, (filled.get(transactionHash) ?? 0) + 1);
  }
  return transactions.some(({ hash, input }) => {
    const makers = called.has(hash) ? makersOfCall(input) : undefined;
    return makers !== undefined && (filled.get(hash) ?? 0) < makers + 1;
  });
}
