/** Position events against an account of the same LEDGER that only adds and compares net shares. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fill, Match, Movement } from '../../ingest/contract.ts';
import { type Folded, NOW, startFolded, TRADERS } from '../support/api-folded.ts';
import { conditionId, traderAddress } from '../support/ledger-generator.ts';

const M = 1_000_000n;
const BLOCK = 99_000_000;
const [GIVER, TAKER, MAKER] = [910, 911, 912].map(traderAddress) as [
  Fill['trader'],
  Fill['trader'],
  Fill['trader'],
];
const MOVED = conditionId(9_100);
const TX = `0x${'ab'.repeat(32)}` as const;

/** Type, trader, market, outcome, shares before and after, block, log, value. */
type Known = readonly [string, string, string, number, bigint, bigint, number, number, bigint];

let folded: Folded;
let known: readonly Known[];
beforeAll(async () => {
  folded = await startFolded(11);
  known = eventsOf(folded.events);
});
afterAll(() => folded?.stop());

function eventsOf(events: Folded['events']): readonly Known[] {
  const net = new Map<string, bigint>();
  const resolved = new Map<string, readonly [bigint, bigint]>();
  const found: Known[] = [];
  for (const event of events) {
    const { conditionId: market, blockNumber: block } = event;
    const outcomeOf = (held: bigint) => (held < 0n ? 1 : 0);
    const size = (n: bigint) => (n < 0n ? -n : n);
    const add = (
      type: string,
      trader: string,
      [before, after]: readonly [bigint, bigint],
      log: number,
      value: bigint,
    ) => {
      const outcome = outcomeOf(after === 0n ? before : after);
      found.push([type, trader, market, outcome, size(before), size(after), block, log, value]);
    };
    const settle = (trader: string, log: number) => {
      const key = `${trader} ${market}`;
      const before = net.get(key) ?? 0n;
      const [zero, one] = resolved.get(market) ?? [0n, 0n];
      const paid = (size(before) * (before < 0n ? one : zero)) / (zero + one);
      if (before !== 0n) add('settled', trader, [before, 0n], log, paid);
      net.delete(key);
    };
    if (event.kind === 'resolution') {
      if (resolved.has(market)) continue;
      resolved.set(market, event.payouts);
      const holders = [...net.keys()].filter((key) => key.endsWith(market));
      for (const key of holders) settle(key.split(' ')[0] ?? '', event.logIndex);
      continue;
    }
    for (const { trader, side, outcomeIndex, shares, usdc, logIndex } of event.fills) {
      const key = `${trader} ${market}`;
      const before = net.get(key) ?? 0n;
      const isMore = (side === 'BUY') === (outcomeIndex === 0);
      const after = isMore ? before + shares : before - shares;
      net.set(key, after);
      if (before === after) continue;
      // Shares and money of a part of the trade, as shares of the outcome that is held.
      const worth = (held: bigint, some: bigint, money: bigint) =>
        outcomeOf(held) === outcomeIndex ? money : some - money;
      const whole = worth(after === 0n ? before : after, shares, usdc);
      if (before === 0n) add('opened', trader, [before, after], logIndex, whole);
      else if (after === 0n) add('closed', trader, [before, after], logIndex, whole);
      else if (before < 0n !== after < 0n) {
        const closing = (usdc * size(before)) / shares;
        add('closed', trader, [before, 0n], logIndex, worth(before, size(before), closing));
        const rest = worth(after, shares - size(before), usdc - closing);
        add('opened', trader, [0n, after], logIndex, rest);
      } else {
        const isLonger = size(after) > size(before);
        add(isLonger ? 'added' : 'reduced', trader, [before, after], logIndex, whole);
      }
      if (resolved.has(market)) settle(trader, logIndex);
    }
  }
  return found;
}

// biome-ignore lint/suspicious/noExplicitAny: compared and not trusted.
type Body = any;

