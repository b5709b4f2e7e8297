/** Positions, PnL, trades and batches of traders, compared with an independent account of the same LEDGER. */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  accountAt,
  type Folded,
  LEDGER,
  NOW,
  pnlAt,
  startFolded,
  TRADERS,
  type Trade,
  valued,
} from '../support/api-folded.ts';
import { get } from '../support/api-harness.ts';
import { ledgerEvents, MATCHES_PER_BLOCK } from '../support/ledger-generator.ts';
import { nearest } from '../support/prices.ts';
import { SEED as TEST_SEED } from '../support/seed.ts';

const SEED = TEST_SEED;
let folded: Folded;

beforeAll(async () => {
  folded = await startFolded(SEED);
});

afterAll(() => folded?.stop());

const isoOf = (seconds: number) => `${new Date(seconds * 1_000).toISOString().slice(0, 19)}Z`;
const NEVER_TRADED = `0x${'0'.repeat(40)}`;

/** Every element of a list, by its `Link` headers. */
async function walk(path: string, list: string) {
  // biome-ignore lint/suspicious/noExplicitAny: elements of several lists, compared and not trusted.
  const walked: any[] = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const page = await folded.ok(next);
    walked.push(...page.body[list]);
    next = page.next;
  }
  return walked;
}

describe('GET /v2/traders/:address/positions', () => {
  /** The expected figures of a trader in each market, by condition id. */
  function expectedOf(trader: string) {
    const { marks, own } = accountAt(folded.events, trader, NOW);
    return [...own].map(([condition, { first, holding, last, realised, settled }]) => {
      const mark = marks.get(condition);
      const { outcome, shares, unrealised, value } = valued(holding, mark);
      if (mark === undefined) throw new Error(`no mark of ${condition}`);
      const isOpen = shares > 0n;
      const status = isOpen ? 'open' : settled === undefined ? 'sold' : 'resolved';
      const held = isOpen
        ? { shares, cost: holding.cost, fees: holding.fees }
        : (settled ?? { shares: 0n, cost: 0n, fees: 0n });
      const average = (amount: bigint) => (held.shares === 0n ? 0 : nearest(amount, held.shares));
      const first0 = nearest(mark.usdc, mark.shares);
      const shown = isOpen ? outcome : settled?.outcome;
      return {
        condition,
        status,
        ...(shown === undefined ? {} : { outcome_index: shown }),
        shares: Number(shares),
        average_price: average(held.cost),
        average_price_with_fees: average(held.cost + held.fees),
        cost_basis: Number(holding.cost),
        open_fees: Number(holding.fees),
        mark: {
          ...(shown === undefined ? {} : { price: shown === 0 ? first0 : 1_000_000 - first0 }),
          time: isoOf(mark.time),
          age_seconds: NOW - mark.time,
          source: mark.source,
        },
        value: Number(value),
        unrealised_pnl: Number(unrealised),
        realised_pnl: Number(realised),
        pnl: Number(realised + unrealised),
        first_trade_at: isoOf(first),
        last_trade_at: isoOf(last),
        settled_at: settled === undefined ? '' : isoOf(settled.time),
        settled_shares: Number(settled?.shares ?? 0n),
        settled_cost: Number(settled?.cost ?? 0n),
        settled_fees: Number(settled?.fees ?? 0n),
        payout: Number(settled?.payout ?? 0n),
      };
    });
  }
  const sum = (numbers: readonly number[]) => numbers.reduce((a, b) => a + b, 0);

  test.each(['open', 'resolved', 'all'])(
    'equals the account of the chain: status=%s',
    async (status) => {
      let shown = 0;
      for (const trader of TRADERS) {
        const expected = expectedOf(trader).filter(
          (position) => status === 'all' || position.status === status,
        );
        const { body } = await folded.ok(
          `/v2/traders/${trader}/positions?limit=100&status=${status}`,
        );
        expect(body.total_count).toBe(expected.length);
        expect(body.totals).toEqual({
          value: sum(expected.map((one) => one.value)),
          cost_basis: sum(expected.map((one) => one.cost_basis)),
          open_fees: sum(expected.map((one) => one.open_fees)),
          unrealised_pnl: sum(expected.map((one) => one.unrealised_pnl)),
          realised_pnl: sum(expected.map((one) => one.realised_pnl)),
          closed_count: expected.filter((one) => one.shares === 0).length,
          closed_won_count: expected.filter((one) => one.shares === 0 && one.realised_pnl > 0)
            .length,
        });
        const sorted = expected.toSorted(
          (a, b) => b.value - a.value || (a.condition < b.condition ? -1 : 1),
        );
        expect(body.positions).toMatchObject(sorted.map(({ condition, ...one }) => one));
        for (const [i, { market, portfolio_share, unrealised_roi }] of body.positions.entries()) {
          const { condition, cost_basis, unrealised_pnl, value } = sorted[i] as (typeof sorted)[0];
          expect(market.condition_id).toBe(condition);
          expect(unrealised_roi).toBe(cost_basis === 0 ? 0 : (100 * unrealised_pnl) / cost_basis);
          expect(portfolio_share).toBe(value === 0 ? 0 : (100 * value) / body.totals.value);
        }
        shown += body.positions.length;
      }
      expect(shown).toBeGreaterThan(50);
    },
  );

  test.each(['value', 'pnl', 'age', 'last_trade'])(
    'is complete in pages by %s, in both orders',
    async (sort) => {
      const path = `/v2/traders/${TRADERS[0]}/positions?status=all&sort_by=${sort}`;
      const { body } = await folded.ok(`${path}&limit=100`);
      const figures = body.positions.map(
        (one: { value: number; pnl: number; first_trade_at: string; last_trade_at: string }) =>
          ({
            ...{ value: one.value, pnl: one.pnl },
            age: NOW - Date.parse(one.first_trade_at) / 1_000,
            last_trade: Date.parse(one.last_trade_at) / 1_000,
          })[sort],
      );
      expect(figures).toEqual(figures.toSorted((a: number, b: number) => b - a));
      expect(new Set(figures).size).toBeGreaterThan(10);
      const walked = await walk(`${path}&limit=7`, 'positions');
      expect(walked).toEqual(body.positions);
      expect(await walk(`${path}&limit=7&order=asc`, 'positions')).toEqual(walked.toReversed());
    },
  );

  test('has the same totals on every page, also on one behind the end', async () => {
    const path = `/v2/traders/${TRADERS[0]}/positions`;
    const { body } = await folded.ok(path);
    const behind = await folded.ok(`${path}?cursor=-9000000000000000000-${'f'.repeat(64)}`);
    expect(behind.body).toEqual({ ...body, positions: [], next_cursor: '' });
    expect(behind.next).toBeUndefined();
  });

  test('finds by words of the listing, with totals of what was found', async () => {
    const path = `/v2/traders/${TRADERS[0]}/positions?status=all&limit=100`;
    const [one, other, renamed] = (await folded.ok(path)).body.positions;
    const values = [one, other].map(
      ({ market }, n) =>
        `(unhex('${market.condition_id.slice(2)}'), ${7_000 + n}, 'Does the ${n === 0 ? 'Heron' : 'Robin'} sing?')`,
    );
    await folded.client.command({
      query: `INSERT INTO markets (condition_id, market_id, question) VALUES ${values.join()}`,
    });
    for (const [bird, observedMs] of [
      ['Heron', 1],
      ['Wren', 2],
    ] as const) {
      await folded.client.command({
        query: `INSERT INTO markets (condition_id, market_id, question, observed_at)
          VALUES (unhex('${renamed.market.condition_id.slice(2)}'), 7002, 'Does the ${bird} sing?', ${observedMs})`,
      });
    }
    const { body } = await folded.ok(`${path}&q=SING+her`);
    expect(body.positions.map((found: typeof one) => found.market.condition_id)).toEqual([
      one.market.condition_id,
    ]);
    expect(body.totals).toMatchObject({ value: one.value, realised_pnl: one.realised_pnl });
    expect((await folded.ok(`${path}&q=sing`)).body.total_count).toBe(3);
    const first = `/v2/traders/${TRADERS[0]}/positions?status=all&q=sing&limit=1`;
    expect((await folded.ok(first)).next).toContain('q=sing');
    expect((await folded.ok(`${path}&q=sings`)).body).toMatchObject({
      ...{ positions: [], total_count: 0, totals: { closed_count: 0 } },
    });
  });

  test('is empty for a trader without trades', async () => {
    const { body } = await folded.ok(`/v2/traders/${NEVER_TRADED}/positions`);
    expect(body).toMatchObject({ positions: [], total_count: 0, totals: { value: 0 } });
  });

  test('comes as CSV', async () => {
    const url = `${folded.api.url}/v2/traders/${TRADERS[0]}/positions`;
    const headers = { 'X-Service-Key': folded.key, Accept: 'text/csv' };
    const [header] = (await (await fetch(url, { headers })).text()).split('\r\n');
    expect(header).toContain('market.condition_id');
    expect(header).toContain('mark.price,mark.time,mark.age_seconds,mark.source,value');
  });
});

