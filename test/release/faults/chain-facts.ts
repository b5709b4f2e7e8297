/**
 * Reads the facts from the chain with nothing but eth_getLogs: every match with its fills, every resolution, every
 * block's hash. Decodes the raw ABI words without the project's decoder, to reveal mistakes in it.
 */
import { rpc } from '../../support/service.ts';

const ORDER_FILLED = '0xd543adfd945773f1a62f74f0ee55a5e3b9b1a28262980ba90b1a89f2ea84d8ee';
const ORDERS_MATCHED = '0x174b3811690657c217184f89418266767c87e4805d09680c39fc9c031c0cab7c';
const CONDITION_RESOLUTION = '0xb44d84d3289691f71497564b85d4233648d9dbae8cbdbb4329f301c3a0185894';
const BLOCKS_A_CALL = 100;

export type ChainLog = {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
  readonly logIndex: string;
  readonly transactionHash: string;
};

type Place = { readonly block: number; readonly logIndex: number; readonly txHash: string };

/** A match or a resolution. */
export type Fact = Place &
  (
    | {
        readonly kind: 'match';
        readonly exchange: string;
        readonly takerOrder: string;
        /** The taker's is the last. */
        readonly fills: readonly FactFill[];
      }
    | {
        readonly kind: 'resolution';
        readonly conditionId: string;
        readonly payouts: readonly bigint[];
      }
  );

export type FactFill = {
  readonly logIndex: number;
  readonly orderHash: string;
  readonly trader: string;
  readonly isTaker: boolean;
  readonly side: 'BUY' | 'SELL';
  readonly tokenId: string;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
};

/** All facts of blocks `from` … `to`, in chain order. */
export async function chainFacts(rpcUrl: string, from: number, to: number): Promise<Fact[]> {
  const facts: Fact[] = [];
  let fills: FactFill[] = [];
  const topics = [[ORDER_FILLED, ORDERS_MATCHED, CONDITION_RESOLUTION]];
  for await (const log of chainLogs(rpcUrl, { topics }, from, to)) {
    const block = Number(log.blockNumber);
    const place = { block, logIndex: Number(log.logIndex), txHash: log.transactionHash };
    const [kind, first = ''] = log.topics;
    if (kind === ORDER_FILLED) fills.push(fillOf(log));
    else if (kind === ORDERS_MATCHED) {
      const exchange = log.address.toLowerCase();
      facts.push({ ...place, kind: 'match', exchange, takerOrder: first, fills });
      fills = [];
    } else {
      // Words: outcome count, offset of the payouts, their number, and the payouts.
      const payouts = words(log.data).slice(3, 5);
      facts.push({ ...place, kind: 'resolution', conditionId: first, payouts });
    }
  }
  return facts;
}

/** In pages: all logs of a long run would not fit into one response. */
export async function* chainLogs(
  rpcUrl: string,
  filter: { readonly address?: string; readonly topics: readonly unknown[] },
  from: number,
  to: number,
): AsyncGenerator<ChainLog> {
  for (let first = from; first <= to; first += BLOCKS_A_CALL) {
    const toBlock = hex(Math.min(to, first + BLOCKS_A_CALL - 1));
    yield* await rpc<ChainLog[]>(rpcUrl, 'eth_getLogs', [
      { ...filter, fromBlock: hex(first), toBlock },
    ]);
  }
}

export async function blockNumber(rpcUrl: string, tag: 'latest' | 'finalized'): Promise<number> {
  const block = await rpc<{ number: string }>(rpcUrl, 'eth_getBlockByNumber', [tag, false]);
  return Number(block.number);
}

/** Undefined if the chain has no such block. */
export async function blockHash(rpcUrl: string, number: number): Promise<string | undefined> {
  const params = [hex(number), false];
  const block = await rpc<{ hash: string } | null>(rpcUrl, 'eth_getBlockByNumber', params);
  return block?.hash;
}

export function fillOf(log: ChainLog): FactFill {
  const [, orderHash = '', owner = '', other = ''] = log.topics;
  const [side, tokenId = 0n, making = 0n, taking = 0n, fee = 0n] = words(log.data);
  const isBuy = side === 0n;
  return {
    ...{ logIndex: Number(log.logIndex), orderHash, trader: addressOf(owner) },
    isTaker: addressOf(other) === log.address.toLowerCase(),
    side: isBuy ? 'BUY' : 'SELL',
    tokenId: String(tokenId),
    shares: isBuy ? taking : making,
    usdc: isBuy ? making : taking,
    fee,
  };
}

/** The 32-byte words of ABI data. */
export function words(data: string): bigint[] {
  return (data.slice(2).match(/.{64}/g) ?? []).map((word) => BigInt(`0x${word}`));
}

/** Of a word. */
export function addressOf(topic: string): string {
  return `0x${topic.slice(-40)}`;
}

function hex(number: number): string {
  return `0x${number.toString(16)}`;
}
