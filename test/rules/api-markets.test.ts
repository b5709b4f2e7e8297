/**
 * Candles, trades and holders of markets over real HTTP and ClickHouse, compared with an account of the same
 * made-up bookings that uses neither the SQL nor the api.
 */
import { getAddress } from 'viem';
import { describe, expect, test } from 'vitest';
import type { Select } from '../../infra/clickhouse.ts';
import {
  addressOf,
  type Booking,
  conditionOf,
  insertBookings,
  insertResolution,
  MARKETS,
  orderHashOf,
  UNLISTED_MARKET,
} from '../support/api-bookings.ts';
import {
  firstPrice,
  firstPriceDown,
  heldOf,
  isResolved,
  marketV2,
  markObject,
  markOf,
  matchesOf,
  NOW,
  profileV2,
  RESOLVED_AT,
  rows,
  SEED,
  sum,
  time,
} from '../support/api-expected.ts';
import { get, startApi } from '../support/api-harness.ts';
import { startSeeded } from '../support/api-seeded.ts';
import { forFile } from '../support/for-file.ts';
import { nearest } from '../support/prices.ts';
import { generator } from '../support/seed.ts';

const ALL_MARKETS = [...MARKETS.keys(), UNLISTED_MARKET];

const seeded = forFile(startSeeded);

/** The body of a 200, and the path of the next page. */
async function ok(path: string) {
  const { status, headers, body, text } = await get(seeded.api.url + path, seeded.key);
  expect(status, `${path}: ${text}`).toBe(200);
  return { body, next: /^<([^>]+)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1] };
}

async function refused(path: string): Promise<string> {
  const { status, body } = await get(seeded.api.url + path, seeded.key);
  expect(status, path).toBe(400);
  return body.detail;
}

const pathOf = (market: number) => `/v2/markets/0x${conditionOf(market)}`;

describe('GET /v2/markets/:id/candles', () => {
  const WIDTHS = { '1m': 60, '5m': 300, '15m': 900, '1h': 3_600, '6h': 21_600, '1d': 86_400 };

  /** Every candle from the first match to `last`, of which the test takes a range. */
  function expectedCandles(market: number, width: number, first: number, last: number) {
    const matches = matchesOf(market);
    const candles = [];
    let close: number | undefined;
    const before = matches.findLast((match) => match.time < first);
    if (before !== undefined) close = firstPrice(before);
    const byStart = Map.groupBy(matches, (match) => match.time - (match.time % width));
    for (let start = first; start <= last; start += width) {
      const own = byStart.get(start) ?? [];
      const prices = own.map(firstPrice);
      if (own.length > 0) {
        candles.push({
          ...{ time: time(start), open: prices[0], close: prices.at(-1) },
          high: Math.max(...own.map(firstPriceDown), prices[0] ?? 0, prices.at(-1) ?? 0),
          low: Math.min(...own.map(firstPriceDown)),
          volume: sum(own.map((match) => match.usdc)),
          shares: sum(own.map((match) => match.shares)),
          ...{ trades: own.length, is_empty: false },
        });
        close = prices.at(-1);
      } else if (close !== undefined && !(isResolved(market) && start > RESOLVED_AT)) {
        const same = { open: close, high: close, low: close, close };
        const none = { volume: 0, shares: 0, trades: 0, is_empty: true };
        candles.push({ time: time(start), ...same, ...none });
      }
    }
    return candles;
  }

  test.each(Object.entries(WIDTHS))(
    'of %s equal an account of the matches, in any range',
    async (interval, width) => {
      const random = generator(SEED + width);
      for (const market of ALL_MARKETS) {
        for (let round = 0; round < 2; round++) {
          const from = NOW - Math.floor(random() * 45 * 86_400);
          const to = Math.min(NOW, from + Math.floor(random() * 1_498 * width));
          const { body } = await ok(
            `${pathOf(market)}/candles?interval=${interval}&from=${from}&to=${to}`,
          );
          const [first, last] = [from - (from % width), to - (to % width)];
          expect(body.candles).toEqual(expectedCandles(market, width, first, last));
        }
      }
    },
  );

  test('are 300 of an hour until now by default', async () => {
    const last = NOW - (NOW % 3_600);
    const { body } = await ok(`${pathOf(4)}/candles`);
    expect(body.candles).toHaveLength(300);
    expect(body.candles).toEqual(expectedCandles(4, 3_600, last - 299 * 3_600, last));
    // There is nothing in the future.
    expect((await ok(`${pathOf(4)}/candles?to=${NOW + 90_000}`)).body).toEqual(body);
    expect((await ok(`${pathOf(4)}/candles?from=${NOW + 90_000}`)).body.candles).toEqual([]);
  });

  test('are 1,500 from `from` at most', async () => {
    const from = NOW - 30 * 86_400;
    const path = `${pathOf(4)}/candles?interval=1m&from=${from}`;
    const first = from - (from % 60);
    const { candles } = (await ok(path)).body;
    expect(candles).toEqual(expectedCandles(4, 60, first, first + 1_499 * 60));
    expect((await ok(`${path}&to=${from + 1_499 * 60}`)).body.candles).toEqual(candles);
    expect(await refused(`${path}&to=${from + 1_500 * 60}`)).toBe(
      'from: more than 1500 candles until `to`',
    );
    expect(await refused(`${path}&to=${from - 1}`)).toBe('from: must not be above to');
  });

  test('end with the resolution by default', async () => {
    const last = RESOLVED_AT - (RESOLVED_AT % 300);
    const { candles } = (await ok(`${pathOf(0)}/candles?interval=5m`)).body;
    expect(candles.length).toBeGreaterThan(0);
    expect(candles).toEqual(expectedCandles(0, 300, last - 299 * 300, last));
  });

  test('end with the resolution, or with what was matched after it', async () => {
    const { candles } = (await ok(`${pathOf(0)}/candles?interval=5m&to=${NOW}`)).body;
    const late = candles.filter((candle: { time: string }) => candle.time > time(RESOLVED_AT));
    expect(late.every((candle: { is_empty: boolean }) => !candle.is_empty)).toBe(true);
  });
});

