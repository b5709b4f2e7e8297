/**
 * Chain nodes as providers run them: limits of ranges and batches, errors in every shape, rate limits in a response with
 * status 200, missing receipts. Ingest reads the whole chain through each of them.
 */
import pino from 'pino';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { prefetch, RangeSize, readRange } from '../../ingest/chain/block-range.ts';
import { connectRpc } from '../../ingest/chain/rpc.ts';
import { ORDERS_MATCHED } from '../../ingest/events/match.ts';
import { factsOfChain } from '../support/chain-facts.ts';
import {
  type Call,
  CHAIN,
  type Misbehave,
  type Reply,
  results,
  type StillDevnet,
  startEndpoint,
  startStillDevnet,
} from '../support/chain-harness.ts';
import { temporaryDirectory } from '../support/service.ts';

const directory = temporaryDirectory();
let devnet: StillDevnet;
let last: number;
let expected: readonly string[];

beforeAll(async () => {
  devnet = await startStillDevnet(directory.path, 250);
  last = await devnet.number('finalized');
  expected = await factsOfChain(devnet.url, last);
});

afterAll(async () => {
  await devnet?.close();
  directory.remove();
});

/** Reads the chain as ingest does; resolves with the places of its facts, the requests and the log lines. */
async function read(misbehave: Misbehave, size = new RangeSize()) {
  const endpoint = await startEndpoint(devnet.url, misbehave);
  const logged: string[] = [];
  const logger = pino({ base: null }, { write: (line) => logged.push(line) });
  const rpc = connectRpc(endpoint.url, { chainId: CHAIN.id, logger });
  const options = {
    logger,
    signal: new AbortController().signal,
    readRange: (from: number, to: number) => readRange({ rpc, chain: CHAIN }, from, to),
    weigh: () => ({ logs: 0, transactions: 0 }),
  };
  const places: string[] = [];
  try {
    for await (const { blocks } of prefetch(options, size, 0, last)) {
      for (const { head, raw } of blocks)
        places.push(
          ...(raw?.logs ?? []).map(
            (log) => `${head.number}:${log.transactionHash}:${log.logIndex}`,
          ),
        );
    }
  } finally {
    await endpoint.close();
  }
  const whole = new Set(expected);
  return {
    places: places.filter((place) => whole.has(place)),
    asked: endpoint.asked,
    logged: logged.join(''),
  };
}

/** Blocks of a search for logs; 0 for another call. */
function blocksOf({ method, params: [filter] }: Call): number {
  if (method !== 'eth_getLogs') return 0;
  const { fromBlock, toBlock } = filter as { fromBlock: string; toBlock: string };
  return Number(toBlock) - Number(fromBlock) + 1;
}
const errorTo = (calls: readonly Call[], error: unknown) =>
  calls.map(({ id }) => ({ id, jsonrpc: '2.0', error }));
const body = (status: number, value: unknown) => ({ status, text: JSON.stringify(value) });

/** Rejects ranges of more than ten blocks. */
const narrow =
  (refuse: (calls: readonly Call[]) => ReturnType<Misbehave>): Misbehave =>
  (calls) =>
    calls.some((call) => blocksOf(call) > 10) ? refuse(calls) : undefined;
/** Rejects requests of more than this many calls. */
const few =
  (callsMax: number, refuse: (calls: readonly Call[]) => ReturnType<Misbehave>): Misbehave =>
  (calls) =>
    calls.length > callsMax ? refuse(calls) : undefined;

const WORDS = 'up to a 10 block range';
const REFUSAL = { code: -32600, message: WORDS };

test.each<[string, string, Misbehave]>([
  [
    'a wide range: 400 and an error',
    WORDS,
    narrow((calls) => body(400, errorTo(calls, REFUSAL)[0])),
  ],
  [
    'a wide range: 503 and an error',
    WORDS,
    narrow((calls) => body(503, errorTo(calls, REFUSAL)[0])),
  ],
  ['a wide range: 400 and text', WORDS, narrow(() => ({ status: 400, text: WORDS }))],
  ['a wide range: an error page', WORDS, narrow(() => ({ text: `<html>${WORDS}` }))],
  ['a wide range: an error without id', WORDS, narrow(() => body(200, { error: REFUSAL }))],
  ['a wide range: the error is a text', WORDS, narrow((calls) => errorTo(calls, WORDS))],
  [
    'a wide range: the code is a text',
    WORDS,
    narrow((calls) => errorTo(calls, { ...REFUSAL, code: '-32600' })),
  ],
  [
    'a wide range: the code of a limit, without its words',
    'too many',
    narrow((calls) => errorTo(calls, { code: -32005, message: 'too many' })),
  ],
  [
    'a wide range: the error has no message',
    '10 blocks',
    narrow((calls) => errorTo(calls, { data: '10 blocks' })),
  ],
  [
    '3 calls a batch: 400 and an error',
    'Batch of more',
    few(3, () => body(400, { error: { code: 31, message: 'Batch of more than 3 requests' } })),
  ],
  [
    '3 calls a batch: 500 and an error for each',
    'Batch of more',
    few(3, (calls) =>
      body(500, errorTo(calls, { code: 31, message: 'Batch of more than 3 requests' })),
    ),
  ],
  [
    'no batches: 500 and a page',
    'Internal',
    few(1, () => ({ status: 500, text: '<h1>Internal</h1>' })),
  ],
  [
    'no batches: 200 and one error',
    'no batch',
    few(1, () => body(200, { error: { code: -32600, message: 'no batch' } })),
  ],
])('%s: every fact, in its order', async (_behaviour, words, misbehave) => {
  const { places, logged } = await read(misbehave);
  expect(places).toEqual(expected);
  expect(logged).toContain(words);
});

