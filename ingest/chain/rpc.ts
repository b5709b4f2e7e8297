/**
 * The few JSON-RPC calls that ingest needs, and their shapes. Every response is checked against what is known of its
 * block. If it does not match, the next endpoint is tried (rpc-pool.ts). A block that no endpoint has yet is
 * `undefined`, never an empty block.
 */
import {
  decodeFunctionResult,
  encodeFunctionData,
  erc20Abi,
  type Hex,
  numberToHex,
  parseAbi,
} from 'viem';
import { z } from 'zod';
import { keccak256 } from '../../infra/keccak.ts';
import { WATCHED_TOPICS } from '../events/decode.ts';
import type { ChainLog, LogFilter } from '../events/log.ts';
import { type PoolOptions, type RpcCall, RpcError, RpcPool } from './rpc-pool.ts';

/** A safe integer above or equal to 0. */
export const Quantity = z
  .string()
  .regex(/^0x[0-9a-fA-F]+$/)
  .transform(Number)
  .pipe(z.int());
/** Hex of any case and length, in lower case. */
const Text = z
  .string()
  .regex(/^0x[0-9a-fA-F]*$/)
  .toLowerCase()
  .transform((text) => text as Hex);
/** Whole bytes. */
const Data = Text.refine((text) => text.length % 2 === 0, 'not whole bytes');

/** A log with the block that it names. */
export const RangeLog = z.object({
  address: Text,
  topics: z.array(Data),
  data: Data,
  transactionHash: Data,
  logIndex: Quantity,
  blockHash: Data,
  blockNumber: Quantity,
});
export type RangeLog = z.infer<typeof RangeLog>;
const Logs = z.array(RangeLog);

/** A transaction, pending or in a block; `to` is null or missing for a contract creation. */
export const Transaction = z.object({
  hash: Data,
  from: Text,
  to: Text.nullish(),
  nonce: Quantity,
  input: Text,
});
export type Transaction = z.infer<typeof Transaction>;

const BLOOM_BYTES = 256;
/**
 * The 2,048-bit bloom filter of a block's logs (Yellow Paper 4.4.3): each log's address and topics set three bits. It
 * proves absence, never presence.
 */
const Bloom = Data.refine((text) => text.length === 2 + 2 * BLOOM_BYTES).transform(
  (text): Uint8Array => Buffer.from(text.slice(2), 'hex'),
);
type Bloom = z.infer<typeof Bloom>;

const BlockHead = {
  number: Quantity,
  hash: Data,
  parentHash: Data,
  timestamp: Quantity,
  logsBloom: Bloom,
};
/** A block without its transactions' bodies; `transactions` are their hashes. */
const Header = z.object({ ...BlockHead, transactions: z.array(z.string().toLowerCase()) });
export type Header = z.infer<typeof Header>;
export type BlockHead = Pick<Header, 'number' | 'hash' | 'parentHash' | 'timestamp'>;

const Block = z.object({ ...BlockHead, transactions: z.array(Transaction) });
export type Block = z.infer<typeof Block>;

const Receipt = z.object({ blockHash: Data, transactionHash: Data, logs: Logs });
/** `status` is 0 if the transaction was reverted. */
const ReceiptStatus = Receipt.extend({ status: Quantity });

const BALANCE_OF_BATCH = {
  abi: parseAbi([
    'function balanceOfBatch(address[] owners, uint256[] ids) view returns (uint256[])',
  ]),
  functionName: 'balanceOfBatch',
} as const;

const NO_BLOCK = {
  latest: 'the node has no blocks yet',
  finalized:
    'the node has no finalized block: set FINALITY to the depth at which a block counts as final',
};

export type Rpc = ReturnType<typeof connectRpc>;