function tradeObject(match: Booking) {
  const labels = match.market < MARKETS.length ? ['Yes', `No ${match.market}`] : ['', ''];
  const txHash = `0x${match.block.toString(16).padStart(64, '0')}`;
  return {
    match_id: `${txHash}:${orderHashOf(match)}`,
    ...{ time: time(match.time), block_number: match.block, taker: getAddress(match.trader) },
    ...{ side: match.side, outcome: labels[match.outcome], outcome_index: match.outcome },
    price: nearest(match.usdc, match.shares),
    ...{ shares: Number(match.shares), usdc: Number(match.usdc), fee: Number(match.fee) },
    ...{ tx_hash: txHash, order_hash: orderHashOf(match) },
  };
}

describe('GET /v2/markets/:id/trades', () => {
  test('are the fills of takers, newest first', async () => {
    for (const market of ALL_MARKETS) {
      const expected = matchesOf(market).map(tradeObject).reverse();
      const { body } = await ok(`${pathOf(market)}/trades?limit=1000`);
      expect(body.trades).toEqual(expected);
      expect((await ok(`${pathOf(market)}/trades`)).body.trades).toEqual(expected.slice(0, 100));
    }
  });
});

describe('GET /v2/biggest_trades', () => {
  test.each([1, 6, 24])(
    'are the matches of the last %i hours over all markets, the largest first',
    async (hours) => {
      const { body } = await ok(`/v2/biggest_trades?hours=${hours}&limit=100`);
      const from = NOW - hours * 3_600;
      expect(body.from).toBe(time(from));
      const expected = ALL_MARKETS.flatMap((market) => matchesOf(market))
        .filter((match) => match.time >= from)
        .sort((a, b) => Number(b.usdc - a.usdc) || b.block - a.block || b.log - a.log)
        .map((match) => {
          const { match_id: _, ...trade } = tradeObject(match);
          return { ...trade, taker: profileV2(match.trader), market: marketV2(match.market) };
        });
      expect(expected.length).toBeGreaterThan(1);
      expect(body.trades).toEqual(expected.slice(0, 100));
    },
  );
});

