/**
 * Logs as JSON-RPC gives them, parsed by hand. It accepts exactly what the schema of
 * test/unit/rpc-log.test.ts accepts.
 */
import type { Hex } from 'viem';
import type { ChainLog } from './decode.ts';
import { RpcAnswerError } from './rpc-error.ts';
import { dataOf, fieldsOf, lowerCaseOf, quantityOf } from './rpc-field.ts';

/** A log with the block that it says it is of. */
export type RangeLog = ChainLog & { readonly blockHash: Hex; readonly blockNumber: number };

/** The logs of an answer. Throws RpcAnswerError, which names the field. */
export function parseLogs(answer: unknown): RangeLog[] {
  if (!Array.isArray(answer)) throw new RpcAnswerError('logs are no list');
  let before: RangeLog | undefined;
  return answer.map((value) => {
    before = parseLog(value, before);
    return before;
  });
}

/** What a log has in common with the one before it is the same text in memory, and read once. */
function parseLog(value: unknown, before: RangeLog | undefined): RangeLog {
  const { address, topics, data, transactionHash, logIndex, blockHash, blockNumber } = fieldsOf(
    value,
    'a log',
  );
  if (!Array.isArray(topics)) throw new RpcAnswerError('topics of a log');
  const shared = (field: unknown, known: Hex | undefined, name: string) =>
    known !== undefined && field === known ? known : dataOf(field, name);
  const known = before?.address;
  return {
    address:
      known !== undefined && address === known ? known : lowerCaseOf(address, 'address of a log'),
    topics: topics.map((topic, i) => shared(topic, before?.topics[i], 'topics of a log')),
    data: dataOf(lowerCaseOf(data, 'data of a log'), 'data of a log'),
    transactionHash: shared(transactionHash, before?.transactionHash, 'transactionHash of a log'),
    logIndex: quantityOf(logIndex, 'logIndex of a log'),
    blockHash: shared(blockHash, before?.blockHash, 'blockHash of a log'),
    blockNumber: quantityOf(blockNumber, 'blockNumber of a log'),
  };
}
