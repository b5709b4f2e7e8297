/**
 * Decodes the exchange: `matchOrders` calldata into the fills that the transaction emits if it is mined,
 * and the logs of a block into matches, resolutions and operator changes. Pure. The rules follow the
 * contracts' source and are checked against real transactions and random matches on a local chain.
 * Version 1 events have the same names but other topics, so they never match.
 */
import {
  type AbiParameter,
  BaseError,
  type DecodeAbiParametersReturnType,
  decodeAbiParameters,
  domainSeparator,
  type Hex,
  parseAbi,
  parseAbiParameters,
  toEventSelector,
  toFunctionSelector,
} from 'viem';
import { keccak256Hex } from '../../infra/keccak.ts';
import { AMOUNT_MAX } from '../contract.ts';

export const MATCH_ORDERS_ABI = parseAbi([
  'struct Order { uint256 salt; address maker; address signer; uint256 tokenId; uint256 makerAmount; uint256 takerAmount; uint8 side; uint8 signatureType; uint256 timestamp; bytes32 metadata; bytes32 builder; bytes signature; }',
  'function matchOrders(bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts)',
]);

/** First four bytes of a `matchOrders` call. */
export const MATCH_ORDERS_SELECTOR = toFunctionSelector(MATCH_ORDERS_ABI[0]);

/** topic0 of each event. */
export const TOPICS = {
  orderFilled: toEventSelector(
    'OrderFilled(bytes32,address,address,uint8,uint256,uint256,uint256,uint256,bytes32,bytes32)',
  ),
  ordersMatched: toEventSelector('OrdersMatched(bytes32,address,uint8,uint256,uint256,uint256)'),
  feeCharged: toEventSelector('FeeCharged(address,uint256)'),
  newOperator: toEventSelector('NewOperator(address,address)'),
  removedOperator: toEventSelector('RemovedOperator(address,address)'),
  conditionResolution: toEventSelector(
    'ConditionResolution(bytes32,address,bytes32,uint256,uint256[])',
  ),
} as const;

/** The events that are read from the exchanges and ConditionalTokens. FeeCharged adds nothing. */
const EXCHANGE_TOPICS: readonly Hex[] = [
  TOPICS.orderFilled,
  TOPICS.ordersMatched,
  TOPICS.newOperator,
  TOPICS.removedOperator,
];
const CONDITIONAL_TOKENS_TOPICS: readonly Hex[] = [TOPICS.conditionResolution];
export const WATCHED_TOPICS: readonly Hex[] = [...EXCHANGE_TOPICS, ...CONDITIONAL_TOKENS_TOPICS];

/**
 * The arguments of `matchOrders`. The eleven fields of an order before its signature are raw words, because the
 * order hash covers exactly these, and viem would compute a checksum for every address.
 */
const CALL = parseAbiParameters([
  'bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts',
  'struct Order { bytes32[11] words; bytes signature; }',
]);
/** Data of OrderFilled without its last two words, `builder` and `metadata`. */
const ORDER_FILLED = parseAbiParameters(
  'uint256 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled, uint256 fee',
);
const ORDERS_MATCHED = parseAbiParameters(
  'uint256 side, uint256 tokenId, uint256 makerAmountFilled, uint256 takerAmountFilled',
);
const OUTCOME_SLOTS = parseAbiParameters('uint256 outcomeSlotCount');
/** Data of ConditionResolution with two payouts, in raw layout: an array is offset, length, items. */
const TWO_PAYOUTS = parseAbiParameters(
  'uint256 outcomeSlotCount, uint256 offset, uint256 length, uint256 first, uint256 second',
);

/** EIP-712 type hash of the order, all fields except the signature. */
const ORDER_TYPE_HASH = 'bb86318a2138f5fa8ae32fbe8e659f8fcf13cc6ae4014a707893055433818589';
/** `0x` and the digits of a word. */
const WORD_LENGTH = 66;
const SELECTOR_LENGTH = 10;
/** Last instant of an ECMAScript Date. */
const DATE_MS_MAX = 8_640_000_000_000_000n;

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

type Side = 'BUY' | 'SELL';

