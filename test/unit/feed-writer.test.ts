import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { FeedWriter, type ShownMatch } from '../../ingest/feed.ts';
import { address, fill, hash, market } from './feed-matches.ts';

/** A writer whose metadata never arrives; records how long each match would have waited for it. */
function setUp() {
  const waits: number[] = [];
  const published: string[] = [];
  const writer = new FeedWriter(
    {
      append: async ({ id }) => published.push(id),
      flush: async () => undefined,
    },
    {
      learn: async (_condition, _traders, waitMs) => {
        waits.push(waitMs);
        await delay(waitMs);
      },
      feedMarket: () => market(),
      feedTrader: () => fill(1).trader,
    },
  );
  return { writer, waits, published };
}

function shown(n: number): ShownMatch {
  const one = { ...fill(1), trader: address(1), tokenId: 1n, order: null };
  return {
    ...{ id: `match ${n}`, txHash: hash(n), exchange: address(9), conditionId: hash(1) },
    ...{ detectedAtMs: 0, pending: false, sent: null, taker: one, makers: [one] },
  };
}

describe('FeedWriter', () => {
  test('waits for unavailable metadata once, not once per match', async () => {
    const { writer, waits, published } = setUp();
    for (let n = 0; n < 20; n += 1) await writer.show(shown(n));
    expect(waits).toEqual([250, ...Array.from({ length: 19 }, () => 0)]);
    expect(published.length).toBe(20);
  });

  test('shows a match once if it is offered twice at the same time', async () => {
    const { writer, published } = setUp();
    const both = await Promise.all([writer.show(shown(1)), writer.show(shown(1))]);
    expect(both.map((message) => message !== undefined)).toEqual([true, false]);
    expect(published).toEqual(['match 1']);
  });
});
