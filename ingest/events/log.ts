/**
 * The common parts of all chain events: a log, the words inside it, and the reasons to refuse it. Each kind
 * of event is a file next to this one and a row of the table in decode.ts.
 */
import { type AbiParameter, decodeAbiParameters, type Hex } from 'viem';
import { AMOUNT_MAX, type TradingEvent } from '../contract.ts';

/** A log as JSON-RPC returns it, numbers parsed; all hex in lower case. */
export type ChainLog = {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly transactionHash: Hex;
  readonly logIndex: number;
};

/** Filter of a search for logs; addresses in lower case. */
export type LogFilter = {
  readonly addresses: readonly string[];
  readonly topics: readonly Hex[];
};

/**
 * Logs of contracts that changed or are unknown: a watched contract was upgraded, an operator moves shares of many owners, or
 * a token that the exchanges trade belongs to no known market.
 */
export const ALARM_REASONS = ['upgraded', 'unknown_operator', 'foreign_token'] as const;

/** Why a log or a call was refused; each reason has its own counter. */
export const REFUSAL_REASONS = [
  'not_watched',
  'unknown_topic',
  'bad_topics',
  'bad_data',
  'bad_side',
  'amount_too_large',
  'not_match_orders',
  'bad_calldata',
  'no_makers',
  'zero_maker_amount',
  'orphan_fill',
  'taker_mismatch',
  'unknown_token',
  'bad_payouts',
  ...ALARM_REASONS,
] as const;
export type RefusalReason = (typeof REFUSAL_REASONS)[number];

/** A log or a call breaks a rule: `reason` names the rule, the message contains the value. */
export class DecodeError extends Error {
  readonly reason: RefusalReason;

  constructor(reason: RefusalReason, message: string) {
    super(`${reason}: ${message}`);
    this.reason = reason;
  }
}

/** A kind of event: the logs that it consists of, and the form in which LEDGER stores it. */
export type EventKind<Logged> = {
  readonly contract: 'exchange' | 'conditionalTokens' | 'module';
  /** topic0 of its logs. */
  readonly topics: readonly Hex[];
  /** Starts reading the logs of one block. */
  readonly reader: () => LogReader<Logged>;
  /** Throws DecodeError if its market is unknown. Missing if LEDGER does not store events of this kind. */
  readonly store?: (event: Logged, of: EventContext) => Promise<TradingEvent>;
};

export type LogReader<Logged> = {
  /** The event that this log completes. Throws DecodeError. */
  readonly read: (log: ChainLog) => Logged | undefined;
  /** Logs that belong to no event, at the end of the block. */
  readonly left?: () => readonly { readonly log: ChainLog; readonly error: DecodeError }[];
};

/** The data that an event needs, besides its logs, to be stored. */
export type EventContext = {
  readonly blockNumber: number;
  /** Seconds since the epoch. */
  readonly blockTime: number;
  /** Input of the transaction if it was sent directly to this contract; else ''. */
  readonly callTo: (contract: Hex, txHash: Hex) => Hex | '';
  readonly markets: Markets;
};

/** Finds the market of a token. */
export type Markets = {
  /** The outcome index of a token in a condition; undefined if it is none of its tokens. */
  readonly outcomeOf: (conditionId: string, token: string, exchange: string) => 0 | 1 | undefined;
  /** May wait for the metadata API; undefined if the token is unknown. */
  readonly conditionOfToken: (token: string) => Promise<Hex | undefined>;
};

export type Side = 'BUY' | 'SELL';

/** Decodes the log's data as these types. Throws DecodeError unless it has exactly `words` words. */
export function decodeData<const Types extends readonly AbiParameter[]>(
  { data }: ChainLog,
  types: Types,
  words: number,
) {
  const bytes = (data.length - 2) / 2;
  if (bytes !== words * 32) throw new DecodeError('bad_data', `${bytes} bytes, not ${words * 32}`);
  return decodeAbiParameters(types, Buffer.from(data.slice(2), 'hex'));
}

export function addressTopic(log: ChainLog, index: number): Hex {
  const topic = log.topics[index];
  if (topic === undefined || !/^0x0{24}[0-9a-f]{40}$/.test(topic)) {
    throw new DecodeError('bad_topics', `topic ${index} is not an address`);
  }
  return addressOf(topic);
}

export function addressOf(word: Hex): Hex {
  return `0x${word.slice(26)}`;
}

export function sideOf(value: bigint): Side {
  if (value === 0n) return 'BUY';
  if (value === 1n) return 'SELL';
  throw new DecodeError('bad_side', value.toString());
}

/** Throws DecodeError above AMOUNT_MAX: such an amount cannot be real, and JSON could not carry it. */
export function boundedAmount(amount: bigint): bigint {
  if (amount > AMOUNT_MAX || amount < 0n) {
    throw new DecodeError('amount_too_large', amount.toString());
  }
  return amount;
}