describe('GET /v2/traders/:address/trades', () => {
  /** The fills of a trader, newest first, with the PnL that each realised. */
  function expectedOf(trader: string) {
    const { fills } = accountAt(folded.events, trader, NOW);
    return fills.toReversed();
  }

  test('equals the account of the chain, on pages of any size, either way', async () => {
    for (const trader of TRADERS.slice(0, 3)) {
      const expected = expectedOf(trader);
      expect(expected.length).toBeGreaterThan(400);
      const walked = await walk(`/v2/traders/${trader}/trades?limit=173`, 'trades');
      expect(
        walked.map(({ market, ...trade }) => ({ ...trade, market: market.condition_id })),
      ).toEqual(expected);
      const upwards = await walk(`/v2/traders/${trader}/trades?limit=1000&order=asc`, 'trades');
      expect(upwards).toEqual(walked.toReversed());
    }
  });

  /** The market that a trader has traded most. */
  function busiestMarketOf(trader: string) {
    const counts = new Map<string, number>();
    for (const { market } of expectedOf(trader)) counts.set(market, (counts.get(market) ?? 0) + 1);
    return [...counts].sort(([, a], [, b]) => b - a)[0]?.[0] ?? '';
  }

  test.each([
    ['side=SELL&min_usdc=20.5', (one: Trade) => one.side === 'SELL' && one.usdc >= 20_500_000],
    ['max_usdc=0.5', (one: Trade) => one.usdc <= 500_000],
    ['from=2026-09-20&to=2026-09-21', (one: Trade) => one.time.startsWith('2026-09-20')],
  ])('keeps the fills of %s', (query, isKept) => keeps(query, isKept));

  test('keeps the fills of a market', () => {
    const market = busiestMarketOf(TRADERS[0] ?? '');
    return keeps(`market=${market}`, (one) => one.market === market);
  });

  async function keeps(query: string, isKept: (one: Trade) => boolean) {
    const expected = expectedOf(TRADERS[0] ?? '').filter(isKept);
    expect(expected.length).toBeGreaterThan(0);
    const walked = await walk(`/v2/traders/${TRADERS[0]}/trades?limit=40&${query}`, 'trades');
    expect(walked.map(({ block_number, log_index }) => [block_number, log_index])).toEqual(
      expected.map(({ block_number, log_index }) => [block_number, log_index]),
    );
  }

  test('repeats and omits nothing while trades arrive', async () => {
    const [trader = ''] = TRADERS;
    const before = expectedOf(trader);
    const blocks = Math.max(...folded.events.map((event) => event.blockNumber)) + 1;
    let arrived = 0;
    const walked: Trade[] = [];
    let next: string | undefined = `/v2/traders/${trader}/trades?limit=211`;
    while (next !== undefined) {
      const page: Awaited<ReturnType<Folded['ok']>> = await folded.ok(next);
      walked.push(...page.body.trades);
      const firstMatch = (blocks + 10 * arrived++) * MATCHES_PER_BLOCK;
      const more = { ...LEDGER, seed: SEED + arrived, from: NOW, to: NOW, matches: 30, firstMatch };
      await folded.add([...ledgerEvents(more)].filter((event) => event.kind === 'match'));
      next = page.next;
    }
    expect(arrived).toBeGreaterThan(3);
    const placeOf = ({ block_number, log_index }: Trade) => [block_number, log_index];
    expect(walked.map(placeOf)).toEqual(before.map(placeOf));
    const upwards = await walk(`/v2/traders/${trader}/trades?limit=1000&order=asc`, 'trades');
    expect(upwards.map(placeOf)).toEqual(expectedOf(trader).toReversed().map(placeOf));
    expect(upwards.length).toBeGreaterThan(before.length);
  });

  test('is empty for a trader without trades', async () => {
    const { body } = await folded.ok(`/v2/traders/${NEVER_TRADED}/trades`);
    expect(body).toEqual({ trades: [], next_cursor: '' });
  });
});

