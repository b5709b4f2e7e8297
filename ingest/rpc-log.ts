/**
 * Logs as JSON-RPC gives them, parsed by hand: they come by the million, and a schema takes 4 µs and makes
 * several objects for each. It accepts exactly what the schema of test/unit/rpc-log.test.ts accepts.
 */
import type { Hex } from 'viem';
import type { ChainLog } from './decode-logs.ts';
import { RpcAnswerError } from './rpc-error.ts';

/** A log with the block that it says it is of. */
export type RangeLog = ChainLog & { readonly blockHash: Hex; readonly blockNumber: number };

const DATA = /^0x[0-9a-f]*$/;
const QUANTITY = /^0x[0-9a-f]+$/;
const UPPER_CASE = /[A-Z]/;

/** The logs of an answer. Throws RpcAnswerError, which names the field. */
export function parseLogs(answer: unknown): RangeLog[] {
  if (!Array.isArray(answer)) throw new RpcAnswerError('logs are no list');
  return answer.map(parseLog);
}

function parseLog(value: unknown): RangeLog {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new RpcAnswerError('a log is no object');
  }
  const log = value as Readonly<Record<string, unknown>>;
  if (!Array.isArray(log.topics)) throw new RpcAnswerError('topics of a log');
  return {
    address: lowerCase(log.address, 'address'),
    topics: log.topics.map((topic) => data(topic, 'topics')),
    data: lowerCase(log.data, 'data'),
    transactionHash: data(log.transactionHash, 'transactionHash'),
    logIndex: quantity(log.logIndex, 'logIndex'),
    blockHash: data(log.blockHash, 'blockHash'),
    blockNumber: quantity(log.blockNumber, 'blockNumber'),
  };
}

function data(value: unknown, name: string): Hex {
  if (typeof value === 'string' && value.length % 2 === 0 && DATA.test(value)) return value as Hex;
  throw new RpcAnswerError(`${name} of a log`);
}

function quantity(value: unknown, name: string): number {
  const number = typeof value === 'string' && QUANTITY.test(value) ? Number(value) : Number.NaN;
  if (!Number.isSafeInteger(number)) throw new RpcAnswerError(`${name} of a log`);
  return number;
}

function lowerCase(value: unknown, name: string): Hex {
  if (typeof value !== 'string') throw new RpcAnswerError(`${name} of a log`);
  return inLowerCase(value);
}

/** Nodes answer in lower case nearly always: a test makes no copy. */
export function inLowerCase(text: string): Hex {
  return (UPPER_CASE.test(text) ? text.toLowerCase() : text) as Hex;
}
