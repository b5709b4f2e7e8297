/**
 * What the mempool side asks of the chain node over HTTP: bodies of pending transactions, the pool,
 * and what became of a transaction. Requests made in the same tick travel as one batch; with several
 * endpoints the next one is asked where one fails. Nothing here is retried over time: whoever asks
 * asks again, or the blocks bring it.
 */
import { createClient, fallback, type Hex, http, numberToHex } from 'viem';
import { z } from 'zod';

const REQUEST_MS_MAX = 10_000;
const BATCH_CALLS_MAX = 100;

const Quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform(Number)
  .pipe(z.int());
const Text = z
  .string()
  .regex(/^0x[0-9a-fA-F]*$/)
  .transform((text) => text.toLowerCase() as Hex);

/** A transaction before it is mined; `to` is null for a contract creation. */
export const PendingTransaction = z.object({
  hash: Text,
  from: Text,
  to: Text.nullish(),
  nonce: Quantity,
  input: Text,
});
export type PendingTransaction = z.infer<typeof PendingTransaction>;

/** Bodies are not looked into: a pool has thousands, nearly all known from the poll before. */
const PoolContent = z.object({ pending: z.record(z.string(), z.record(z.string(), z.unknown())) });
const Receipt = z.object({ status: Quantity, blockNumber: Quantity });
export type Receipt = z.infer<typeof Receipt>;

/** The node's answer has another shape than the JSON-RPC specification says. */
export class NodeAnswerError extends Error {}

export type MempoolNode = {
  /** Number of the newest block. */
  head(): Promise<number>;
  /** As the node gave it, undefined where it does not know the hash; in the order of the hashes. */
  transactions(hashes: readonly string[]): Promise<readonly (object | undefined)[]>;
  /** Everything that could be mined next, by hash, as the node gave it. */
  pool(): Promise<ReadonlyMap<string, object>>;
  /** Transactions that the sender had mined up to the end of a block. */
  transactionCount(sender: string, blockNumber: number): Promise<number>;
  /** Undefined where the transaction is in no block. */
  receipt(hash: string): Promise<Receipt | undefined>;
};

export function connectMempoolNode(urls: readonly string[]): MempoolNode {
  const transports = urls.map((url) =>
    http(url, {
      batch: { batchSize: BATCH_CALLS_MAX },
      timeout: REQUEST_MS_MAX,
      retryCount: 0,
    }),
  );
  const client = createClient({ transport: fallback(transports, { retryCount: 0 }) });
  const request = client.request as (call: {
    readonly method: string;
    readonly params: readonly unknown[];
  }) => Promise<unknown>;
  return {
    async head() {
      return parsed(Quantity, await request({ method: 'eth_blockNumber', params: [] }));
    },
    transactions(hashes) {
      return Promise.all(
        hashes.map(async (hash) => {
          const answer = await request({ method: 'eth_getTransactionByHash', params: [hash] });
          return parsed(z.looseObject({}).nullable(), answer) ?? undefined;
        }),
      );
    },
    async pool() {
      const answer = await request({ method: 'txpool_content', params: [] });
      const { pending } = parsed(PoolContent, answer);
      const bodies = Object.values(pending).flatMap((one): readonly unknown[] =>
        Object.values(one),
      );
      const hasHash = (body: unknown): body is { readonly hash: unknown } =>
        typeof body === 'object' && body !== null && 'hash' in body;
      return new Map(bodies.filter(hasHash).map((body) => [String(body.hash), body]));
    },
    async transactionCount(sender, blockNumber) {
      const params = [sender, numberToHex(blockNumber)];
      return parsed(Quantity, await request({ method: 'eth_getTransactionCount', params }));
    },
    async receipt(hash) {
      const answer = await request({ method: 'eth_getTransactionReceipt', params: [hash] });
      return parsed(Receipt.nullable(), answer) ?? undefined;
    },
  };
}

function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new NodeAnswerError(z.prettifyError(result.error));
}