/** A comma-separated list of endpoints of one chain. Sends no request before the first call. */
export function connectRpc(urls: string, options: PoolOptions = {}) {
  const pool = new RpcPool(urls.split(','), options);
  const block = (number: number, full: boolean): RpcCall => ({
    method: 'eth_getBlockByNumber',
    params: [numberToHex(number), full],
  });
  return {
    blockNumber(tag: 'latest' | 'finalized'): Promise<number> {
      const call = { method: 'eth_getBlockByNumber', params: [tag, false] };
      return pool.call(call, (header) => {
        if (header === null) throw new RpcError('shape', NO_BLOCK[tag]);
        return parsed(z.object({ number: Quantity }), header).number;
      });
    },
    /** With transactions; undefined while no endpoint has it. */
    async block(number: number): Promise<Block | undefined> {
      try {
        return await pool.call(block(number, true), (answer) => blockOf(Block, answer, number));
      } catch (error) {
        if (error instanceof RpcError && error.class === 'lagging') return undefined;
        throw error;
      }
    },
    /** Rejects with class `lagging` while no endpoint has it. */
    header(number: number): Promise<Header> {
      return pool.call(block(number, false), (answer) => blockOf(Header, answer, number));
    },
    /** Logs of the watched contracts in one block, in log order. Rejects if the node lacks the block. */
    async logs(blockHash: Hex, addresses: readonly string[]): Promise<readonly ChainLog[]> {
      const filter = { blockHash, address: addresses, topics: [WATCHED_TOPICS] };
      const logs = await pool.call({ method: 'eth_getLogs', params: [filter] }, (answer) => {
        const found = parsed(Logs, answer);
        if (found.every((log) => log.blockHash === blockHash)) return found;
        throw new RpcError('inconsistent', 'eth_getLogs returned logs of another block');
      });
      return inOrder(logs);
    },
    /** Logs of a range from one endpoint; the next one is tried if `check` throws RpcError. */
    async rangeLogs(
      { from, to, filter }: { from: number; to: number; filter: LogFilter },
      check: (logs: readonly RangeLog[]) => void,
    ): Promise<readonly RangeLog[]> {
      const { addresses, topics } = filter;
      const blocks = { fromBlock: numberToHex(from), toBlock: numberToHex(to) };
      const params = [{ ...blocks, address: addresses, topics: [topics] }];
      const logs = await pool.call({ method: 'eth_getLogs', params }, (answer) => {
        const found = parsed(Logs, answer);
        check(found);
        return found;
      });
      return inOrder(logs);
    },
    /** All logs of these contracts in a range, whatever the event. */
    async allLogs(
      addresses: readonly string[],
      from: number,
      to: number,
    ): Promise<readonly RangeLog[]> {
      const blocks = { fromBlock: numberToHex(from), toBlock: numberToHex(to) };
      const call = { method: 'eth_getLogs', params: [{ ...blocks, address: addresses }] };
      return inOrder(await pool.call(call, (answer) => parsed(Logs, answer)));
    },
    /** Every log of a block, from its receipts; accepted only if they explain the header's bloom. */
    async receiptLogs(header: Header): Promise<readonly RangeLog[]> {
      const call = { method: 'eth_getBlockReceipts', params: [numberToHex(header.number)] };
      return inOrder(await pool.call(call, (answer) => logsOfReceipts(answer, header)));
    },
    /** Every log of one transaction of the block; none if it was reverted. */
    async transactionLogs(hash: Hex, header: Header): Promise<readonly RangeLog[]> {
      const call = { method: 'eth_getTransactionReceipt', params: [hash] };
      return pool.call(call, (answer) => {
        if (answer === null) throw new RpcError('lagging', `no receipt of ${hash}`);
        const { blockHash, status, logs } = parsed(ReceiptStatus, answer);
        if (blockHash === header.hash) return status === 0 ? [] : logs;
        throw new RpcError('inconsistent', `the receipt of ${hash} is of another block`);
      });
    },
    /** The longest list of a block's logs that any endpoint returns. */
    async logsByHash(
      blockHash: Hex,
      { addresses, topics }: LogFilter,
    ): Promise<readonly RangeLog[]> {
      const params = [{ blockHash, address: addresses, topics: [topics] }];
      const call = { method: 'eth_getLogs', params };
      const answers = await pool.everyone(call, (answer) => parsed(Logs, answer));
      const found = answers.flatMap((answer) =>
        answer.status === 'fulfilled' ? [answer.value] : [],
      );
      const [longest] = found.toSorted((a, b) => b.length - a.length);
      if (longest === undefined) {
        throw new RpcError('lagging', `no endpoint has block ${blockHash}`);
      }
      return inOrder(longest);
    },
    /** The block's hash at each endpoint that responds; undefined where the endpoint does not have the block. */
    async hashesOf(number: number): Promise<readonly (string | undefined)[]> {
      const answers = await pool.everyone(block(number, false), (answer) =>
        answer === null ? undefined : blockOf(Header, answer, number).hash,
      );
      return answers.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []));
    },
    /** ERC-20 balance at the end of a block. */
    async balance(token: Hex, owner: Hex, blockNumber: number): Promise<bigint> {
      const data = encodeFunctionData({ abi: erc20Abi, functionName: 'balanceOf', args: [owner] });
      const params = [{ to: token, data }, numberToHex(blockNumber)];
      const answer = await pool.call({ method: 'eth_call', params }, (one) => parsed(Data, one));
      return decodeFunctionResult({ abi: erc20Abi, functionName: 'balanceOf', data: answer });
    },
    /** ERC-1155 balances at the end of a block, in the order of the owners and their tokens. */
    async shareBalances(
      contract: Hex,
      owned: readonly { readonly owner: Hex; readonly tokenId: bigint }[],
      blockNumber: number,
    ): Promise<readonly bigint[]> {
      const args = [owned.map(({ owner }) => owner), owned.map(({ tokenId }) => tokenId)] as const;
      const data = encodeFunctionData({ ...BALANCE_OF_BATCH, args });
      const params = [{ to: contract, data }, numberToHex(blockNumber)];
      const answer = await pool.call({ method: 'eth_call', params }, (one) => parsed(Data, one));
      return decodeFunctionResult({ ...BALANCE_OF_BATCH, data: answer });
    },
    /** Call this after contradictory responses: another endpoint is preferred for a while. */
    doubt: () => pool.doubt(),
  };
}