/** A fill; amounts in micro-units, `usdc` without the fee. */
export type MatchedFill = {
  readonly orderHash: Hex;
  readonly trader: Hex;
  readonly side: Side;
  readonly tokenId: bigint;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

/** A fill as predicted from calldata. */
export type CalledFill = MatchedFill & {
  readonly order: {
    readonly shares: bigint;
    readonly usdc: bigint;
    readonly signatureType: number;
    readonly timestampMs: number;
  };
};

export type CalledMatch = {
  readonly conditionId: Hex;
  readonly taker: CalledFill;
  readonly makers: readonly CalledFill[];
};

/** The condition of a `matchOrders` call; undefined for any other input. Reads no other argument. */
export function conditionOfCall(input: Hex): Hex | undefined {
  const end = SELECTOR_LENGTH + WORD_LENGTH - 2;
  if (!input.startsWith(MATCH_ORDERS_SELECTOR) || input.length < end) return undefined;
  return `0x${input.slice(SELECTOR_LENGTH, end)}`;
}

/** The number of makers of a `matchOrders` call, from the length of its array; undefined for any other input. */
export function makersOfCall(input: Hex): number | undefined {
  if (!input.startsWith(MATCH_ORDERS_SELECTOR)) return undefined;
  const numberAt = (byte: number) => {
    const start = SELECTOR_LENGTH + byte * 2;
    return Number(`0x${input.slice(start, start + WORD_LENGTH - 2)}`);
  };
  // The third argument is the offset of the makers, which begin with their number.
  const makers = numberAt(numberAt(64));
  return Number.isSafeInteger(makers) ? makers : undefined;
}

/**
 * The fills of one `matchOrders` call to `exchange` on chain `chainId`. A maker's taking amount is rounded down,
 * and the taker's fill is the sum of its makers' fills, never its limit price. Does not check whether the sender
 * may call. Throws DecodeError for a call that the contract would reject.
 */
export function decodeMatchCall(input: Hex, exchange: Hex, chainId: number): CalledMatch {
  const [
    conditionId,
    takerOrder,
    makerOrders,
    takerFillAmount,
    makerFillAmounts,
    takerFeeAmount,
    makerFeeAmounts,
  ] = decodeArguments(CALL, input);
  for (const { words } of [takerOrder, ...makerOrders]) checkPadding(words);
  const { length } = makerOrders;
  if (length === 0) throw new DecodeError('no_makers', 'no maker order');
  if (makerFillAmounts.length !== length || makerFeeAmounts.length !== length) {
    throw new DecodeError('bad_calldata', 'maker arrays differ in length');
  }
  const makers = makerOrders.map(({ words }, i) => {
    const order = orderOf(words, exchange, chainId);
    return makerFill(order, makerFillAmounts[i] ?? 0n, makerFeeAmounts[i] ?? 0n);
  });
  const order = orderOf(takerOrder.words, exchange, chainId);
  const taker = takerFill(order, makers, takerFillAmount, takerFeeAmount);
  return { conditionId, taker, makers };
}

/** Throws DecodeError unless the input is a call with well-formed arguments of these types. */
function decodeArguments<const Types extends readonly AbiParameter[]>(types: Types, input: Hex) {
  if (!input.startsWith(MATCH_ORDERS_SELECTOR)) {
    throw new DecodeError('not_match_orders', `selector ${input.slice(0, SELECTOR_LENGTH)}`);
  }
  const digits = input.slice(SELECTOR_LENGTH);
  const data = Buffer.from(digits, 'hex');
  // `Buffer.from` stops at the first non-hex character.
  if (data.length * 2 !== digits.length) throw new DecodeError('bad_calldata', 'not hex');
  try {
    return decodeAbiParameters(types, data);
  } catch (error) {
    if (!(error instanceof BaseError)) throw error;
    throw new DecodeError('bad_calldata', error.shortMessage);
  }
}

/** salt, maker, signer, tokenId, makerAmount, takerAmount, side, signatureType, timestamp, metadata, builder */
type OrderWords = DecodeAbiParametersReturnType<typeof CALL>[1]['words'];

type Order = {
  readonly hash: Hex;
  readonly maker: Hex;
  readonly tokenId: bigint;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly side: Side;
  readonly signatureType: number;
  readonly timestamp: bigint;
};

/** Throws DecodeError for an address or a uint8 with non-zero upper bytes, as the contract does. */
function checkPadding(words: OrderWords): void {
  const [, maker, signer, , , , side, signatureType] = words;
  for (const word of [maker, signer]) {
    if (!/^0x0{24}/.test(word)) throw new DecodeError('bad_calldata', `${word} is not an address`);
  }
  for (const word of [side, signatureType]) {
    if (!/^0x0{62}/.test(word)) throw new DecodeError('bad_calldata', `${word} is not a uint8`);
  }
}

function orderOf(words: OrderWords, exchange: Hex, chainId: number): Order {
  const [, maker, , tokenId, makerAmount, takerAmount, side, signatureType, timestamp] = words;
  return {
    hash: orderHash(words, exchange, chainId),
    maker: addressOf(maker),
    tokenId: BigInt(tokenId),
    makerAmount: BigInt(makerAmount),
    takerAmount: BigInt(takerAmount),
    side: sideOf(BigInt(side)),
    signatureType: Number(signatureType),
    timestamp: BigInt(timestamp),
  };
}

function makerFill(order: Order, making: bigint, fee: bigint): CalledFill {
  if (order.makerAmount === 0n) throw new DecodeError('zero_maker_amount', 'a maker offers 0');
  // Rounds down, as the contract does: the maker receives the floor.
  const taking = (making * order.takerAmount) / order.makerAmount;
  const amounts =
    order.side === 'BUY' ? { usdc: making, shares: taking } : { shares: making, usdc: taking };
  return calledFill(order, amounts, fee);
}

function takerFill(
  order: Order,
  makers: readonly CalledFill[],
  takerFillAmount: bigint,
  fee: bigint,
): CalledFill {
  const { side } = order;
  const sum = (pick: (fill: CalledFill) => bigint) => makers.reduce((a, m) => a + pick(m), 0n);
  let shares: bigint;
  let usdc: bigint;
  if (makers.every((maker) => maker.side !== side)) {
    // Only complementary makers: the taker receives exactly the makers' amounts.
    shares = sum((maker) => maker.shares);
    usdc = sum((maker) => maker.usdc);
  } else if (side === 'BUY') {
    // Mint: every maker adds shares; the taker pays the amount in the call.
    shares = sum((maker) => maker.shares);
    usdc = takerFillAmount;
  } else {
    // Merge: a maker that sells the other outcome leaves 1 − its price for the taker.
    shares = takerFillAmount;
    usdc = sum((maker) => (maker.side === 'BUY' ? maker.usdc : maker.shares - maker.usdc));
  }
  return calledFill(order, { shares, usdc }, fee);
}

function calledFill(
  order: Order,
  amounts: { readonly shares: bigint; readonly usdc: bigint },
  fee: bigint,
): CalledFill {
  const { hash, maker, side, tokenId, makerAmount, takerAmount, signatureType, timestamp } = order;
  const [usdc, shares] = side === 'BUY' ? [makerAmount, takerAmount] : [takerAmount, makerAmount];
  return {
    orderHash: hash,
    trader: maker,
    side,
    tokenId,
    shares: boundedAmount(amounts.shares),
    usdc: boundedAmount(amounts.usdc),
    fee: boundedAmount(fee),
    order: {
      shares,
      usdc,
      signatureType,
      // The chain does not check this field; an impossible date becomes 0, "none".
      timestampMs: timestamp <= DATE_MS_MAX ? Number(timestamp) : 0,
    },
  };
}

/** By chain and exchange. Cached, because computing one takes 100 µs. */
const domainSeparators = new Map<string, Hex>();

/**
 * EIP-712 hash of an order of `exchange` on chain `chainId`. Calldata, logs and order books share this identity;
 * it is topic 1 of the order's OrderFilled log. `words` are all its fields except the signature.
 */
function orderHash(words: OrderWords, exchange: Hex, chainId: number): Hex {
  const key = `${chainId}:${exchange}`;
  const separator =
    domainSeparators.get(key) ??
    domainSeparator({
      domain: {
        name: 'Polymarket CTF Exchange',
        version: '2',
        chainId,
        verifyingContract: exchange,
      },
    });
  domainSeparators.set(key, separator);
  const digits = words.map((word) => word.slice(2)).join('');
  const struct = keccak256Hex(Buffer.from(ORDER_TYPE_HASH + digits, 'hex'));
  return keccak256Hex(Buffer.from(`1901${separator.slice(2)}${struct.slice(2)}`, 'hex'));
}

/** A log as JSON-RPC returns it, numbers parsed; all hex in lower case. */
export type ChainLog = {
  readonly address: Hex;
  readonly topics: readonly Hex[];
  readonly data: Hex;
  readonly transactionHash: Hex;
  readonly logIndex: number;
};

export type LoggedFill = MatchedFill & { readonly logIndex: number; readonly isTaker: boolean };

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

/** An operator was added to an exchange or removed from it. */
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

/** The contracts whose logs are read; addresses in lower case. */
export type WatchedContracts = {
  readonly exchanges: ReadonlySet<string>;
  readonly conditionalTokens: string;
};

/** Whether the contract at a watched address emits the event. */
export function canLog(address: string, topic: Hex, conditionalTokens: string): boolean {
  const topics = address === conditionalTokens ? CONDITIONAL_TOKENS_TOPICS : EXCHANGE_TOPICS;
  return topics.includes(topic);
}

/**
 * Decodes the logs of one block, in log order. A match is a run of OrderFilled logs of one exchange in one
 * transaction that an OrdersMatched log closes; the taker's own OrderFilled names the exchange as its
 * counterparty. OrdersMatched repeats the taker's fill, and FeeCharged names no order, so neither adds anything.
 * Never throws for a bad log; it is returned in `refused`.
 */
export function decodeLogs(logs: readonly ChainLog[], watched: WatchedContracts): DecodedLogs {
  const matches: LoggedMatch[] = [];
  const resolutions: LoggedResolution[] = [];
  const operators: LoggedOperator[] = [];
  const refused: { log: ChainLog; error: DecodeError }[] = [];
  // Fills whose OrdersMatched has not come yet, by exchange and transaction.
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

/** The fill of one OrderFilled log. Throws DecodeError if it is malformed. */
export function decodeOrderFilled(log: ChainLog): LoggedFill {
  if (log.topics[0] !== TOPICS.orderFilled) {
    throw new DecodeError('unknown_topic', log.topics[0] ?? 'no topic');
  }
  if (log.topics.length !== 4) throw new DecodeError('bad_topics', `${log.topics.length} topics`);
  const [sideWord, tokenId, making, taking, fee] = decodeData(log, ORDER_FILLED, 7);
  const side = sideOf(sideWord);
  const [usdc, shares] = side === 'BUY' ? [making, taking] : [taking, making];
  return {
    logIndex: log.logIndex,
    orderHash: log.topics[1] as Hex,
    trader: addressTopic(log, 2),
    isTaker: addressTopic(log, 3) === log.address,
    side,
    tokenId,
    shares: boundedAmount(shares),
    usdc: boundedAmount(usdc),
    fee: boundedAmount(fee),
  };
}

function closeMatch(log: ChainLog, waiting: readonly { readonly fill: LoggedFill }[]): LoggedMatch {
  const fills = waiting.map(({ fill }) => fill);
  const taker = fills.at(-1);
  const [sideWord, tokenId, making, taking] = decodeData(log, ORDERS_MATCHED, 4);
  const side = sideOf(sideWord);
  const [usdc, shares] = side === 'BUY' ? [making, taking] : [taking, making];
  const agrees =
    taker?.isTaker === true &&
    fills.slice(0, -1).every((fill) => !fill.isTaker) &&
    taker.orderHash === log.topics[1] &&
    taker.side === side &&
    taker.tokenId === tokenId &&
    taker.usdc === usdc &&
    taker.shares === shares;
  if (!agrees)
    throw new DecodeError('taker_mismatch', 'OrdersMatched does not repeat a taker fill');
  return { exchange: log.address, txHash: log.transactionHash, logIndex: log.logIndex, fills };
}

function decodeResolution(log: ChainLog): LoggedResolution | undefined {
  if (log.topics[0] !== TOPICS.conditionResolution) return undefined;
  if (log.topics.length !== 4) throw new DecodeError('bad_topics', `${log.topics.length} topics`);
  const [slots] =
    log.data.length < WORD_LENGTH ? [0n] : decodeAbiParameters(OUTCOME_SLOTS, log.data);
  // The shared contract has conditions with more than two outcomes; the exchange trades none of them.
  if (slots !== 2n) return undefined;
  const [, offset, length, first, second] = decodeData(log, TWO_PAYOUTS, 5);
  const payouts = [boundedAmount(first), boundedAmount(second)] as const;
  if (offset !== 64n || length !== 2n || first + second === 0n) {
    throw new DecodeError('bad_payouts', log.data);
  }
  return {
    txHash: log.transactionHash,
    logIndex: log.logIndex,
    conditionId: log.topics[1] as Hex,
    payouts,
  };
}

/** Decodes the log's data as these types. Throws DecodeError unless it has exactly `words` words. */
function decodeData<const Types extends readonly AbiParameter[]>(
  { data }: ChainLog,
  types: Types,
  words: number,
) {
  const bytes = (data.length - 2) / 2;
  if (bytes !== words * 32) throw new DecodeError('bad_data', `${bytes} bytes, not ${words * 32}`);
  return decodeAbiParameters(types, Buffer.from(data.slice(2), 'hex'));
}

function addressTopic(log: ChainLog, index: number): Hex {
  const topic = log.topics[index];
  if (topic === undefined || !/^0x0{24}[0-9a-f]{40}$/.test(topic)) {
    throw new DecodeError('bad_topics', `topic ${index} is not an address`);
  }
  return addressOf(topic);
}

function addressOf(word: Hex): Hex {
  return `0x${word.slice(26)}`;
}

function sideOf(value: bigint): Side {
  if (value === 0n) return 'BUY';
  if (value === 1n) return 'SELL';
  throw new DecodeError('bad_side', value.toString());
}

/** Throws DecodeError above AMOUNT_MAX: such an amount cannot be real, and JSON could not carry it. */
function boundedAmount(amount: bigint): bigint {
  if (amount > AMOUNT_MAX || amount < 0n) {
    throw new DecodeError('amount_too_large', amount.toString());
  }
  return amount;
}
