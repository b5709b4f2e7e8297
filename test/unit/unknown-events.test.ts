import { pino } from 'pino';
import { type Hex, toEventSelector } from 'viem';
import { expect, test } from 'vitest';
import { IngestConfig, readConfig } from '../../infra/config.ts';
import type { RangeLog } from '../../ingest/chain/rpc.ts';
import { UnknownEvents } from '../../ingest/chain/unknown-events.ts';
import { chainOf } from '../../ingest/events/chains.ts';
import { recorder } from './gamma-harness.ts';

const CHAIN = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon' }));
const MODULE = '0x1000008dd9001b968442c1000017eae6e0da00ba';

const logOf = (event: string, blockNumber: number): RangeLog => ({
  ...{ address: MODULE, topics: [toEventSelector(event)], data: '0x1234', blockNumber },
  ...{ transactionHash: `0x${'1'.repeat(64)}`, blockHash: `0x${'2'.repeat(64)}`, logIndex: 0 },
});

/** Searches in these logs, which the node has; the ranges that were asked for. */
function searching(logs: readonly RangeLog[]) {
  const ranges: (readonly [number, number])[] = [];
  const control = { isDown: false };
  const { logger, lines } = recorder();
  const unknown = new UnknownEvents({
    chain: CHAIN,
    logger,
    rpc: {
      allLogs: async (addresses: readonly string[], from: number, to: number) => {
        expect(addresses).toContain(MODULE);
        ranges.push([from, to]);
        if (control.isDown) throw new Error('down');
        return logs.filter(({ blockNumber: n }) => n >= from && n <= to);
      },
    },
  });
  return { unknown, ranges, lines, control };
}
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('an unknown event is logged raw and counted within a hundred blocks, known ones are not', async () => {
  const logs = [
    logOf('SomethingNew(uint256)', 150),
    logOf('ConditionResolved(bytes31,uint256[])', 151),
    logOf('ResultReported(address,bytes31,uint256[])', 152),
  ];
  const { unknown, ranges, lines } = searching(logs);
  for (let block = 101; block <= 200; block++) {
    unknown.stored(block);
    await settle();
  }
  expect(ranges).toEqual(Array.from({ length: 10 }, (_, n) => [101 + 10 * n, 110 + 10 * n]));
  expect(unknown.found).toBe(1);
  const topic: Hex = toEventSelector('SomethingNew(uint256)');
  expect(lines).toMatchObject([{ address: MODULE, block: 150, topics: [topic], data: '0x1234' }]);
});

test('a failed search is tried again ten blocks later, and no event is counted twice', async () => {
  const { unknown, ranges, lines, control } = searching([logOf('SomethingNew(uint256)', 5)]);
  const store = async (from: number, to: number) => {
    for (let block = from; block <= to; block++) {
      unknown.stored(block);
      await settle();
    }
  };
  await store(1, 10);
  control.isDown = true;
  await store(11, 30);
  control.isDown = false;
  await store(31, 40);
  expect(ranges).toEqual([
    [1, 10],
    ...[
      [11, 20],
      [11, 20],
    ],
    ...[
      [11, 20],
      [21, 30],
      [31, 40],
    ],
  ]);
  expect(unknown.found).toBe(1);
  expect(lines.map(({ msg }) => msg)).toEqual([
    'an event of protocol version 2 that is not known',
    'unknown events could not be looked for',
  ]);
});

test('a long pause is not made up for', async () => {
  const { unknown, ranges } = searching([]);
  for (const block of [1, 50_000]) unknown.stored(block);
  await settle();
  expect(ranges).toHaveLength(10);
  expect(ranges.at(0)).toEqual([49_901, 49_910]);
});

test('without protocol version 2 nothing is asked', async () => {
  const chain = chainOf(readConfig(IngestConfig, { CHAIN: 'polygon', MOVEMENTS: 'off' }));
  let asked = 0;
  const allLogs = async () => {
    asked += 1;
    return [];
  };
  const rpc = { allLogs };
  const unknown = new UnknownEvents({ chain, rpc, logger: pino({ level: 'silent' }) });
  for (const block of [1, 500]) unknown.stored(block);
  await settle();
  expect(asked).toBe(0);
});
