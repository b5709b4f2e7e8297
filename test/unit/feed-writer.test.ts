import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';
import { FeedWriter, type ShownMatch } from '../../ingest/pending/feed.ts';
import { address, fill, hash, market } from './feed-matches.ts';

/** A writer whose metadata never arrives; records how long each match was allowed to wait for it. */
function setUp(idsMax?: number) {
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
    idsMax,
  );
  return { writer, waits, published };
}

function shown(n: number): ShownMatch {
  const one = { ...fill(1), trader: address(1), tokenId: '1', order: null };
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

  test('does not show a final match again after its id was dropped', async () => {
    const { writer, published } = setUp(2);
    const early = (n: number): ShownMatch => ({
      ...shown(n),
      ...{ detectedAtMs: n * 3_600_000, sent: { sender: address(1), nonce: n } },
    });
    const final = (n: number, detectedAtMs = n * 3_600_000) => ({ ...shown(n), detectedAtMs });
    for (const n of [5, 6, 20, 21]) await writer.show(early(n));
    // Ids of 5 and 6 were dropped; an outage began after 6.
    await writer.show(final(5));
    await writer.show(final(6, 6 * 3_600_000 + 2_000));
    await writer.show(final(21));
    expect(published).toEqual(['match 5', 'match 6', 'match 20', 'match 21']);
    for (const n of [4, 7, 8, 9, 22]) await writer.show(final(n));
    expect(published.slice(4)).toEqual([4, 7, 8, 9, 22].map((n) => `match ${n}`));
    // Those dropped 20 and 21.
    await writer.show(final(20));
    expect(published.length).toBe(9);
  });
});
