/**
 * Which way pending transactions come from a node, and what its answers say about that. Pure. In
 * `auto` the ways are tried from the best to the worst: a node that refuses one, ignores its
 * parameters or stays mute on it is asked the next. A configured way is never left.
 */
import { RpcError, RpcRequestError } from 'viem';
import { RpcRefusedError } from './mempool-socket.ts';

/**
 * `full`: bodies pushed by the node (bor, geth, anvil). `alchemy`: bodies of calls to the exchanges.
 * `hashes`: hashes pushed, bodies looked up. `txpool`: the pool by polling.
 */
export type MempoolSource = 'full' | 'alchemy' | 'hashes' | 'txpool';
export type MempoolSetting = 'auto' | MempoolSource | 'off';

/** What follows when none is usable is `off`: matches are then first seen in blocks. */
const LADDER: readonly MempoolSource[] = ['full', 'alchemy', 'hashes', 'txpool'];

/**
 * Errors of the moment (EIP-1474): internal, resource unavailable, limit exceeded; HTTP's 429 is
 * given as a code by some providers. Every other code says that the call itself will not do.
 */
const PASSING_CODES: ReadonlySet<number> = new Set([-32603, -32002, -32005, 429]);

export function firstSource(setting: MempoolSetting): MempoolSource | 'off' {
  return setting === 'auto' ? 'full' : setting;
}

/** The next way to try after one turned out to be unusable. */
export function nextSource(setting: MempoolSetting, failed: MempoolSource): MempoolSource | 'off' {
  if (setting !== 'auto') return failed;
  return LADDER[LADDER.indexOf(failed) + 1] ?? 'off';
}

/** Parameters of the subscription. */
export function subscriptionOf(
  source: Exclude<MempoolSource, 'txpool'>,
  exchanges: readonly string[],
): readonly unknown[] {
  switch (source) {
    case 'full':
      return ['newPendingTransactions', true];
    case 'alchemy':
      return ['alchemy_pendingTransactions', { toAddress: exchanges, hashesOnly: false }];
    case 'hashes':
      return ['newPendingTransactions'];
  }
}

/** What a push is: by its shape, as nodes ignore parameters that they do not know. */
export function shapeOf(push: unknown): 'hash' | 'body' | 'other' {
  if (typeof push === 'string') return /^0x[0-9a-fA-F]{64}$/.test(push) ? 'hash' : 'other';
  return typeof push === 'object' && push !== null && 'hash' in push ? 'body' : 'other';
}

/** True when the error says that the node will not serve this, not that it cannot just now. */
export function refuses(error: unknown): boolean {
  const isAnswer =
    error instanceof RpcRefusedError ||
    error instanceof RpcError ||
    error instanceof RpcRequestError;
  return isAnswer && !PASSING_CODES.has(error.code);
}
