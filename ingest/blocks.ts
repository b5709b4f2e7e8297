/**
 * One block of the chain as facts: its matches with their market and orders, its resolutions, and what
 * could not be decoded. Logs say what happened; the calldata of the same transaction adds the market
 * and the orders behind the fills, and is never believed where it disagrees.
 */
import type { Hex } from 'viem';
import type { Catalogue } from './catalogue.ts';
import { type Chain, watchedAddresses } from './chains.ts';
import { type CalledMatch, decodeMatchCall } from './decode-call.ts';
import { DecodeError } from './decode-error.ts';
import {
  type ChainLog,
  decodeLogs,
  type LoggedFill,
  type LoggedMatch,
  type LoggedResolution,
} from './decode-logs.ts';
import type { Block, Rpc, Transaction } from './rpc.ts';

export type LocatedFill = LoggedFill & {
  readonly outcomeIndex: 0 | 1;
  readonly order: CalledMatch['taker']['order'] | null;
};

export type LocatedMatch = Omit<LoggedMatch, 'fills'> & {
  readonly conditionId: Hex;
  /** Of the transaction; '' where it is not in the block's list. */
  readonly sender: string;
  readonly fills: readonly LocatedFill[];
  /** Counts matches of the same taker order inside one transaction, from 0. */
  readonly ordinal: number;
};

export type BlockFacts = {
  readonly block: Omit<Block, 'transactions'>;
  readonly matches: readonly LocatedMatch[];
  readonly resolutions: readonly LoggedResolution[];
  readonly operators: readonly { readonly operator: Hex; readonly allowed: boolean }[];
  readonly refused: readonly Refusal[];
};

export type Refusal = {
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly error: DecodeError;
  readonly logs: readonly ChainLog[];
};

/** A block with the logs of the watched contracts and, at least, the transactions of its matches. */
export type RawBlock = {
  readonly block: Omit<Block, 'transactions'> & { readonly transactions: readonly Transaction[] };
  readonly logs: readonly ChainLog[];
};

/** Reads a block and its logs; undefined while the node does not have it. */
export async function readBlock(
  rpc: Rpc,
  chain: Chain,
  number: number,
): Promise<RawBlock | undefined> {
  const block = await rpc.block(number);
  if (block === undefined) return undefined;
  return { block, logs: await rpc.logs(block.hash, watchedAddresses(chain)) };
}

/** Decodes a block. What cannot be decoded is in `refused`; it never throws for it. */
export async function factsOf(
  raw: RawBlock,
  chain: Chain,
  catalogue: Catalogue,
): Promise<BlockFacts> {
  const { block, logs } = raw;
  const decoded = decodeLogs(logs, {
    exchanges: new Set(chain.exchanges.keys()),
    conditionalTokens: chain.conditionalTokens,
  });
  const refused: Refusal[] = decoded.refused.map(({ log, error }) => ({
    txHash: log.transactionHash,
    logIndex: log.logIndex,
    error,
    logs: [log],
  }));
  const transactions = new Map(block.transactions.map((tx) => [tx.hash, tx]));
  const ordinals = new Map<string, number>();
  const matches: LocatedMatch[] = [];
  for (const match of decoded.matches) {
    const transaction = transactions.get(match.txHash);
    const key = `${match.txHash}:${match.fills.at(-1)?.orderHash}`;
    const ordinal = ordinals.get(key) ?? 0;
    ordinals.set(key, ordinal + 1);
    const located = await locate(match, transaction, chain, catalogue);
    if (located === undefined) {
      refused.push({
        txHash: match.txHash,
        logIndex: match.logIndex,
        error: new DecodeError('unknown_token', 'no market is known for its tokens'),
        logs: logs.filter((log) => log.transactionHash === match.txHash),
      });
    } else {
      matches.push({ ...located, sender: transaction?.from ?? '', ordinal });
    }
  }
  return {
    block,
    matches,
    resolutions: decoded.resolutions,
    operators: decoded.operators,
    refused,
  };
}

async function locate(
  match: LoggedMatch,
  transaction: Transaction | undefined,
  chain: Chain,
  catalogue: Catalogue,
): Promise<Omit<LocatedMatch, 'ordinal' | 'sender'> | undefined> {
  const call = callOf(match, transaction, chain);
  const orders = new Map(
    call === undefined
      ? []
      : [call.taker, ...call.makers].map((fill) => [fill.orderHash, fill.order]),
  );
  const inMarket = (conditionId: Hex) => {
    const fills: LocatedFill[] = [];
    for (const fill of match.fills) {
      const token = fill.tokenId.toString();
      const outcomeIndex = catalogue.outcomeOf(conditionId, token, match.exchange);
      if (outcomeIndex === undefined) return undefined;
      fills.push({ ...fill, outcomeIndex, order: orders.get(fill.orderHash) ?? null });
    }
    return { ...match, conditionId, fills };
  };
  const called = call === undefined ? undefined : inMarket(call.conditionId);
  if (called !== undefined) return called;
  const token = match.fills.at(-1)?.tokenId.toString() ?? '';
  const conditionId = await catalogue.conditionOfToken(token);
  return conditionId === undefined ? undefined : inMarket(conditionId);
}

/** The call that made the match, where the operator called the exchange itself. */
function callOf(
  match: LoggedMatch,
  transaction: Transaction | undefined,
  chain: Chain,
): CalledMatch | undefined {
  if (transaction?.to !== match.exchange) return undefined;
  try {
    return decodeMatchCall(transaction.input as Hex, match.exchange, chain.id);
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return undefined;
  }
}
