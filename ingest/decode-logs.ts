/**
 * Decodes the logs of one block into matches, resolutions and operator changes. Pure.
 * A match is a run of OrderFilled logs of one exchange in one transaction that an OrdersMatched log
 * closes; the taker's own OrderFilled names the exchange as its counterparty. OrdersMatched repeats
 * the taker's fill and adds nothing. FeeCharged carries no order and adds nothing.
 */
import type { Hex } from 'viem';
import { boundedAmount, type Side } from './decode.ts';
import { DecodeError } from './decode-error.ts';
import { TOPICS } from './exchange-abi.ts';

const WORD_DIGITS = 64;
/** A number of so many hex digits is exact. */
const SMALL_DIGITS = 13;
const [ZERO, NINE, SMALL_A, SMALL_F] = [0x30, 0x39, 0x61, 0x66];

/** A log as JSON-RPC gives it, numbers parsed; addresses and data in lower case. */
export type ChainLog = {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly transactionHash: Hex;
  readonly logIndex: number;
};

export type LoggedFill = {
  readonly logIndex: number;
  readonly orderHash: Hex;
  readonly trader: Hex;
  readonly isTaker: boolean;
  readonly side: Side;
  readonly tokenId: bigint;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

/** One match; `fills` in log order, the taker last; `logIndex` is that of its OrdersMatched. */
export type LoggedMatch = {
  readonly exchange: Hex;
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly fills: readonly LoggedFill[];
};

export type LoggedResolution = {
  readonly txHash: Hex;
  readonly logIndex: number;
  readonly conditionId: Hex;
  readonly payouts: readonly [bigint, bigint];
};

/** An operator was added to an exchange, or removed from it. */
export type LoggedOperator = {
  readonly exchange: Hex;
  readonly operator: Hex;
  readonly allowed: boolean;
};

export type DecodedLogs = {
  readonly matches: readonly LoggedMatch[];
  readonly resolutions: readonly LoggedResolution[];
  readonly operators: readonly LoggedOperator[];
  readonly refused: readonly { readonly log: ChainLog; readonly error: DecodeError }[];
};

/** The contracts whose logs count; addresses in lower case. */
export type WatchedContracts = {
  readonly exchanges: ReadonlySet<string>;
  readonly conditionalTokens: string;
};

/** Decodes the logs of one block, in log order. Never throws on a log: what is bad is in `refused`. */
export function decodeLogs(logs: readonly ChainLog[], watched: WatchedContracts): DecodedLogs {
  const matches: LoggedMatch[] = [];
  const resolutions: LoggedResolution[] = [];
  const operators: LoggedOperator[] = [];
  const refused: { log: ChainLog; error: DecodeError }[] = [];
  // Fills that wait for their OrdersMatched, by exchange and transaction.
  const open = new Map<string, { log: ChainLog; fill: LoggedFill }[]>();
  for (const log of logs) {
    try {
      if (log.address === watched.conditionalTokens) {
        const resolution = decodeResolution(log);
        if (resolution !== undefined) resolutions.push(resolution);
        continue;
      }
      if (!watched.exchanges.has(log.address)) throw new DecodeError('not_watched', log.address);
      const key = `${log.address}:${log.transactionHash}`;
      const topic = log.topics[0];
      if (topic === TOPICS.orderFilled) {
        const waiting = open.get(key) ?? [];
        waiting.push({ log, fill: decodeOrderFilled(log) });
        open.set(key, waiting);
      } else if (topic === TOPICS.ordersMatched) {
        matches.push(closeMatch(log, open.get(key) ?? []));
        open.delete(key);
      } else if (topic === TOPICS.newOperator || topic === TOPICS.removedOperator) {
        operators.push({
          exchange: log.address,
          operator: addressTopic(log, 1),
          allowed: topic === TOPICS.newOperator,
        });
      } else if (topic !== TOPICS.feeCharged) {
        throw new DecodeError('unknown_topic', topic ?? 'no topic');
      }
    } catch (error) {
      if (!(error instanceof DecodeError)) throw error;
      refused.push({ log, error });
    }
  }
  for (const waiting of open.values()) {
    for (const { log } of waiting) {
      refused.push({ log, error: new DecodeError('orphan_fill', 'no OrdersMatched follows') });
    }
  }
  return { matches, resolutions, operators, refused };
}

/** The fill of one OrderFilled log. Throws DecodeError when it is malformed. */
export function decodeOrderFilled(log: ChainLog): LoggedFill {
  if (log.topics[0] !== TOPICS.orderFilled) {
    throw new DecodeError('unknown_topic', log.topics[0] ?? 'no topic');
  }
  if (log.topics.length !== 4) throw new DecodeError('bad_topics', `${log.topics.length} topics`);
  const word = words(log, 7);
  const side = sideOf(word(0));
  const [making, taking] = [boundedAmount(word(2)), boundedAmount(word(3))];
  return {
    logIndex: log.logIndex,
    orderHash: log.topics[1] as Hex,
    trader: addressTopic(log, 2),
    isTaker: addressTopic(log, 3) === log.address,
    side,
    tokenId: word(1),
    shares: side === 'BUY' ? taking : making,
    usdc: side === 'BUY' ? making : taking,
    fee: boundedAmount(word(4)),
  };
}

function closeMatch(log: ChainLog, waiting: readonly { readonly fill: LoggedFill }[]): LoggedMatch {
  const fills = waiting.map(({ fill }) => fill);
  const taker = fills.at(-1);
  const word = words(log, 4);
  const side = sideOf(word(0));
  const [usdc, shares] = side === 'BUY' ? [word(2), word(3)] : [word(3), word(2)];
  const agrees =
    taker?.isTaker === true &&
    fills.slice(0, -1).every((fill) => !fill.isTaker) &&
    taker.orderHash === log.topics[1] &&
    taker.side === side &&
    taker.tokenId === word(1) &&
    taker.usdc === usdc &&
    taker.shares === shares;
  if (!agrees)
    throw new DecodeError('taker_mismatch', 'OrdersMatched does not repeat a taker fill');
  return { exchange: log.address, txHash: log.transactionHash, logIndex: log.logIndex, fills };
}

function decodeResolution(log: ChainLog): LoggedResolution | undefined {
  if (log.topics[0] !== TOPICS.conditionResolution) return undefined;
  if (log.topics.length !== 4) throw new DecodeError('bad_topics', `${log.topics.length} topics`);
  const slots = wordCount(log) > 0 ? words(log, wordCount(log))(0) : 0n;
  // Conditions with more than two outcomes exist on the shared contract; the exchange trades none.
  if (slots !== 2n) return undefined;
  const word = words(log, 5);
  const payouts = [boundedAmount(word(3)), boundedAmount(word(4))] as const;
  if (word(1) !== 64n || word(2) !== 2n || payouts[0] + payouts[1] === 0n) {
    throw new DecodeError('bad_payouts', log.data);
  }
  return {
    txHash: log.transactionHash,
    logIndex: log.logIndex,
    conditionId: log.topics[1] as Hex,
    payouts,
  };
}

function addressTopic(log: ChainLog, index: number): Hex {
  const topic = log.topics[index];
  if (topic === undefined || !/^0x0{24}[0-9a-f]{40}$/.test(topic)) {
    throw new DecodeError('bad_topics', `topic ${index} is no address`);
  }
  return `0x${topic.slice(26)}`;
}

function wordCount(log: ChainLog): number {
  return (log.data.length - 2) / WORD_DIGITS;
}

/** Reader of the log's 32-byte words. Throws DecodeError unless there are exactly `count`. */
function words(log: ChainLog, count: number): (index: number) => bigint {
  if (wordCount(log) !== count) {
    throw new DecodeError('bad_data', `${(log.data.length - 2) / 2} bytes, not ${count * 32}`);
  }
  return (index) => {
    const at = 2 + index * WORD_DIGITS;
    const small = smallWord(log.data, at);
    return small === undefined
      ? BigInt(`0x${log.data.slice(at, at + WORD_DIGITS)}`)
      : BigInt(small);
  };
}

/** The word there, if it is a number below 2⁵²: most are, and this makes no text and no large bigint. */
function smallWord(data: string, at: number): number | undefined {
  let value = 0;
  for (let i = 0; i < WORD_DIGITS; i++) {
    const code = data.charCodeAt(at + i);
    let digit: number;
    if (code >= ZERO && code <= NINE) digit = code - ZERO;
    else if (code >= SMALL_A && code <= SMALL_F) digit = code - SMALL_A + 10;
    else return undefined;
    if (digit !== 0 && i < WORD_DIGITS - SMALL_DIGITS) return undefined;
    value = value * 16 + digit;
  }
  return value;
}

function sideOf(word: bigint): Side {
  if (word === 0n) return 'BUY';
  if (word === 1n) return 'SELL';
  throw new DecodeError('bad_side', word.toString());
}