async function listed(query: string): Promise<Body[]> {
  const all: Body[] = [];
  for (let path: string | undefined = `/v2/position_events?${query}`; path !== undefined; ) {
    const page: { body: Body; next?: string | undefined } = await folded.ok(path);
    all.push(...page.body.events);
    path = page.next;
  }
  return all;
}
const brief = (one: Body): Known => [
  ...([one.type, one.trader.address.toLowerCase(), one.market.condition_id] as const),
  ...([one.outcome_index, BigInt(one.shares_before), BigInt(one.shares_after)] as const),
  ...([one.block_number, one.log_index, BigInt(one.value)] as const),
];
const text = (events: readonly Known[]) => events.map((event) => event.join(' '));

describe('GET /v2/position_events', () => {
  test.each(['asc', 'desc'])('has the events of some traders, %s', async (order) => {
    const traders = TRADERS.slice(2, 6);
    const found = await listed(`traders=${traders}&order=${order}&limit=37`);
    const wanted = known.filter(([, trader]) => traders.includes(trader as never));
    expect(text(found.map(brief)).toSorted()).toEqual(text(wanted).toSorted());
    const types = new Set(wanted.map(([type]) => type));
    expect([...types].toSorted()).toEqual(['added', 'closed', 'opened', 'reduced', 'settled']);
    const places = found.map((one) => one.block_number * 1e4 + one.log_index);
    const sorted = places.toSorted((a, b) => (order === 'asc' ? a - b : b - a));
    expect(places).toEqual(sorted);
  });

  test('without traders has everybody of a period', async () => {
    const from = new Date((NOW - 3 * 86_400) * 1_000).toISOString();
    const first = folded.events.find(({ blockTime }) => blockTime >= NOW - 3 * 86_400);
    const found = await listed(`from=${from}&limit=500`);
    const wanted = known.filter(([, , , , , , block]) => block >= (first?.blockNumber ?? 0));
    expect(wanted.length).toBeGreaterThan(500);
    expect(text(found.map(brief)).toSorted()).toEqual(text(wanted).toSorted());
  });

  test('is what analysts see', async () => {
    const rows = await folded.client.query({
      query: `SELECT type, trader, condition_id, outcome_index, toInt64(shares_before * 1000000) AS before,
          toInt64(shares_after * 1000000) AS after, block_number, log_index, toInt64(value * 1000000) AS worth
        FROM analyst.position_events`,
      format: 'JSONCompactEachRow',
    });
    const found = await rows.json<readonly unknown[]>();
    expect(found.map((row) => row.join(' ')).toSorted()).toEqual(text(known).toSorted());
  });

  test('filters by type, market and value', async () => {
    const traders = TRADERS.slice(0, 3);
    const own = known.filter(([, trader]) => traders.includes(trader as never));
    const closed = await listed(`traders=${traders}&type=closed`);
    expect(text(closed.map(brief)).toSorted()).toEqual(
      text(own.filter(([type]) => type === 'closed')).toSorted(),
    );
    const market = own[0]?.[2];
    const ofMarket = await listed(`traders=${traders}&market=${market}`);
    expect(text(ofMarket.map(brief)).toSorted()).toEqual(
      text(own.filter(([, , condition]) => condition === market)).toSorted(),
    );
    const all = await listed(`traders=${traders}&limit=500`);
    const values = all.map((one) => one.value).toSorted((a, b) => a - b);
    const least = values[values.length >> 1] / 1e6;
    const large = await listed(`traders=${traders}&min_usdc=${least}&limit=500`);
    expect(large).toEqual(all.filter((one) => one.value >= Math.round(least * 1e6)));
    expect(large.length).toBeLessThan(all.length);
  });

  test('realises what the trader realised', async () => {
    for (const trader of TRADERS.slice(0, 3)) {
      const events = await listed(`traders=${trader}&limit=500`);
      const trades = await folded.ok(`/v2/traders/${trader}/trades?limit=1000`);
      const settled = events.filter(({ type }) => type === 'settled');
      expect(settled.length).toBeGreaterThan(0);
      const pnl = (list: Body[]) => list.reduce((sum, one) => sum + one.realised_pnl, 0);
      const ids = new Set(
        trades.body.trades.map((one: Body) => `${one.block_number}:${one.log_index}`),
      );
      const ofTrades = events.filter(
        (one) => one.cause === 'fill' && ids.has(`${one.block_number}:${one.log_index}`),
      );
      expect(pnl(ofTrades)).toBe(pnl(trades.body.trades));
    }
  });

  test('has transfers, but no splits and no openings', async () => {
    const at = (block: number) => ({
      ...{ blockNumber: BLOCK + block, blockTime: NOW - 1_000 + block, txHash: TX },
      conditionId: MOVED,
    });
    const fill: Fill = {
      ...{ logIndex: 2, orderHash: TX, trader: GIVER, isTaker: true, side: 'BUY' },
      ...{ outcomeIndex: 0, tokenId: '1', shares: 10n * M, usdc: 3n * M, fee: 0n },
    };
    const other = { outcomeIndex: 1, tokenId: '2', usdc: 7n * M, trader: MAKER } as const;
    const exchange = `0x${'e1'.repeat(20)}` as const;
    const fills = [{ ...fill, ...other, isTaker: false, logIndex: 1 }, fill];
    const match: Match = { kind: 'match', ...at(0), logIndex: 3, exchange, fills };
    const movement = (block: number, of: Partial<Movement>): Movement => ({
      ...{ kind: 'movement', ...at(block), logIndex: 5, part: 0, reason: 'split', trader: GIVER },
      ...{ counterparty: '', change: [0n, 0n], usdc: 0n, mark: 300_000n, ...of },
    });
    await folded.book([
      match,
      movement(1, { change: [5n * M, 5n * M], usdc: -5n * M }),
      movement(2, { reason: 'transfer', change: [-4n * M, 0n], counterparty: TAKER }),
      // The taker had shares from before.
      movement(3, {
        reason: 'transfer',
        trader: TAKER,
        change: [-9n * M, 0n],
        counterparty: GIVER,
      }),
      { kind: 'resolution', ...at(4), logIndex: 1, payouts: [1n, 0n] },
      movement(5, { reason: 'transfer', change: [-1n * M, 0n], counterparty: TAKER, mark: M }),
      movement(6, { reason: 'redeem', change: [-1n * M, 0n], usdc: M, mark: M }),
    ]);
    const found = await listed(`traders=${GIVER},${TAKER}&order=asc`);
    const brief = ({ type, cause, trader, shares_before, shares_after, price }: Body) => [
      ...[
        type,
        cause,
        trader.address.toLowerCase(),
        shares_before / 1e6,
        shares_after / 1e6,
        price,
      ],
    ];
    const sorted = found.map(brief).toSorted((a, b) => (`${a}` < `${b}` ? -1 : 1));
    expect(sorted).toEqual(
      [
        ['opened', 'fill', GIVER, 0, 10, 300_000],
        ['reduced', 'movement', GIVER, 10, 6, 300_000],
        ['opened', 'movement', TAKER, 0, 4, 300_000],
        ['closed', 'movement', TAKER, 9, 0, 300_000],
        ['added', 'movement', GIVER, 6, 15, 300_000],
        ['settled', 'settlement', GIVER, 15, 0, 1_000_000],
      ].toSorted((a, b) => (`${a}` < `${b}` ? -1 : 1)),
    );
  });

  test('refuses more traders than fit and periods that end before they begin', async () => {
    const many = Array.from({ length: 51 }, (_, n) => traderAddress(n)).join();
    for (const query of [`traders=${many}`, 'from=2026-05-02&to=2026-05-01', 'cursor=1.2']) {
      const response = await fetch(`${folded.api.url}/v2/position_events?${query}`, {
        headers: { 'X-Service-Key': folded.key },
      });
      expect(response.status, query).toBe(400);
    }
  });
});
