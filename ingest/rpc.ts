/**
 * The chain node over JSON-RPC: the few calls that ingest needs, parsed at the edge. Requests made in
 * the same tick travel as one batch. A request that fails is the caller's to repeat; a block that the
 * node does not have yet is `undefined`, never an empty block.
 */
import {
  createClient,
  decodeFunctionResult,
  encodeFunctionData,
  type Hex,
  http,
  numberToHex,
} from 'viem';
import { z } from 'zod';
import type { ChainLog } from './decode-logs.ts';
import { BALANCE_OF_ABI, TOPICS } from './exchange-abi.ts';

const REQUEST_MS_MAX = 10_000;
const BATCH_CALLS_MAX = 100;

const Quantity = z
  .string()
  .regex(/^0x[0-9a-f]+$/)
  .transform(Number)
  .pipe(z.int());
const Data = z
  .string()
  .regex(/^0x([0-9a-f]{2})*$/)
  .transform((text) => text as Hex);
const lowerCase = (text: string) => text.toLowerCase() as Hex;

/** A transaction as far as ingest reads it; `to` is null for a contract creation. */
export const Transaction = z.object({
  hash: Data,
  from: z.string().transform(lowerCase),
  to: z.string().transform(lowerCase).nullable().optional(),
  input: z.string().transform(lowerCase),
});
export type Transaction = z.infer<typeof Transaction>;

const Block = z.object({
  number: Quantity,
  hash: Data,
  parentHash: Data,
  timestamp: Quantity,
  transactions: z.array(Transaction),
});
export type Block = z.infer<typeof Block>;

const Log = z.object({
  address: z.string().transform(lowerCase),
  topics: z.array(Data),
  data: z.string().transform(lowerCase),
  transactionHash: Data,
  logIndex: Quantity,
  blockHash: Data,
});

/** Thrown when an answer has another shape than the JSON-RPC specification says. */
export class RpcAnswerError extends Error {}

export type Rpc = {
  blockNumber(tag: 'latest' | 'finalized'): Promise<number>;
  /** Undefined while the node does not have it. */
  block(number: number): Promise<Block | undefined>;
  /** Logs of the watched contracts in one block, in log order. Rejects when the node lacks it. */
  logs(blockHash: Hex, addresses: readonly string[]): Promise<readonly ChainLog[]>;
  /** ERC-20 balance at the end of a block. */
  balance(token: Hex, owner: Hex, blockNumber: number): Promise<bigint>;
};

const WATCHED_TOPICS = [
  TOPICS.orderFilled,
  TOPICS.ordersMatched,
  TOPICS.newOperator,
  TOPICS.removedOperator,
  TOPICS.conditionResolution,
];

export function connectRpc(url: string): Rpc {
  const client = createClient({
    transport: http(url, {
      batch: { batchSize: BATCH_CALLS_MAX },
      timeout: REQUEST_MS_MAX,
      retryCount: 0,
    }),
  });
  const request = client.request as (call: {
    readonly method: string;
    readonly params: readonly unknown[];
  }) => Promise<unknown>;
  return {
    async blockNumber(tag) {
      const header = await request({ method: 'eth_getBlockByNumber', params: [tag, false] });
      return parsed(z.object({ number: Quantity }), header).number;
    },
    async block(number) {
      const params = [numberToHex(number), true];
      const block = await request({ method: 'eth_getBlockByNumber', params });
      return block === null ? undefined : parsed(Block, block);
    },
    async logs(blockHash, addresses) {
      const filter = { blockHash, address: addresses, topics: [WATCHED_TOPICS] };
      const answer = await request({ method: 'eth_getLogs', params: [filter] });
      const logs = parsed(z.array(Log), answer);
      if (logs.some((log) => log.blockHash !== blockHash)) {
        throw new RpcAnswerError('eth_getLogs answered for another block');
      }
      return logs.toSorted((a, b) => a.logIndex - b.logIndex);
    },
    async balance(token, owner, blockNumber) {
      const data = encodeFunctionData({ abi: BALANCE_OF_ABI, args: [owner] });
      const params = [{ to: token, data }, numberToHex(blockNumber)];
      const answer = parsed(Data, await request({ method: 'eth_call', params }));
      return decodeFunctionResult({ abi: BALANCE_OF_ABI, data: answer });
    },
  };
}

function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new RpcAnswerError(z.prettifyError(result.error));
}
