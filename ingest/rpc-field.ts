/**
 * Fields of JSON-RPC answers that come by the million, read by hand: a schema takes microseconds and makes
 * objects for each. Every reader throws RpcAnswerError, which names the field.
 */
import type { Hex } from 'viem';
import { RpcAnswerError } from './rpc-error.ts';

export type Fields = Readonly<Record<string, unknown>>;

const DATA = /^0x[0-9a-f]*$/;
const QUANTITY = /^0x[0-9a-f]+$/;

export function fieldsOf(value: unknown, what: string): Fields {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Fields;
  throw new RpcAnswerError(`${what} is no object`);
}

/** Whole bytes in lower-case hex. */
export function dataOf(value: unknown, name: string): Hex {
  if (typeof value === 'string' && value.length % 2 === 0 && DATA.test(value)) return value as Hex;
  throw new RpcAnswerError(name);
}

/** A safe integer above or equal to 0. */
export function quantityOf(value: unknown, name: string): number {
  const number = typeof value === 'string' && QUANTITY.test(value) ? Number(value) : Number.NaN;
  if (!Number.isSafeInteger(number)) throw new RpcAnswerError(name);
  return number;
}

/** Any text, in lower case; nodes answer in it nearly always, and then this makes no copy. */
export function lowerCaseOf(value: unknown, name: string): Hex {
  if (typeof value !== 'string') throw new RpcAnswerError(name);
  return value.toLowerCase() as Hex;
}
