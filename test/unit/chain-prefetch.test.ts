import { pino } from 'pino';
import { describe, expect, test } from 'vitest';
import { NatsUnavailableError } from '../../infra/nats/connection.ts';
import { prefetch, RANGES_AHEAD, RangeSize } from '../../ingest/chain/block-range.ts';
import { RpcError } from '../../ingest/chain/rpc-pool.ts';

const FEW = { logs: 0, transactions: 0 };

type Range = { readonly from: number; readonly to: number };

function reading(readRange: (from: number, to: number) => Promise<Range>, logs = 0) {
  return {
    logger: pino({ level: 'silent' }),
    signal: new AbortController().signal,
    readRange,
    weigh: ({ from, to }: Range) => ({ logs: logs * (to - from + 1), transactions: 0 }),
  };
}

async function blocksOf(ranges: AsyncIterable<Range>): Promise<number[]> {
  const blocks: number[] = [];
  for await (const { from, to } of ranges) for (let n = from; n <= to; n++) blocks.push(n);
  return blocks;
}

const upTo = (last: number) => Array.from({ length: last + 1 }, (_, i) => i);

describe('prefetch', () => {
  test('yields every block once and in order, whichever range arrives first', async () => {
    let running = 0;
    let most = 0;
    const read = async (from: number, to: number) => {
      most = Math.max(most, ++running);
      await new Promise((done) => setTimeout(done, (from * 7919) % 20));
      running -= 1;
      return { from, to };
    };
    expect(await blocksOf(prefetch(reading(read, 20), new RangeSize(), 0, 900))).toEqual(upTo(900));
    expect(most).toBe(RANGES_AHEAD);
  });

  test('reads smaller ranges if a node refuses, and never repeats a block', async () => {
    const read = async (from: number, to: number) => {
      if (to - from >= 7) throw new RpcError('refused', 'too many', { code: -32005 });
      return { from, to };
    };
    const size = new RangeSize();
    expect(await blocksOf(prefetch(reading(read), size, 0, 500))).toEqual(upTo(500));
    expect(size.blocks).toBeLessThanOrEqual(8);
  });

  test('retries after any other failure, and gives up only on another chain', async () => {
    let attempts = 0;
    const read = async (from: number, to: number) => {
      attempts += 1;
      if (attempts === 1) throw new RpcError('lagging', 'no block');
      if (attempts === 2) throw new NatsUnavailableError('down');
      if (attempts > 3) throw new RpcError('wrong_chain', 'another');
      return { from, to };
    };
    const ranges = reading(read);
    expect(await blocksOf(prefetch(ranges, new RangeSize(), 0, 9))).toEqual(upTo(9));
    await expect(blocksOf(prefetch(ranges, new RangeSize(), 0, 9))).rejects.toThrow('wrong_chain');
  });
});

describe('RangeSize', () => {
  test('doubles while ranges are nearly empty, up to 10,000 blocks', () => {
    const size = new RangeSize();
    expect(size.blocks).toBe(32);
    for (let i = 0; i < 20; i++) size.read(size.blocks, FEW);
    expect(size.blocks).toBe(10_000);
  });

  test('shrinks to the target content of a range', () => {
    const size = new RangeSize();
    size.read(32, { logs: 1_120, transactions: 0 });
    expect(size.blocks).toBe(10);
    size.read(10, { logs: 0, transactions: 200_000 });
    expect(size.blocks).toBe(1);
  });

  test('does not shrink after a short range at the head', () => {
    const size = new RangeSize();
    size.read(1, FEW);
    expect(size.blocks).toBe(32);
  });

  const grown = (size: RangeSize) => {
    for (let i = 0; i < 20; i++) size.read(size.blocks, FEW);
    return size.blocks;
  };

  test('stays below a refused size, and tries it again much later', () => {
    const size = new RangeSize();
    size.tooMany(32);
    expect(size.blocks).toBe(16);
    expect(grown(size)).toBeLessThan(35);
    for (let i = 0; i < 30; i++) grown(size);
    expect(size.blocks).toBeGreaterThan(64);
  });

  test('stays below a size that failed if a smaller one succeeds at once', () => {
    const size = new RangeSize();
    size.failed(32);
    size.read(size.blocks, FEW);
    expect(grown(size)).toBeLessThan(35);
  });

  test('forgets the failures of an outage, after which every size succeeds late', () => {
    const size = new RangeSize();
    for (const blocks of [32, 16, 8, 4, 2]) size.failed(blocks);
    size.read(1, FEW, 5);
    expect(grown(size)).toBe(10_000);
  });
});