test('ids as texts, in any order', async () => {
  const { places } = await read((_calls, replies) =>
    replies.toReversed().map((reply) => ({ ...reply, id: String(reply.id) }) as never),
  );
  expect(places).toEqual(expected);
});

test('one malformed item of a batch: the others are used', async () => {
  let spoiled = 0;
  const { places } = await read((calls, replies) => {
    if (calls.length < 2 || spoiled > 0) return undefined;
    spoiled += 1;
    return [{ id: {} } as unknown as Reply, ...replies.slice(1)];
  });
  expect(spoiled).toBe(1);
  expect(places).toEqual(expected);
});

test.each([
  { code: -32005, message: 'limit exceeded' },
  { code: -32007, message: '50/second request limit reached - reduce calls per second' },
  { code: -32000, message: 'Too many requests, try again later' },
])('a rate limit in a response with status 200 does not make ranges smaller: %o', async (error) => {
  let limited = 0;
  const size = new RangeSize();
  const { places, logged } = await read((calls) => {
    if (blocksOf(calls[0] as Call) === 0 || limited > 0) return undefined;
    limited += 1;
    return errorTo(calls, error);
  }, size);
  expect(places).toEqual(expected);
  expect(size.blocks).toBeGreaterThanOrEqual(32);
  expect(logged).toContain(error.message);
});

test('a limit that mentions results means a range that is too wide, for any code', async () => {
  const error = { code: -32005, message: 'query returned more than 10000 results' };
  const { places } = await read(narrow((calls) => errorTo(calls, error)));
  expect(places).toEqual(expected);
});

type BlockText = { number: string; logsBloom: string; transactions: unknown[] };
type LogText = { transactionHash: string; topics: string[] };

const isByHash = ({ params: [filter] }: Call) =>
  (filter as { blockHash?: string }).blockHash !== undefined;

test('only the last transaction of every 16th block, which syncs the state, may lack a receipt', async () => {
  const endpoint = await startEndpoint(
    devnet.url,
    results('eth_getBlockByNumber', (block: BlockText) => ({
      ...block,
      transactions: [...block.transactions, `0x${'5c'.repeat(32)}`],
    })),
  );
  try {
    const rpc = connectRpc(endpoint.url);
    expect(last).toBeGreaterThan(16);
    for (let number = 0; number <= last; number++) {
      const reading = rpc.receiptLogs(await rpc.header(number));
      if (number % 16 === 0) expect(await reading).toBeDefined();
      else await expect(reading).rejects.toThrow('do not match its header');
    }
  } finally {
    await endpoint.close();
  }
});

describe('a block whose bloom is full', () => {
  const full = results('eth_getBlockByNumber', (block: BlockText) => ({
    ...block,
    logsBloom: `0x${'ff'.repeat(256)}`,
  }));
  const noReceipts: Misbehave = (calls, replies) =>
    calls[0]?.method === 'eth_getBlockReceipts'
      ? errorTo(calls, { code: -32601, message: 'no such method' })
      : full(calls, replies);

  test('a match without a single log is found by its calldata', async () => {
    let left = 0;
    const forgets = results('eth_getLogs', (logs: LogText[], call) => {
      if (isByHash(call)) return logs;
      const match = logs.findLast(({ topics: [topic] }) => topic === ORDERS_MATCHED);
      if (match !== undefined) left += 1;
      return logs.filter(({ transactionHash }) => transactionHash !== match?.transactionHash);
    });
    const { places } = await read(async (calls, replies) =>
      noReceipts(calls, (await forgets(calls, replies)) as Reply[]),
    );
    expect(left).toBeGreaterThan(0);
    expect(places).toEqual(expected);
  });

  test('is refused while no list of its logs has that match', async () => {
    let hidden: string | undefined;
    const forgets = results('eth_getLogs', (logs: LogText[]) => {
      hidden ??= logs.find(({ topics: [topic] }) => topic === ORDERS_MATCHED)?.transactionHash;
      return logs.filter(({ transactionHash }) => transactionHash !== hidden);
    });
    const endpoint = await startEndpoint(devnet.url, async (calls, replies) =>
      noReceipts(calls, (await forgets(calls, replies)) as Reply[]),
    );
    try {
      const rpc = connectRpc(endpoint.url, { chainId: CHAIN.id });
      await expect(readRange({ rpc, chain: CHAIN }, 0, last)).rejects.toThrow(/lacks logs/);
    } finally {
      await endpoint.close();
    }
  });
});

test('a node without a finalized block leads to an error that names the setting', async () => {
  const endpoint = await startEndpoint(
    devnet.url,
    results('eth_getBlockByNumber', () => null),
  );
  try {
    const rpc = connectRpc(endpoint.url);
    await expect(rpc.blockNumber('finalized')).rejects.toThrow(/set FINALITY/);
  } finally {
    await endpoint.close();
  }
});
