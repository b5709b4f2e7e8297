import pino from 'pino';
import { Registry } from 'prom-client';
import { describe, expect, test, vi } from 'vitest';
import type { SentMatch } from '../../ingest/chain/blocks.ts';
import { type FeedMatch, type FeedSequel, feedMessageId } from '../../ingest/contract.ts';
import { pendingMetrics } from '../../ingest/metrics.ts';
import type { Receipt } from '../../ingest/pending/mempool.ts';
import { PENDING_MATCHES_MAX, PendingMatches } from '../../ingest/pending/pending.ts';
import { address, fill, hash, market, match } from './feed-matches.ts';

const SENDER = address(77);
const SECONDS_MAX = 120;

/** A table of pending matches with a simulated node and feed. Chain time is `n · 2 s` at block n. */
function setUp() {
  const sequels: FeedSequel[] = [];
  const chain = { count: 0, receipts: new Map<string, Receipt>(), isDown: false };
  const metrics = pendingMetrics(new Registry());
  const answer = <T>(value: T) =>
    chain.isDown ? Promise.reject(new Error('down')) : Promise.resolve(value);
  const pending = new PendingMatches({
    feed: {
      publish: async (sequel) => void sequels.push(sequel),
    },
    node: {
      transactionCount: () => answer(chain.count),
      receipt: (txHash) => answer(chain.receipts.get(txHash)),
    },
    secondsMax: SECONDS_MAX,
    metrics,
    logger: pino({ level: 'silent' }),
  });
  return {
    pending,
    metrics,
    chain,
    sequels,
    /** Voids with their reason, and restorations. */
    reasons: () =>
      sequels
        .filter(({ kind }) => kind !== 'final')
        .map((one) => (one.kind === 'void' ? one.reason : one.kind)),
    finals: () =>
      sequels.flatMap((one) => (one.kind === 'final' ? [[one.matchId, one.blockNumber]] : [])),
    /** Shows match n, sent with nonce n. */
    async show(n: number, over: Partial<FeedMatch> = {}, minedTime?: number): Promise<FeedMatch> {
      const shown = match(n, over);
      const id = feedMessageId(shown.txHash, shown.taker.orderHash, 0);
      pending.track({
        id,
        ...{ kind: 'match', blockNumber: 5, blockTime: 10 },
        ...{ txHash: shown.txHash, sender: SENDER, nonce: n, detectedAtMs: Date.now() },
        ...(minedTime === undefined ? {} : { minedTime }),
      });
      await pending.published(id, shown);
      return shown;
    },
    /** Reads the head with this time. */
    head(timestamp: number, txHashes: readonly string[] = []): void {
      pending.head({ number: timestamp / 2, timestamp }, txHashes, pending.headBegins());
    },
    async final(number: number, matches: readonly SentMatch[] = []): Promise<void> {
      await pending.final({ number, timestamp: number * 2 }, matches);
      await pending.judge();
    },
  };
}

/** The match in final logs: as it was shown, with `over` applied to the taker's fill. */
function located(shown: FeedMatch, over: Partial<SentMatch['fills'][number]> = {}): SentMatch {
  const fills = [...shown.makers, shown.taker].map((fill, logIndex) => ({
    ...fill,
    logIndex,
    isTaker: fill === shown.taker,
    trader: fill.trader.address,
    ...(fill === shown.taker ? over : {}),
  }));
  return {
    ...{ kind: 'match', blockNumber: 5, blockTime: 10 },
    ...{ txHash: shown.txHash, exchange: address(1), conditionId: shown.conditionId },
    ...{ logIndex: 9, sender: SENDER, call: '', ordinal: 0, fills },
  };
}