describe('GET /v2/markets/:id/holders', () => {
  function holderObject(row: Booking) {
    const { usdc, shares } = markOf(row.market);
    const worth = row.outcome === 0 ? usdc : shares - usdc;
    const value = (row.shares * worth) / shares;
    const all = heldOf(row.market).filter((one) => one.outcome === row.outcome);
    const own = rows.filter((one) => one.market === row.market && one.trader === row.trader);
    return {
      profile: profileV2(row.trader),
      outcome_index: row.outcome,
      outcome: row.market < MARKETS.length ? ['Yes', `No ${row.market}`][row.outcome] : '',
      shares: Number(row.shares),
      outcome_share: (100 * Number(row.shares)) / sum(all.map((one) => one.shares)),
      average_price: nearest(row.usdc, row.shares),
      average_price_with_fees: nearest(row.usdc + row.fee, row.shares),
      ...{ cost_basis: Number(row.usdc), open_fees: Number(row.fee), value: Number(value) },
      unrealised_pnl: Number(value - row.usdc - row.fee),
      realised_pnl: sum(own.map((one) => one.pnl)),
    };
  }

  const OUTCOMES = { both: [0, 1], 0: [0], 1: [1] };

  test.each(Object.entries(OUTCOMES))(
    'of outcome %s, most shares first',
    async (name, outcomes) => {
      for (const market of [0, 1, 2, 3, 5, UNLISTED_MARKET]) {
        const held = heldOf(market).filter((row) => outcomes.includes(row.outcome));
        expect(held.length).toBeGreaterThan(2);
        const { body } = await ok(`${pathOf(market)}/holders?outcome=${name}`);
        expect(body).toEqual({
          mark: markObject(market),
          open_interest: sum(
            heldOf(market).flatMap((row) => (row.outcome === 0 ? [row.shares] : [])),
          ),
          holders: held.map((row) => ({
            ...holderObject(row),
            outcome_share: expect.closeTo(holderObject(row).outcome_share, 9),
          })),
          ...{ next_cursor: '', total_count: held.length },
        });
      }
    },
  );
});

describe('GET /v2/markets/:id', () => {
  test('has the mark, volume, matches and open interest', async () => {
    // The whale's volume in market 4 exceeds the exact range of a number.
    for (const market of ALL_MARKETS.filter((one) => one !== 4)) {
      const matches = matchesOf(market);
      expect((await ok(pathOf(market))).body).toMatchObject({
        mark: markObject(market),
        volume: sum(matches.map((match) => match.usdc)),
        matches: matches.length,
        open_interest: sum(
          heldOf(market).flatMap((row) => (row.outcome === 0 ? [row.shares] : [])),
        ),
      });
    }
  });
});

describe('GET /v2/markets', () => {
  function entryObject(market: number) {
    const own = rows.filter((row) => row.market === market);
    const matches = matchesOf(market);
    const since = NOW - 86_400;
    const before = matches.findLast((match) => match.time < since) ?? matches[0];
    if (before === undefined) throw new Error(`market ${market} was never matched`);
    const mark = markObject(market);
    const values = (list: readonly Booking[]) => sum(list.map((match) => match.usdc));
    return {
      market: marketV2(market),
      status: isResolved(market) ? 'resolved' : market === UNLISTED_MARKET ? 'open' : 'closed',
      ...{ mark, change_24h: mark.price_1 - firstPrice(before) },
      volume_24h: values(matches.filter((match) => match.time >= since)),
      ...{ volume: values(matches), matches: matches.length },
      traders: new Set(own.map((row) => row.trader)).size,
      // A resolution settles all positions. These made-up bookings have no settlements.
      open_interest: isResolved(market)
        ? 0
        : sum(heldOf(market).flatMap((row) => (row.outcome === 0 ? [row.shares] : []))),
      first_match_at: time(Math.min(...matches.map((match) => match.time))),
    };
  }

  test('has each market that was matched, with the figures of the last refresh', async () => {
    const expected = ALL_MARKETS.map(entryObject).sort(
      (a, b) =>
        b.volume_24h - a.volume_24h || (a.market.condition_id < b.market.condition_id ? -1 : 1),
    );
    const { body } = await ok('/v2/markets?status=all');
    expect(body).toEqual({
      as_of: expect.stringMatching(/^2.*Z$/),
      markets: expected,
      next_cursor: '',
    });
    const open = expected.filter((entry) => entry.status === 'open');
    expect((await ok('/v2/markets')).body.markets).toEqual(open);
    expect((await ok('/v2/status')).body.markets.refreshed_at).toBe(body.as_of);
  });

  test('rejects a cursor that no response contained, and more words than a question has', async () => {
    await refused('/v2/markets?cursor=7');
    const words = Array.from({ length: 33 }, (_, n) => `w${n}`);
    expect(await refused(`/v2/markets?q=${words.join('+')}`)).toContain('at most 32 words');
    expect((await ok(`/v2/markets?q=${words.slice(1).join('+')}`)).body.markets).toEqual([]);
    await refused('/v2/markets?q=++');
    expect((await ok('/v2/markets?q=%F0%9F%98%80')).body.markets).toEqual([]);
  });
});

