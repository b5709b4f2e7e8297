/**
 * Decodes calldata: a call that matches orders into the fills that its transaction logs if it is mined. Pure. The rules
 * follow the contracts' source and are checked against real transactions and random matches on a local chain.
 *
 * Version 2 of the exchange names the condition in its call. Version 3 does not, because the ids of its tokens do, and can
 * prepare a combo in the same call.
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
  toFunctionSelector,
} from 'viem';
import { keccak256Hex } from '../../infra/keccak.ts';
import { addressOf, boundedAmount, DecodeError, type Side, sideOf } from './log.ts';
import { structuredId } from './structured-ids.ts';

const ORDER =
  'struct Order { uint256 salt; address maker; address signer; uint256 tokenId; uint256 makerAmount; uint256 takerAmount; uint8 side; uint8 signatureType; uint256 timestamp; bytes32 metadata; bytes32 builder; bytes signature; }';
const TAKER_AMOUNTS =
  'struct TakerAmounts { uint256 takerFillAmount; uint256 takerReceiveAmount; uint256 takerFeeAmount; }';

export const MATCH_ORDERS_ABI = parseAbi([
  ORDER,
  'function matchOrders(bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts)',
]);
export const MATCH_ORDERS_V3_ABI = parseAbi([
  ORDER,
  TAKER_AMOUNTS,
  'function matchOrders(Order takerOrder, Order[] makerOrders, uint256[] makerFillAmounts, uint256[] makerFeeAmounts, TakerAmounts takerAmounts)',
  'function matchOrdersAndPrepareCombinatorial(Order takerOrder, Order[] makerOrders, uint256[] makerFillAmounts, uint256[] makerFeeAmounts, TakerAmounts takerAmounts, uint256[] combinatorialLegs)',
]);

/** First four bytes of a call. */
const SELECTOR = toFunctionSelector(MATCH_ORDERS_ABI[0]);
const SELECTORS_V3: readonly string[] = MATCH_ORDERS_V3_ABI.map((call) => toFunctionSelector(call));

/**
 * The eleven fields of an order before its signature are raw words, because the order hash covers exactly these, and viem
 * would compute a checksum for every address.
 */
const ORDER_WORDS = 'struct Order { bytes32[11] words; bytes signature; }';
const CALL = parseAbiParameters([
  'bytes32 conditionId, Order takerOrder, Order[] makerOrders, uint256 takerFillAmount, uint256[] makerFillAmounts, uint256 takerFeeAmount, uint256[] makerFeeAmounts',
  ORDER_WORDS,
]);
/** Both calls begin with these. */
const CALL_V3 = parseAbiParameters([
  'Order takerOrder, Order[] makerOrders, uint256[] makerFillAmounts, uint256[] makerFeeAmounts, TakerAmounts takerAmounts',
  ORDER_WORDS,
  TAKER_AMOUNTS,
]);
/** EIP-712 type hash of the order, all fields except the signature. */
const ORDER_TYPE_HASH = 'bb86318a2138f5fa8ae32fbe8e659f8fcf13cc6ae4014a707893055433818589';
/** `0x` and the digits of a word. */
const WORD_LENGTH = 66;
const SELECTOR_LENGTH = 10;
/** Last instant of an ECMAScript Date. */
const DATE_MS_MAX = 8_640_000_000_000_000n;