describe('PendingMatches', () => {
  test('keeps the final fills and counts each field that differs', async () => {
    const { final, show, metrics, reasons, pending } = setUp();
    const shown = await show(1);
    await final(5, [located(shown, { usdc: 1n, fee: 2n })]);
    const counts = (await metrics.differences.get()).values.filter(({ value }) => value > 0);
    expect(counts.map(({ labels, value }) => [labels.field, value])).toEqual([
      ['usdc', 1],
      ['fee', 1],
    ]);
    expect(reasons()).toEqual([]);
    expect(pending.size).toBe(0);
  });

  test('voids a match whose transaction executed another one', async () => {
    const { final, show, reasons } = setUp();
    const shown = await show(1);
    await final(5, [located(shown, { orderHash: hash(5) })]);
    expect(reasons()).toEqual(['unmatched']);
  });

  test('reports once that a match is final, and in which block', async () => {
    const { final, show, finals, sequels } = setUp();
    const shown = await show(1, { market: market({ tags: ['then'] }) });
    await final(5, [located(shown)]);
    await final(6, [located(shown)]);
    expect(finals()).toEqual([[feedMessageId(shown.txHash, shown.taker.orderHash, 0), 5]]);
    // With the fields as shown, so that it passes the same filters.
    expect(sequels[0]).toMatchObject({ tags: ['then'], usdc: shown.taker.usdc });
  });

  test('settles a match that becomes final while it is being published', async () => {
    const { final, finals, pending, reasons } = setUp();
    const shown = match(1);
    const id = feedMessageId(shown.txHash, shown.taker.orderHash, 0);
    pending.track({ id, txHash: shown.txHash, sender: SENDER, nonce: 1, detectedAtMs: 0 });
    await final(5, [located(shown)]);
    expect([pending.size, finals()]).toEqual([1, []]);
    await pending.published(id, shown);
    expect([pending.size, reasons(), finals()]).toEqual([0, [], [[id, 5]]]);
  });

  test('ignores blocks older than the head at which the match was shown', async () => {
    const { final, show, head, chain, reasons } = setUp();
    chain.count = 9;
    await show(1);
    head(1_000);
    // During a catch-up, the time of old blocks proves nothing.
    for (const number of [5, 499]) await final(number);
    expect(reasons()).toEqual([]);
    for (const number of [500, 501]) await final(number);
    expect(reasons()).toEqual(['replaced']);
  });

  test('measures the time limit in chain time', async () => {
    const { final, show, head, reasons } = setUp();
    await show(1);
    head(100);
    await final((100 + SECONDS_MAX) / 2);
    expect(reasons()).toEqual([]);
    await final((100 + SECONDS_MAX) / 2 + 1);
    expect(reasons()).toEqual(['never_mined']);
  });

  test('does not void a match that became final during the request', async () => {
    const { show, head, pending, reasons } = setUp();
    const shown = await show(1);
    head(2);
    await pending.final({ number: 200, timestamp: 400 }, []);
    const judged = pending.judge();
    await pending.final({ number: 201, timestamp: 402 }, [located(shown)]);
    await judged;
    expect(reasons()).toEqual([]);
  });

  test('starts the time limit with a head that was read after the match was shown', async () => {
    const { final, show, head, pending, reasons } = setUp();
    head(100);
    const begun = pending.headBegins();
    await show(1);
    // An older head, the same one again, and one whose reading began earlier do not start the limit.
    head(80);
    head(100);
    pending.head({ number: 60, timestamp: 120 }, [], begun);
    await final((120 + SECONDS_MAX) / 2 + 1);
    expect(reasons()).toEqual([]);
    head(400);
    await final((400 + SECONDS_MAX) / 2);
    expect(reasons()).toEqual([]);
    await final((400 + SECONDS_MAX) / 2 + 1);
    expect(reasons()).toEqual(['never_mined']);
  });

  test('settles each of several matches of one transaction', async () => {
    const { final, show, reasons } = setUp();
    const one = await show(1, { pending: false }, 10);
    await show(2, { pending: false, txHash: one.txHash, taker: fill(9) }, 10);
    await final(5, [located(one)]);
    expect(reasons()).toEqual(['unmatched']);
  });

  test('accepts a receipt at once, but a missing one only the second time', async () => {
    const { final, show, head, pending, chain, reasons } = setUp();
    const [reverted, absent, late] = [await show(1), await show(2), await show(3)];
    head(2);
    chain.count = 9;
    chain.receipts.set(reverted.txHash, { status: 0, blockNumber: 4 });
    // From an endpoint ahead of the final block, so a later final block will contain it.
    chain.receipts.set(late.txHash, { status: 1, blockNumber: 6 });
    await final(5);
    expect(reasons()).toEqual(['reverted']);
    await final(6, [located(late)]);
    expect(reasons()).toEqual(['reverted', 'replaced']);
    expect(pending.size).toBe(0);
    expect(absent.txHash).not.toBe(late.txHash);
  });

  test('waits for a node that does not respond, then judges by the same block', async () => {
    const { final, show, head, pending, chain, reasons } = setUp();
    const { txHash } = await show(1);
    head(2);
    Object.assign(chain, { count: 9, isDown: true });
    chain.receipts.set(txHash, { status: 0, blockNumber: 4 });
    await expect(final(5)).rejects.toThrow('down');
    chain.isDown = false;
    await pending.judge();
    expect(reasons()).toEqual(['reverted']);
  });

  test('ignores changes of the system clock', async () => {
    const { final, show, head, metrics, reasons } = setUp();
    try {
      const [one, other] = [await show(1), await show(2)];
      head(2);
      vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + 86_400_000 });
      await final(5, [located(one)]);
      vi.setSystemTime(Date.now() - 2 * 86_400_000);
      await final(6, [located(other)]);
    } finally {
      vi.useRealTimers();
    }
    expect(reasons()).toEqual([]);
    // Negative times are ignored.
    const { values } = await metrics.toFinal.get();
    expect(values.find(({ metricName }) => metricName?.endsWith('_count'))?.value).toBe(1);
  });

  test('is bounded: only a match that was seen in a block is dropped to make room', async () => {
    const { show, head, pending, metrics } = setUp();
    for (let n = 1; n <= PENDING_MATCHES_MAX; n += 1) await show(n);
    expect(pending.makeRoom()).toBe(false);
    head(2, [match(7).txHash]);
    expect(pending.makeRoom()).toBe(true);
    expect(pending.size).toBe(PENDING_MATCHES_MAX - 1);
    const [ended] = (await metrics.ended.get()).values.filter(({ value }) => value > 0);
    expect(ended).toMatchObject({ labels: { outcome: 'unconfirmed' }, value: 1 });
  });

  test('drops matches that were final, to make room while LEDGER is read again', () => {
    const { pending } = setUp();
    for (let n = 1; n <= PENDING_MATCHES_MAX; n += 1) {
      const shown = match(n);
      const { txHash } = shown;
      pending.track({ id: `${n}`, txHash, sender: SENDER, nonce: n, detectedAtMs: 0 }, shown, true);
    }
    expect(pending.makeRoom()).toBe(true);
  });
});
