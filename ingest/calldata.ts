/**
 * The arguments of `matchOrders` as they lie in calldata (contract ABI specification): words of 32 bytes,
 * and for what is dynamic the place where it begins. Read by hand, at a tenth of the cost of a general
 * decoder; a test holds the two against each other. Pure. It accepts what the contract's own decoder
 * does: nothing that ends early, and no address or small number with anything in its upper bytes.
 */
import type { Hex } from 'viem';
import { DecodeError } from './decode-error.ts';
import { MATCH_ORDERS_SELECTOR } from './exchange-abi.ts';
import { ORDER_BYTES } from './order-hash.ts';

const WORD = 32;
const ADDRESS_AT = 12;
/** Hex digits of `0x` and the selector. */
const HEAD_DIGITS = 10;
const CONDITION_DIGITS = HEAD_DIGITS + 2 * WORD;
/** Places of the arguments' words. */
const CONDITION = 0;
const TAKER_ORDER = WORD;
const MAKER_ORDERS = 2 * WORD;
const TAKER_FILL = 3 * WORD;
const MAKER_FILLS = 4 * WORD;
const TAKER_FEE = 5 * WORD;
const MAKER_FEES = 6 * WORD;

/** An order without salt, signer, metadata, builder and signature, which only its hash needs. */
export type Order = {
  readonly maker: Hex;
  readonly tokenId: bigint;
  readonly makerAmount: bigint;
  readonly takerAmount: bigint;
  readonly side: number;
  readonly signatureType: number;
  readonly timestamp: bigint;
  /** Its first ORDER_BYTES bytes, for its hash; only valid as long as the calldata. */
  readonly words: Uint8Array;
};

/** Arguments of a call; amounts are raw uint256. */
export type MatchArguments = {
  readonly conditionId: Hex;
  readonly takerOrder: Order;
  readonly makerOrders: readonly Order[];
  readonly takerFillAmount: bigint;
  readonly makerFillAmounts: readonly bigint[];
  readonly takerFeeAmount: bigint;
  readonly makerFeeAmounts: readonly bigint[];
};

/** The condition that a call names; undefined where it is no `matchOrders`. Nothing else is read. */
export function conditionOfCall(input: Hex): Hex | undefined {
  if (!input.startsWith(MATCH_ORDERS_SELECTOR) || input.length < CONDITION_DIGITS) return undefined;
  return `0x${input.slice(HEAD_DIGITS, CONDITION_DIGITS)}`;
}

/** How many makers a call names; undefined where it is no `matchOrders`. Nothing else is read. */
export function makersOfCall(input: Hex): number | undefined {
  if (!input.startsWith(MATCH_ORDERS_SELECTOR)) return undefined;
  const word = (at: number) => {
    const digits = input.slice(HEAD_DIGITS + 2 * at, HEAD_DIGITS + 2 * (at + WORD));
    return digits.length === 2 * WORD ? Number(`0x${digits}`) : Number.NaN;
  };
  const makers = word(word(MAKER_ORDERS));
  return Number.isSafeInteger(makers) ? makers : undefined;
}

/** Arguments of a `matchOrders` call. Throws DecodeError when the data is no well-formed call. */
export function readArguments(input: Hex): MatchArguments {
  if (!input.startsWith(MATCH_ORDERS_SELECTOR)) {
    throw new DecodeError('not_match_orders', `selector ${input.slice(0, HEAD_DIGITS)}`);
  }
  const digits = input.slice(HEAD_DIGITS);
  const data = Buffer.from(digits, 'hex');
  // What is no hex ends the bytes.
  if (data.length * 2 !== digits.length) throw malformed('digits that are no hex');
  return {
    conditionId: `0x${hex(data, CONDITION, WORD)}`,
    takerOrder: orderAt(data, place(data, TAKER_ORDER, 0)),
    makerOrders: ordersAt(data, place(data, MAKER_ORDERS, 0)),
    takerFillAmount: uint(data, TAKER_FILL),
    makerFillAmounts: uintsAt(data, place(data, MAKER_FILLS, 0)),
    takerFeeAmount: uint(data, TAKER_FEE),
    makerFeeAmounts: uintsAt(data, place(data, MAKER_FEES, 0)),
  };
}

function orderAt(data: Buffer, at: number): Order {
  need(data, at, ORDER_BYTES);
  const signature = place(data, at + ORDER_BYTES, at);
  need(data, signature + WORD, place(data, signature, 0));
  // The signer is in the hash alone.
  address(data, at + 2 * WORD);
  return {
    maker: address(data, at + WORD),
    tokenId: uint(data, at + 3 * WORD),
    makerAmount: uint(data, at + 4 * WORD),
    takerAmount: uint(data, at + 5 * WORD),
    side: uint8(data, at + 6 * WORD),
    signatureType: uint8(data, at + 7 * WORD),
    timestamp: uint(data, at + 8 * WORD),
    words: data.subarray(at, at + ORDER_BYTES),
  };
}

/** An array of orders: its length, and for each the place after the length where it begins. */
function ordersAt(data: Buffer, at: number): Order[] {
  const first = at + WORD;
  return Array.from({ length: lengthAt(data, at) }, (_, i) =>
    orderAt(data, place(data, first + i * WORD, first)),
  );
}

function uintsAt(data: Buffer, at: number): bigint[] {
  return Array.from({ length: lengthAt(data, at) }, (_, i) => uint(data, at + WORD * (i + 1)));
}

/** Length of an array of which each element takes at least a word. */
function lengthAt(data: Buffer, at: number): number {
  const length = place(data, at, 0);
  need(data, at + WORD, length * WORD);
  return length;
}

/** The number at `at`, counted from `from`; it must be inside of the data. */
function place(data: Buffer, at: number, from: number): number {
  const value = uint(data, at);
  if (value > BigInt(data.length)) throw malformed(`${value} is not inside`);
  return from + Number(value);
}

function uint8(data: Buffer, at: number): number {
  const value = uint(data, at);
  if (value > 255n) throw malformed(`${value} is no uint8`);
  return Number(value);
}

function address(data: Buffer, at: number): Hex {
  if (uint(data, at) >> 160n !== 0n) throw malformed('no address');
  return `0x${hex(data, at + ADDRESS_AT, WORD - ADDRESS_AT)}`;
}

function uint(data: Buffer, at: number): bigint {
  need(data, at, WORD);
  const low = data.readBigUInt64BE(at + 24);
  const high = data.readBigUInt64BE(at);
  const [upper, lower] = [data.readBigUInt64BE(at + 8), data.readBigUInt64BE(at + 16)];
  if (high === 0n && upper === 0n && lower === 0n) return low;
  return (high << 192n) | (upper << 128n) | (lower << 64n) | low;
}

function hex(data: Buffer, at: number, length: number): string {
  need(data, at, length);
  return data.toString('hex', at, at + length);
}

/** Throws DecodeError where the data ends before `length` bytes from `at` on. */
function need(data: Buffer, at: number, length: number): void {
  if (at + length > data.length) throw malformed(`${data.length} bytes, not ${at + length}`);
}

function malformed(message: string): DecodeError {
  return new DecodeError('bad_calldata', message);
}
