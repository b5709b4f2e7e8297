/**
 * The facts of one block: its matches with their market, its resolutions, and everything that could not be decoded.
 * The events come from logs. The calldata of the same transaction adds the market, which is checked against the
 * tokens, and on demand the orders behind the fills.
 */
import type { Hex } from 'viem';
import { type Chain, watchedAddresses } from '../events/chains.ts';
import {
  type CalledFill,
  type ChainLog,
  conditionOfCall,
  type DecodedLogs,
  DecodeError,
  decodeLogs,
  decodeMatchCall,
  type LoggedFill,
  type LoggedMatch,
  type LoggedOperator,
  type LoggedResolution,
} from '../events/decode.ts';
import type { BlockHead, Rpc, Transaction } from './rpc.ts';

export type LocatedFill = LoggedFill & { readonly outcomeIndex: 0 | 1 };

export type LocatedMatch = Omit<LoggedMatch, 'fills'> & {
  readonly conditionId: Hex;
  /** Sender of the transaction; '' if it is not in the block's list. */
  readonly sender: string;
  /** Input of the transaction if the operator called the exchange directly; else ''. */
  readonly call: Hex | '';
  readonly fills: readonly LocatedFill[];
  /** Counts matches of the same taker order inside one transaction, from 0. */
  readonly ordinal: number;
};

export type BlockFacts = {
  readonly block: BlockHead;
  readonly matches: readonly LocatedMatch[];
  readonly resolutions: readonly LoggedResolution[];
  readonly operators: readonly LoggedOperator[];
  readonly refused: readonly Refusal[];
};

export type Refusal = {
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly error: DecodeError;
  readonly logs: readonly ChainLog[];
};

/** A block with its transactions and the logs of the watched contracts. */
export type RawBlock = {
  readonly block: BlockHead & { readonly transactions: readonly Transaction[] };
  readonly logs: readonly ChainLog[];
};

/** Finds the market of a token. */
type Markets = {
  /** The outcome index of a token in a condition; undefined if it is none of its tokens. */
  readonly outcomeOf: (conditionId: string, token: string, exchange: string) => 0 | 1 | undefined;
  /** May wait for the metadata API; undefined if nobody knows the token. */
  readonly conditionOfToken: (token: string) => Promise<Hex | undefined>;
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

/** Decodes a block. Never throws for undecodable logs or calls, which are returned in `refused`. */
export async function factsOf(raw: RawBlock, chain: Chain, metadata: Markets): Promise<BlockFacts> {
  const { block, logs } = raw;
  const decoded = decodeLogs(logs, {
    exchanges: new Set(chain.exchanges.keys()),
    conditionalTokens: chain.conditionalTokens,
  });
  const refused = refusalsOf(decoded);
  const transactions = new Map(block.transactions.map((tx) => [tx.hash, tx]));
  const ordinals = new Map<string, number>();
  const matches: LocatedMatch[] = [];
  for (const match of decoded.matches) {
    const transaction = transactions.get(match.txHash);
    const key = `${match.txHash}:${match.fills.at(-1)?.orderHash}`;
    const ordinal = ordinals.get(key) ?? 0;
    ordinals.set(key, ordinal + 1);
    const call = transaction?.to === match.exchange ? (transaction.input as Hex) : '';
    const located = await locate(match, call, metadata);
    if (located === undefined) {
      refused.push({
        txHash: match.txHash,
        logIndex: match.logIndex,
        error: new DecodeError('unknown_token', 'no market is known for its tokens'),
        logs: logs.filter((log) => log.transactionHash === match.txHash),
      });
    } else {
      matches.push({ ...located, sender: transaction?.from ?? '', call, ordinal });
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

/** The logs that could not be decoded. */
export function refusalsOf({ refused }: DecodedLogs): Refusal[] {
  return refused.map(({ log, error }) => ({
    txHash: log.transactionHash,
    logIndex: log.logIndex,
    error,
    logs: [log],
  }));
}

/** The facts of a block without events. */
export function nothingIn(block: BlockHead): BlockFacts {
  return { block, matches: [], resolutions: [], operators: [], refused: [] };
}

/** The orders behind a match by their hashes; empty if its calldata does not contain them. */
export function ordersOf(
  { call, exchange }: LocatedMatch,
  chainId: number,
): ReadonlyMap<string, CalledFill['order']> {
  if (call === '') return new Map();
  try {
    const { taker, makers } = decodeMatchCall(call, exchange, chainId);
    return new Map([taker, ...makers].map((fill) => [fill.orderHash, fill.order]));
  } catch (error) {
    if (!(error instanceof DecodeError)) throw error;
    return new Map();
  }
}

async function locate(match: LoggedMatch, call: Hex | '', metadata: Markets) {
  const inMarket = (conditionId: Hex) => {
    const fills: LocatedFill[] = [];
    for (const fill of match.fills) {
      const token = fill.tokenId.toString();
      const outcomeIndex = metadata.outcomeOf(conditionId, token, match.exchange);
      if (outcomeIndex === undefined) return undefined;
      fills.push({ ...fill, outcomeIndex });
    }
    return { ...match, conditionId, fills };
  };
  const condition = call === '' ? undefined : conditionOfCall(call);
  const called = condition === undefined ? undefined : inMarket(condition);
  if (called !== undefined) return called;
  const token = match.fills.at(-1)?.tokenId.toString() ?? '';
  const conditionId = await metadata.conditionOfToken(token);
  return conditionId === undefined ? undefined : inMarket(conditionId);
}
