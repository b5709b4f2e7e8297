import { type Hex, numberToHex, pad, toEventSelector } from 'viem';
import { expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import type { RangeLog, Rpc } from '../../ingest/chain/rpc.ts';
import { UnwatchedFlow } from '../../ingest/chain/unwatched-flow.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import type { LogFilter } from '../../ingest/events/log.ts';
import { recorder } from './gamma-harness.ts';

const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon' }));
const [EXCHANGE = ''] = CHAIN.exchanges.keys();
const NEW_EXCHANGE = `0x${'7'.repeat(40)}`;
const hash = (n: number): Hex => numberToHex(n, { size: 32 });
const M = 1_000_000n;

const logOf = (address: string, event: string, transaction: number): RangeLog => ({
  ...{ address: address as Hex, topics: [toEventSelector(event)], data: '0x', logIndex: 0 },
  ...{ transactionHash: hash(transaction), blockHash: hash(1), blockNumber: 100 },
});
/** From and to the wallets with these numbers. */
const paid = (transaction: number, amount: bigint, from = 1, to = 2): RangeLog => ({
  ...logOf(CHAIN.collateral, 'Transfer(address,address,uint256)', transaction),
  topics: [
    toEventSelector('Transfer(address,address,uint256)'),
    ...[from, to].map((n) => pad(numberToHex(n))),
  ],
  data: numberToHex(amount, { size: 32 }),
});
const matched = (transaction: number) =>
  logOf(EXCHANGE, 'OrdersMatched(bytes32,address,uint8,uint256,uint256,uint256)', transaction);

/** After a hundred blocks with these logs in the last ones. */
async function seen(logs: readonly RangeLog[]) {
  const { logger, lines } = recorder();
  const asked: (readonly [number, number])[] = [];
  const flow = new UnwatchedFlow({
    chain: CHAIN,
    logger,
    rpc: {
      rangeLogs: async ({ from, to, filter }: { from: number; to: number; filter: LogFilter }) => {
        asked.push([from, to]);
        return logs.filter(
          ({ address, topics }) =>
            filter.addresses.includes(address) && filter.topics.includes(topics[0] ?? '0x'),
        );
      },
      block: async () =>
        ({ transactions: [{ hash: hash(2), to: NEW_EXCHANGE }] }) as unknown as ReturnType<
          Rpc['block']
        >,
    },
  });
  for (let block = 1; block <= 100; block++) flow.stored(block);
  await new Promise((resolve) => setTimeout(resolve, 10));
  return { flow, lines, asked };
}

test('money that moves without a log that is read is an error, with the contract that was called', async () => {
  const { flow, lines, asked } = await seen([paid(1, 400n * M), matched(1), paid(2, 700n * M)]);
  expect(asked).toEqual([
    [96, 100],
    [96, 100],
  ]);
  expect(flow.share).toBe(0.636);
  expect(lines).toMatchObject([{ from: 96, to: 100, share: 0.636, called: [NEW_EXCHANGE] }]);
});

test('money of known contracts, deposits and small sums are none', async () => {
  const usual = await seen([paid(1, 900n * M), matched(1), paid(2, 200n * M)]);
  expect([usual.flow.share, usual.lines]).toEqual([0.181, []]);
  const deposits = await seen([paid(1, 1_000n * M), matched(1), paid(2, 9_000n * M, 0, 2)]);
  expect([deposits.flow.share, deposits.lines]).toEqual([0, []]);
  const small = await seen([paid(2, 999n * M)]);
  expect([small.flow.share, small.lines]).toEqual([undefined, []]);
});