function blockOf<T extends { readonly number: number }>(
  schema: z.ZodType<T>,
  answer: unknown,
  number: number,
): T {
  if (answer === null) throw new RpcError('lagging', `no block ${number}`);
  const block = parsed(schema, answer);
  if (block.number === number) return block;
  throw new RpcError('inconsistent', `block ${block.number} instead of ${number}`);
}

/** Polygon syncs its state with Ethereum at blocks whose number is a multiple of this, by one last transaction. */
const SPRINT_BLOCKS = 16;

/** Erigon has no receipt for the transaction that syncs the state, whose logs are not in the bloom either. */
function logsOfReceipts(answer: unknown, header: Header): RangeLog[] {
  if (answer === null) throw new RpcError('lagging', `no receipts of block ${header.number}`);
  const receipts = parsed(z.array(Receipt), answer);
  const has = new Set(receipts.map((receipt) => receipt.transactionHash as string));
  const logs = receipts.flatMap((receipt) => receipt.logs);
  const missing = header.transactions.filter((hash) => !has.has(hash));
  const isStateSync =
    header.number % SPRINT_BLOCKS === 0 &&
    missing.length === 1 &&
    missing[0] === header.transactions.at(-1);
  const whole =
    (missing.length === 0 || isStateSync) &&
    receipts.every((receipt) => receipt.blockHash === header.hash) &&
    explains(logs, header.logsBloom);
  if (whole) return logs.filter((log) => covers(header.logsBloom, log));
  throw new RpcError('inconsistent', `receipts of block ${header.number} do not match its header`);
}

function inOrder(logs: readonly RangeLog[]): readonly RangeLog[] {
  return logs.toSorted((a, b) => a.blockNumber - b.blockNumber || a.logIndex - b.logIndex);
}

/** Throws RpcError of class `shape` for a value of another shape. */
export function parsed<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new RpcError('shape', z.prettifyError(result.error));
}

/** False if no log of the block has this address or topic; true if one may have it. */
export function mayContain(bloom: Bloom, item: Hex): boolean {
  return hasBits(bloom, cachedBitsOf(item));
}

function hasBits(bloom: Bloom, bits: readonly number[]): boolean {
  return bits.every((bit) => ((bloom[bit >> 3] ?? 0) & (1 << (bit & 7))) !== 0);
}

/** True if the bloom has the log's address and topics, as it does for every log of the block. */
export function covers(bloom: Bloom, log: Pick<ChainLog, 'address' | 'topics'>): boolean {
  return bitsOfLog(log).every((bits) => hasBits(bloom, bits));
}

/**
 * True if these logs explain every bit of the bloom. Then no log of the block is missing, except possibly one whose
 * address and topics all occur in other logs. Logs that are not in the bloom do not matter.
 */
export function explains(logs: Iterable<Pick<ChainLog, 'address' | 'topics'>>, bloom: Bloom) {
  const left = Uint8Array.from(bloom);
  for (const log of logs) {
    for (const bit of bitsOfLog(log).flat()) {
      left[bit >> 3] = (left[bit >> 3] ?? 0) & ~(1 << (bit & 7));
    }
  }
  return left.every((byte) => byte === 0);
}

/** Share of the bits that are set, 0 to 1. Above one half, a bloom says little about a single item. */
export function filled(bloom: Bloom): number {
  let set = 0;
  for (let byte of bloom) for (; byte !== 0; byte &= byte - 1) set += 1;
  return set / (BLOOM_BYTES * 8);
}

type Bits = readonly [number, number, number];

/** Of its address and topics. Only hashes and numbers do not recur, like those of orders. */
function bitsOfLog({ address, topics: [first, ...others] }: Pick<ChainLog, 'address' | 'topics'>) {
  const recurring = first === undefined ? [address] : [address, first];
  const bits = (topic: Hex) =>
    topic.startsWith(ADDRESS_TOPIC) ? cachedBitsOf(topic) : bitsOf(topic);
  return [...recurring.map(cachedBitsOf), ...others.map(bits)];
}

/** How a topic begins that is an address. */
const ADDRESS_TOPIC = `0x${'0'.repeat(24)}`;

/** About 200 bytes each. */
const CACHED_ITEMS_MAX = 8_192;
const cachedBits = new Map<string, Bits>();

/** For addresses and first topics, because the same contracts, events and wallets recur. */
function cachedBitsOf(item: Hex): Bits {
  const known = cachedBits.get(item);
  if (known !== undefined) return known;
  if (cachedBits.size >= CACHED_ITEMS_MAX) cachedBits.clear();
  const found = bitsOf(item);
  cachedBits.set(item, found);
  return found;
}

function bitsOf(item: Hex): Bits {
  const hash = keccak256(Buffer.from(item.slice(2), 'hex'));
  const bit = (at: number) => {
    const place = (((hash[at] ?? 0) << 8) | (hash[at + 1] ?? 0)) & 2_047;
    // Bit 0 is the lowest of the last byte.
    return (BLOOM_BYTES - 1 - (place >> 3)) * 8 + (place & 7);
  };
  return [bit(0), bit(2), bit(4)];
}
