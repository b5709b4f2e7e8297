/**
 * Reads the facts from the chain with nothing but eth_getLogs: every match with its fills, every resolution, every
 * block's hash. Decodes the raw ABI words without the project's decoder, to reveal mistakes in it.
 */
import { rpc } from '../../support/service.ts';

const ORDER_FILLED = '0xd543adfd945773f1a62f74f0ee55a5e3b9b1a28262980ba90b1a89f2ea84d8ee';
const ORDERS_MATCHED = '0x174b3811690657c217184f89418266767c87e4805d09680c39fc9c031c0cab7c';
const CONDITION_RESOLUTION = '0xb44d84d3289691f71497564b85d4233648d9dbae8cbdbb4329f301c3a0185894';
const BLOCKS_A_CALL = 100;

type Log = {
  readonly address: string;
  readonly topics: readonly string[];
  readonly data: string;
  readonly blockNumber: string;
  readonly logIndex: string;
  readonly transactionHash: string;
};

/**
 * A match or a resolution. `content` is equal if and only if everything that LEDGER must store about it is equal.
 */
export type Fact = {
  readonly kind: 'match' | 'resolution';
  readonly block: number;
  readonly logIndex: number;
  readonly txHash: string;
  readonly takerOrder: string;
  readonly fills: number;
  readonly content: string;
};

/** All facts of blocks `from` … `to`, in chain order. */
export async function chainFacts(rpcUrl: string, from: number, to: number): Promise<Fact[]> {
  const facts: Fact[] = [];
  let open: string[] = [];
  for (let first = from; first <= to; first += BLOCKS_A_CALL) {
    const last = Math.min(to, first + BLOCKS_A_CALL - 1);
    const filter = { fromBlock: hex(first), toBlock: hex(last), topics: [topics()] };
    for (const log of await rpc<readonly Log[]>(rpcUrl, 'eth_getLogs', [filter])) {
      if (log.topics[0] === ORDER_FILLED) open.push(fillOf(log));
      else {
        const isMatch = log.topics[0] === ORDERS_MATCHED;
        facts.push(isMatch ? matchOf(log, open) : resolutionOf(log));
        if (isMatch) open = [];
      }
    }
  }
  return facts;
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

/** Text of a fill; compare.ts formats LEDGER's fills the same way. */
export function fillText(fill: readonly (string | number | bigint | boolean)[]): string {
  return fill.join(' ');
}

function topics(): readonly string[] {
  return [ORDER_FILLED, ORDERS_MATCHED, CONDITION_RESOLUTION];
}

function fillOf(log: Log): string {
  const [, orderHash = '', owner = '', other = ''] = log.topics;
  const [side, tokenId, making, taking, fee] = words(log.data);
  const isBuy = side === 0n;
  const [usdc, shares] = isBuy ? [making, taking] : [taking, making];
  const isTaker = addressOf(other) === log.address.toLowerCase();
  const trader = addressOf(owner);
  return fillText([
    ...[Number(log.logIndex), orderHash, trader, isTaker, isBuy ? 'BUY' : 'SELL'],
    ...[tokenId ?? 0n, shares ?? 0n, usdc ?? 0n, fee ?? 0n],
  ]);
}

function matchOf(log: Log, fills: readonly string[]): Fact {
  return {
    ...placeOf(log),
    kind: 'match',
    takerOrder: log.topics[1] ?? '',
    fills: fills.length,
    content: [`match ${log.transactionHash} ${log.address.toLowerCase()}`, ...fills].join('\n'),
  };
}

function resolutionOf(log: Log): Fact {
  // Words: outcome count, offset of the payouts, their number, and the payouts.
  const payouts = words(log.data).slice(3, 5);
  const content = `resolution ${log.transactionHash} ${log.topics[1]} ${payouts.join(' ')}`;
  return { ...placeOf(log), kind: 'resolution', takerOrder: '', fills: 0, content };
}

function placeOf(log: Log) {
  return {
    block: Number(log.blockNumber),
    logIndex: Number(log.logIndex),
    txHash: log.transactionHash,
  };
}

function words(data: string): bigint[] {
  return (data.slice(2).match(/.{64}/g) ?? []).map((word) => BigInt(`0x${word}`));
}

function addressOf(topic: string): string {
  return `0x${topic.slice(-40)}`;
}

function hex(number: number): string {
  return `0x${number.toString(16)}`;
}