describe('GET /v2/traders/:address/pnl', () => {
  const interval = fc.constantFrom('1h', '1d');
  const ranges = fc.record({
    trader: fc.constantFrom(...TRADERS),
    interval,
    /** Also before the first trade and after the last. */
    from: fc.integer({ min: LEDGER.from - 86_400, max: NOW }),
    points: fc.integer({ min: 1, max: 6 }),
  });

  test('equals the account of the chain at each time, from any base', async () => {
    await fc.assert(
      fc.asyncProperty(ranges, async ({ from, interval, points, trader }) => {
        const width = interval === '1h' ? 3_600 : 86_400;
        const to = Math.min(NOW, from + (points - 1) * width);
        const path = `/v2/traders/${trader}/pnl?interval=${interval}&from=${from}&to=${to}`;
        const { body } = await folded.ok(path);
        const expected = [];
        for (let start = from - (from % width); start <= to; start += width) {
          const time = Math.min(start + width, NOW);
          // Events in the second of the end count in the next interval.
          const until = time === NOW ? NOW : time - 1;
          const { realised, unrealised } = pnlAt(folded.events, trader, until);
          const pnl = realised + unrealised;
          expected.push({
            time: isoOf(time),
            realised_pnl: realised,
            unrealised_pnl: unrealised,
            pnl,
          });
        }
        expect(body.points).toEqual(expected);
      }),
      { numRuns: 25, seed: SEED },
    );
  });

  test('ends with the totals of the positions', async () => {
    for (const trader of TRADERS.slice(0, 2)) {
      const { body } = await folded.ok(`/v2/traders/${trader}/pnl`);
      expect(body.points).toHaveLength(168);
      const { body: held } = await folded.ok(`/v2/traders/${trader}/positions?status=all`);
      const { realised_pnl, unrealised_pnl } = held.totals;
      expect(body.points.at(-1)).toMatchObject({ time: isoOf(NOW), realised_pnl, unrealised_pnl });
    }
  });

  test('is 0 for a trader without trades, and ends now', async () => {
    const path = `/v2/traders/${NEVER_TRADED}/pnl?interval=1d`;
    const { body } = await folded.ok(path);
    expect(body.points).toHaveLength(30);
    expect(body.points[7]).toMatchObject({ realised_pnl: 0, unrealised_pnl: 0, pnl: 0 });
    expect((await folded.ok(`${path}&from=${NOW}&to=${NOW + 864_000}`)).body.points).toHaveLength(
      1,
    );
    expect((await folded.ok(`${path}&from=${NOW + 86_400}`)).body.points).toEqual([]);
  });

  test('rejects a range with too many points with a 400', async () => {
    const url = `${folded.api.url}/v2/traders/${TRADERS[0]}/pnl?from=0`;
    const { body, status } = await get(url, folded.key);
    expect([status, body.issues]).toEqual([
      400,
      [{ path: 'from', message: 'more than 744 points until `to`' }],
    ]);
  });
});

