/**
 * The facts of one block: its events, and everything that could not be decoded. The events come from logs. The calldata
 * of the same transaction adds the market, and on demand the orders behind the fills.
 */
import type { Hex } from 'viem';
import type { Hash, Match, TradingEvent } from '../contract.ts';
import { type Chain, watchedAddresses } from '../events/chains.ts';
import { decodeLogs, storedEvent, watchedContracts } from '../events/decode.ts';
import { type ChainLog, DecodeError, type EventContext, type Markets } from '../events/log.ts';
import { type CalledFill, decodeMatchCall } from '../events/match-call.ts';
import type { LoggedOperator } from '../events/operator.ts';
import { logsShares, readShareLogs, type ShareLogs } from '../events/shares/share-logs.ts';
import type { BlockHead, Rpc, Transaction } from './rpc.ts';

/** A match with the data of its transaction. */
export type SentMatch = Match & {
  /** Sender of the transaction; '' if it is not in the block's list. */
  readonly sender: string;
  /** Input of the transaction if the operator called the exchange directly; else ''. */
  readonly call: Hex | '';
  /** Counts matches of the same taker order inside one transaction, from 0. */
  readonly ordinal: number;
};

export type BlockFacts = {
  readonly block: BlockHead;
  /** The matches and resolutions, in log order. */
  readonly events: readonly TradingEvent[];
  readonly matches: readonly SentMatch[];
  readonly operators: readonly LoggedOperator[];
  readonly refused: readonly Refusal[];
  /** How shares moved, by transaction. */
  readonly shares: ReadonlyMap<Hash, ShareLogs>;
};

/** What the feed needs of a block. */
export type FeedFacts = Pick<BlockFacts, 'block' | 'matches' | 'operators'>;

type Refusal = {
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
export async function factsOf(raw: RawBlock, chain: Chain, markets: Markets): Promise<BlockFacts> {
  const { block, logs } = raw;
  const [ofShares, ofTrading] = partition(logs, chain);
  const decoded = decodeLogs(ofTrading, watchedContracts(chain));
  const transactions = new Map(block.transactions.map((tx) => [tx.hash, tx]));
  const of: EventContext = {
    blockNumber: block.number,
    blockTime: block.timestamp,
    markets,
    callTo(contract, txHash) {
      const transaction = transactions.get(txHash);
      return transaction?.to === contract ? (transaction.input as Hex) : '';
    },
  };
  const refused: Refusal[] = decoded.refused.map(({ log, error }) => ({
    txHash: log.transactionHash,
    logIndex: log.logIndex,
    error,
    logs: [log],
  }));
  const events: TradingEvent[] = [];
  const operators: LoggedOperator[] = [];
  for (const event of decoded.events) {
    if (event.kind === 'operator') {
      operators.push(event);
      continue;
    }
    try {
      const stored = await storedEvent(event, of);
      if (stored !== undefined) events.push(stored);
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      const { txHash, logIndex } = event;
      const ofTransaction = logs.filter((log) => log.transactionHash === txHash);
      refused.push({ txHash, logIndex, error, logs: ofTransaction });
    }
  }
  const ordinalOf = countMatches();
  const matches = events.flatMap((event): SentMatch[] => {
    if (event.kind !== 'match') return [];
    const sender = transactions.get(event.txHash)?.from ?? '';
    const call = of.callTo(event.exchange, event.txHash);
    return [{ ...event, sender, call, ordinal: ordinalOf(event) }];
  });
  const shares = new Map<Hash, ShareLogs>();
  for (const [txHash, own] of Map.groupBy(ofShares, (log) => log.transactionHash)) {
    const refuse = (log: ChainLog, error: DecodeError) =>
      refused.push({ txHash, logIndex: log.logIndex, error, logs: [log] });
    try {
      if (chain.shares !== undefined) shares.set(txHash, readShareLogs(own, chain.shares, refuse));
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      refused.push({ txHash, logIndex: own[0]?.logIndex ?? 0, error, logs: own });
    }
  }
  return { block, events, matches, operators, refused, shares };
}

/** The logs that tell how shares move, and the others. */
function partition(
  logs: readonly ChainLog[],
  { shares }: Chain,
): readonly [readonly ChainLog[], readonly ChainLog[]] {
  if (shares === undefined) return [[], logs];
  const isOfShares = ({ address, topics: [topic] }: ChainLog) =>
    topic !== undefined && logsShares(address, topic, shares);
  return [logs.filter(isOfShares), logs.filter((log) => !isOfShares(log))];
}

/** Counts the matches of each taker order inside a transaction. Call it with all of them, in order. */
export function countMatches(): (match: Pick<Match, 'txHash' | 'fills'>) => number {
  const next = new Map<string, number>();
  return ({ txHash, fills }) => {
    const key = `${txHash}:${fills.at(-1)?.orderHash}`;
    const ordinal = next.get(key) ?? 0;
    next.set(key, ordinal + 1);
    return ordinal;
  };
}

/** The facts of a block without events. */
export function nothingIn(block: BlockHead): BlockFacts {
  return { block, events: [], matches: [], operators: [], refused: [], shares: new Map() };
}

/** The orders behind a match by their hashes; empty if its calldata does not contain them. */
export function ordersOf(
  { call, exchange }: SentMatch,
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