// Last, because it adds bookings.
describe('while trades arrive', () => {
  test('the list counts a market that was matched since the slow counts were last computed', async () => {
    const { client } = seeded.clickhouse;
    const [pattern] = matchesOf(5);
    if (pattern === undefined) throw new Error('no match');
    const statsOf = async () => {
      const { markets } = (await ok('/v2/markets?event=event-1005&status=all')).body;
      return markets[0];
    };
    const before = await statsOf();
    const own = { ...pattern, trader: addressOf(960), block: 94_000_000, outcome: 0 as const };
    const match = { ...own, time: NOW, cost: 0n, shares: 1_000n, usdc: 200n };
    await insertBookings(client, [match], 4_000_000);
    for (const action of ['START', 'WAIT', 'REFRESH', 'WAIT', 'STOP']) {
      await client.command({ query: `SYSTEM ${action} VIEW market_stats_mv` });
    }
    seeded.api.expire();
    expect(await statsOf()).toMatchObject({
      ...{ traders: before.traders + 1, matches: before.matches + 1 },
      ...{ open_interest: before.open_interest + 1_000, volume: before.volume + 200 },
      mark: { price_1: 200_000, price_2: 800_000, time: time(NOW) },
    });
  });

  test('trades have the ids of the feed, which count the matches of an order in a transaction', async () => {
    const [pattern] = matchesOf(1);
    if (pattern === undefined) throw new Error('no match');
    const block = 96_000_000;
    // The test's order hashes depend on block and log; these two have the same one.
    const logs = [3, 5, 9, 40];
    const own = logs.map((log) => ({ ...pattern, block, log, market: 1, trader: addressOf(950) }));
    await insertBookings(seeded.clickhouse.client, own, 5_000_000, orderHashOf(pattern));
    seeded.api.expire();
    const [hash, order] = [
      `0x${block.toString(16).padStart(64, '0')}`,
      orderHashOf(pattern),
    ] as const;
    const ids = [`${hash}:${order}`, ...[2, 3, 4].map((ordinal) => `${hash}:${order}:${ordinal}`)];
    const idsOf = (trades: readonly { match_id: string; block_number: number }[]) =>
      trades.filter((trade) => trade.block_number === block).map((trade) => trade.match_id);
    for (const direction of ['asc', 'desc']) {
      for (const limit of [1, 2, 3, 1_000]) {
        const found = [];
        let next: string | undefined = `${pathOf(1)}/trades?order=${direction}&limit=${limit}`;
        if (direction === 'asc') next += `&cursor=${block - 1}-0`;
        while (next !== undefined && found.length < ids.length) {
          const page: Awaited<ReturnType<typeof ok>> = await ok(next);
          found.push(...idsOf(page.body.trades));
          next = page.next;
        }
        expect(found).toEqual(direction === 'asc' ? ids : ids.toReversed());
      }
    }
  });

  test.each(['asc', 'desc'])('trades repeat and omit nothing in pages, %s', async (order) => {
    const path = `${pathOf(3)}/trades?order=${order}`;
    const before = (await ok(`${path}&limit=1000`)).body.trades;
    const [pattern] = matchesOf(3);
    if (pattern === undefined) throw new Error('no match');
    const walked: { match_id: string }[] = [];
    let next: string | undefined = `${path}&limit=20`;
    for (let inserted = 0; next !== undefined; inserted++) {
      const page: Awaited<ReturnType<typeof ok>> = await ok(next);
      walked.push(...page.body.trades);
      next = page.next;
      // Later than everything else, because with the oldest first, each page shows more of it.
      if (inserted >= 5) continue;
      const block = (order === 'asc' ? 97_000_000 : 98_000_000) + inserted;
      const more = [{ ...pattern, block, time: NOW }];
      await insertBookings(seeded.clickhouse.client, more, block);
    }
    seeded.api.expire();
    const after = (await ok(`${path}&limit=1000`)).body.trades;
    expect(after).toHaveLength(before.length + 5);
    expect(walked).toEqual(order === 'asc' ? after : before);
  });

  test('a market has the average price of the last five minutes, both ends included', async () => {
    const market = 6;
    const first = (await ok(pathOf(market))).body;
    expect(first.vwap_5m).toBe(recentPrice(matchesOf(market)));
    const opened = Math.min(...matchesOf(market).map((match) => match.time));
    expect(first.first_match_at).toBe(time(opened));
    const [pattern] = matchesOf(market);
    if (pattern === undefined) throw new Error('no match');
    const own = [-301, -300, -120, 0, 1].map((seconds, log) => ({
      ...{ ...pattern, log, time: NOW + seconds, block: 99_000_000 },
      ...{ outcome: (log % 2) as 0 | 1, shares: 7n + BigInt(log), usdc: BigInt(log) },
    }));
    await insertBookings(seeded.clickhouse.client, own, 6_000_000);
    seeded.api.expire();
    const { body } = await ok(pathOf(market));
    expect(body.vwap_5m).toBe(recentPrice([...matchesOf(market), ...own]));
  });

  function recentPrice(matches: readonly Booking[]): number | null {
    const own = matches.filter((match) => match.time >= NOW - 300 && match.time <= NOW);
    const total = (values: readonly bigint[]) => values.reduce((all, one) => all + one, 0n);
    const usdc = total(own.map((one) => (one.outcome === 0 ? one.usdc : one.shares - one.usdc)));
    const shares = total(own.map((one) => one.shares));
    return shares === 0n ? null : nearest(usdc, shares);
  }
});