describe('POST /v2/traders/batch', () => {
  const post = (addresses: readonly string[]) =>
    get(`${folded.api.url}/v2/traders/batch`, folded.key, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ addresses }),
    });

  test('returns the same data as the endpoints of a single trader', async () => {
    const [first = '', ...others] = TRADERS;
    const { body, status, text } = await post([
      NEVER_TRADED,
      first.toUpperCase(),
      ...others,
      first,
    ]);
    expect(status, text).toBe(200);
    expect(body.unknown).toEqual([NEVER_TRADED]);
    expect(body.traders).toHaveLength(TRADERS.length);
    for (const [i, address] of TRADERS.slice(0, 3).entries()) {
      const { positions, windows, ...own } = body.traders[i];
      const { body: one } = await folded.ok(`/v2/traders/${address}`);
      const { top_tags, weighted_volume, ...shared } = one;
      expect(own).toEqual(shared);
      const { stats } = (await folded.ok(`/v1/traders/${address}`)).body;
      const asText = ([name, value]: [string, number]) =>
        [name, /pnl|volume/.test(name) ? String(value) : value] as const;
      for (const [name, window] of Object.entries(
        windows as Record<string, Record<string, number>>,
      )) {
        expect(Object.fromEntries(Object.entries(window).map(asText))).toEqual(stats[name]);
      }
      const all = (await folded.ok(`/v2/traders/${address}/positions?status=all`)).body.totals;
      const open = (await folded.ok(`/v2/traders/${address}/positions`)).body.total_count;
      expect(positions).toEqual({ open_count: open, ...all });
    }
    expect(body.traders[0].windows.t_30d.markets_count).toBeGreaterThan(10);
  });

  test.each([
    ['no address', []],
    ['a bad address', ['0x12']],
    ['more than 100', Array.from({ length: 101 }, () => NEVER_TRADED)],
  ])('refuses %s', async (_, addresses) => {
    expect((await post(addresses)).status).toBe(400);
  });
});
