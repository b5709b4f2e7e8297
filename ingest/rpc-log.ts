/**
 * Logs as JSON-RPC gives them, parsed by hand. It accepts exactly what the schema of
 * test/unit/rpc-log.test.ts accepts.
 */
import type { Hex } from 'viem';
import type { ChainLog } from './decode-logs.ts';
import { RpcAnswerError } from './rpc-error.ts';
import { dataOf, fieldsOf, lowerCaseOf, quantityOf } from './rpc-field.ts';

/** A log with the block that it says it is of. */
export type RangeLog = ChainLog & { readonly blockHash: Hex; readonly blockNumber: number };

/** The logs of an answer. Throws RpcAnswerError, which names the field. */
export function parseLogs(answer: unknown): RangeLog[] {
  if (!Array.isArray(answer)) throw new RpcAnswerError('logs are no list');
  return answer.map(parseLog);
}

function parseLog(value: unknown): RangeLog {
  const log = fieldsOf(value, 'a log');
  if (!Array.isArray(log.topics)) throw new RpcAnswerError('topics of a log');
  return {
    address: lowerCaseOf(log.address, 'address of a log'),
    topics: log.topics.map((topic) => dataOf(topic, 'topics of a log')),
    data: dataOf(lowerCaseOf(log.data, 'data of a log'), 'data of a log'),
    transactionHash: dataOf(log.transactionHash, 'transactionHash of a log'),
    logIndex: quantityOf(log.logIndex, 'logIndex of a log'),
    blockHash: dataOf(log.blockHash, 'blockHash of a log'),
    blockNumber: quantityOf(log.blockNumber, 'blockNumber of a log'),
  };
}