describe('a market that is resolved while it is read', () => {
  const paths = ['/v1/markets/1001', '/v2/markets/1003', '/v1/market_data/1004'];

  test.each(paths)('%s does not show it open with figures that are settled', async (path) => {
    const market = MARKETS.findIndex(({ id }) => path.endsWith(id));
    expect(isResolved(market)).toBe(false);
    const api = await startApi({
      clickhouseUrl: seeded.clickhouse.url,
      nats: seeded.nats,
      now: () => NOW * 1_000,
      wrapSelect: (select) =>
        beforeFirst(select, 'market_traders', () =>
          insertResolution(seeded.clickhouse.client, { market, payouts: [1, 0], at: RESOLVED_AT }),
        ),
    });
    const { body } = await get(api.url + path, seeded.key);
    await api.stop();
    expect((body.market ?? body).resolved_at).toBe(time(RESOLVED_AT));
  });

  /** Runs `work` before the first statement with this text, after the statements that were sent before it. */
  function beforeFirst(select: Select, text: string, work: () => Promise<void>): Select {
    const sent = new Set<Promise<unknown>>();
    let isFirst = true;
    return async (statement) => {
      if (isFirst && statement.sql.includes(text)) {
        isFirst = false;
        await Promise.all(sent);
        await work();
      }
      const answer = select(statement);
      sent.add(answer);
      return answer;
    };
  }
});