/** A fill; amounts in micro-units, `usdc` without the fee. */
export type MatchedFill = {
  readonly orderHash: Hex;
  readonly trader: Hex;
  readonly side: Side;
  /** Decimal. */
  readonly tokenId: string;
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

/** Whether the input is a call that matches orders, of either version. */
export function isMatchCall(input: string): boolean {
  return input.startsWith(SELECTOR) || isCallV3(input);
}

function isCallV3(input: string): boolean {
  return SELECTORS_V3.includes(input.slice(0, SELECTOR_LENGTH));
}

/** The condition that a call of version 2 names; undefined for any other input. Reads no other argument. */
export function conditionOfCall(input: Hex | ''): Hex | undefined {
  const end = SELECTOR_LENGTH + WORD_LENGTH - 2;
  if (!input.startsWith(SELECTOR) || input.length < end) return undefined;
  return `0x${input.slice(SELECTOR_LENGTH, end)}`;
}

/** The number of makers of a call, from the length of its array; undefined for any other input. */
export function makersOfCall(input: Hex): number | undefined {
  if (!isMatchCall(input)) return undefined;
  const numberAt = (byte: number) => {
    const start = SELECTOR_LENGTH + byte * 2;
    return Number(`0x${input.slice(start, start + WORD_LENGTH - 2)}`);
  };
  // An argument before the last ones is the offset of the makers, which begin with their number.
  const makers = numberAt(numberAt(isCallV3(input) ? 32 : 64));
  return Number.isSafeInteger(makers) ? makers : undefined;
}

type Arguments = {
  /** Undefined in version 3. */
  readonly named: Hex | undefined;
  readonly takerWords: OrderWords;
  readonly makerWords: readonly OrderWords[];
  readonly takerFillAmount: bigint;
  readonly makerFillAmounts: readonly bigint[];
  readonly takerFeeAmount: bigint;
  readonly makerFeeAmounts: readonly bigint[];
};

function argumentsOf(input: Hex): Arguments {
  if (isCallV3(input)) {
    const [taker, makers, makerFillAmounts, makerFeeAmounts, amounts] = decodeArguments(
      CALL_V3,
      input,
    );
    const { takerFillAmount, takerFeeAmount } = amounts;
    return {
      ...{
        named: undefined,
        takerWords: taker.words,
        makerWords: makers.map(({ words }) => words),
      },
      ...{ takerFillAmount, makerFillAmounts, takerFeeAmount, makerFeeAmounts },
    };
  }
  if (!input.startsWith(SELECTOR))
    throw new DecodeError('not_match_orders', `selector ${input.slice(0, SELECTOR_LENGTH)}`);
  const [named, taker, makers, takerFillAmount, makerFillAmounts, takerFeeAmount, makerFeeAmounts] =
    decodeArguments(CALL, input);
  return {
    ...{ named, takerWords: taker.words, makerWords: makers.map(({ words }) => words) },
    ...{ takerFillAmount, makerFillAmounts, takerFeeAmount, makerFeeAmounts },
  };
}

/**
 * The fills of one call to `exchange` on chain `chainId` that matches orders. A maker's taking amount is rounded down,
 * and the taker's fill is the sum of its makers' fills, never its limit price. Does not check whether the sender
 * may call. Throws DecodeError for a call that the contract would reject.
 */
export function decodeMatchCall(input: Hex, exchange: Hex, chainId: number): CalledMatch {
  const call = argumentsOf(input);
  const { takerWords, makerWords, makerFillAmounts, makerFeeAmounts } = call;
  for (const words of [takerWords, ...makerWords]) checkPadding(words);
  const { length } = makerWords;
  if (length === 0) throw new DecodeError('no_makers', 'no maker order');
  if (makerFillAmounts.length !== length || makerFeeAmounts.length !== length) {
    throw new DecodeError('bad_calldata', 'maker arrays differ in length');
  }
  const domain = { exchange, chainId, version: call.named === undefined ? 3 : 2 } as const;
  const makers = makerWords.map((words, i) =>
    makerFill(orderOf(words, domain), makerFillAmounts[i] ?? 0n, makerFeeAmounts[i] ?? 0n),
  );
  const order = orderOf(takerWords, domain);
  const taker = takerFill(order, makers, call, domain);
  const conditionId = call.named ?? structuredId(order.tokenId)?.conditionId;
  if (conditionId === undefined) throw new DecodeError('unknown_token', order.tokenId);
  return { conditionId, taker, makers };
}

/** Throws DecodeError unless these are the types of the well-formed arguments of a call. */
function decodeArguments<const Types extends readonly AbiParameter[]>(types: Types, input: Hex) {
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

/** Of the hashes of orders. Version 3 has another one, and timestamps in seconds. */
type Domain = { readonly exchange: Hex; readonly chainId: number; readonly version: 2 | 3 };

/** salt, maker, signer, tokenId, makerAmount, takerAmount, side, signatureType, timestamp, metadata, builder */
type OrderWords = DecodeAbiParametersReturnType<typeof CALL>[1]['words'];

type Order = {
  readonly hash: Hex;
  readonly maker: Hex;
  readonly tokenId: string;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly side: Side;
  readonly signatureType: number;
  readonly timestampMs: bigint;
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

function orderOf(words: OrderWords, domain: Domain): Order {
  const [, maker, , tokenId, makerAmount, takerAmount, side, signatureType, timestamp] = words;
  return {
    hash: orderHash(words, domain),
    maker: addressOf(maker),
    tokenId: BigInt(tokenId).toString(),
    makerAmount: BigInt(makerAmount),
    takerAmount: BigInt(takerAmount),
    side: sideOf(BigInt(side)),
    signatureType: Number(signatureType),
    timestampMs: BigInt(timestamp) * (domain.version === 3 ? 1_000n : 1n),
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
  { takerFillAmount, takerFeeAmount: fee }: Arguments,
  { version }: Domain,
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
    // Mint: every maker adds shares. The taker pays the amount in the call; in version 3 what its makers leave.
    shares = sum((maker) => maker.shares);
    usdc =
      version === 2
        ? takerFillAmount
        : sum((maker) => (maker.side === 'SELL' ? maker.usdc : maker.shares - maker.usdc));
  } else {
    // Merge: a maker that sells the other outcome leaves 1 − its price for the taker.
    // In version 2 the taker gives the amount in the call, in version 3 what its makers take.
    shares = version === 2 ? takerFillAmount : sum((maker) => maker.shares);
    usdc = sum((maker) => (maker.side === 'BUY' ? maker.usdc : maker.shares - maker.usdc));
  }
  return calledFill(order, { shares, usdc }, fee);
}

function calledFill(
  order: Order,
  amounts: { readonly shares: bigint; readonly usdc: bigint },
  fee: bigint,
): CalledFill {
  const { hash, maker, side, tokenId, makerAmount, takerAmount, signatureType, timestampMs } =
    order;
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
      timestampMs: timestampMs <= DATE_MS_MAX ? Number(timestampMs) : 0,
    },
  };
}

/** By chain and exchange. Cached, because computing one takes 100 µs. */
const domainSeparators = new Map<string, Hex>();

/**
 * EIP-712 hash of an order. Calldata, logs and order books share this identity; it is topic 1 of the order's OrderFilled log.
 * `words` are all its fields except the signature.
 */
function orderHash(words: OrderWords, { exchange, chainId, version }: Domain): Hex {
  const key = `${chainId}:${exchange}:${version}`;
  const separator =
    domainSeparators.get(key) ??
    domainSeparator({
      domain: {
        name: 'Polymarket CTF Exchange',
        version: `${version}`,
        chainId,
        verifyingContract: exchange,
      },
    });
  domainSeparators.set(key, separator);
  const digits = words.map((word) => word.slice(2)).join('');
  const struct = keccak256Hex(Buffer.from(ORDER_TYPE_HASH + digits, 'hex'));
  return keccak256Hex(Buffer.from(`1901${separator.slice(2)}${struct.slice(2)}`, 'hex'));
}
