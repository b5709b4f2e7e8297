/** What the api says of wallets whose shares moved without a fill. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Fill, LedgerEvent, Match, Movement } from '../../ingest/contract.ts';
import { type Folded, NOW, startFolded } from '../support/api-folded.ts';
import { conditionId, traderAddress } from '../support/ledger-generator.ts';

const M = 1_000_000n;
const BLOCK = 99_000_000;
const [ALICE, BOB, MAKER, TAKER] = [900, 901, 902, 903].map(traderAddress) as [
  Fill['trader'],
  Fill['trader'],
  Fill['trader'],
  Fill['trader'],
];
const MARKET = conditionId(9_000);
/** Its market is not resolved. */
const OPEN = conditionId(9_001);
const [MOVER, KEEPER] = [904, 905].map(traderAddress) as [Fill['trader'], Fill['trader']];
const TX = `0x${'ab'.repeat(32)}` as const;

let folded: Folded;
beforeAll(async () => {
  folded = await startFolded(7);
  await folded.book(EVENTS);
});
afterAll(() => folded?.stop());

const at = (block: number) => ({
  blockNumber: BLOCK + block,
  blockTime: NOW - 1_000 + block,
  txHash: TX,
  conditionId: MARKET,
});

/** A mint at 30 cents. */
function minted(block: number): Match {
  const fill: Fill = {
    ...{ logIndex: 2, orderHash: TX, trader: TAKER, isTaker: true, side: 'BUY' },
    ...{ outcomeIndex: 0, tokenId: '1', shares: 10n * M, usdc: 3n * M, fee: 0n },
  };
  const other = { outcomeIndex: 1, tokenId: '2', usdc: 7n * M, trader: MAKER } as const;
  const maker: Fill = { ...fill, ...other, isTaker: false, logIndex: 1 };
  const exchange = `0x${'e1'.repeat(20)}` as const;
  return { kind: 'match', ...at(block), logIndex: 3, exchange, fills: [maker, fill] };
}

/** The same in another market, with another taker of a match. */
function inMarket<Event extends Match | Movement>(
  conditionId: Match['conditionId'],
  event: Event,
  taker = TAKER,
): Event {
  if (event.kind === 'movement') return { ...event, conditionId };
  const fills = event.fills.map((fill) => (fill.isTaker ? { ...fill, trader: taker } : fill));
  return { ...event, conditionId, fills };
}

function movement(block: number, of: Partial<Movement>): Movement {
  return {
    ...{ kind: 'movement', ...at(block), logIndex: 5, part: 0, reason: 'split', trader: ALICE },
    ...{ counterparty: '', change: [0n, 0n], usdc: 0n, mark: 300_000n, ...of },
  };
}

const EVENTS: readonly LedgerEvent[] = [
  inMarket(OPEN, minted(0), MOVER),
  inMarket(
    OPEN,
    movement(1, {
      reason: 'transfer',
      trader: MOVER,
      counterparty: KEEPER,
      change: [-10n * M, 0n],
    }),
  ),
  inMarket(OPEN, movement(2, { trader: KEEPER, change: [2n * M, 2n * M], usdc: -2n * M })),
  minted(0),
  movement(1, { reason: 'split', change: [10n * M, 10n * M], usdc: -10n * M }),
  movement(2, { reason: 'transfer', change: [-4n * M, 0n], counterparty: BOB }),
  movement(2, { reason: 'merge', change: [-6n * M, -6n * M], usdc: 6n * M, part: 1 }),
  // Bob had nothing of outcome 1.
  movement(3, { reason: 'transfer', trader: BOB, counterparty: ALICE, change: [0n, -1n * M] }),
  { kind: 'resolution', ...at(4), logIndex: 1, payouts: [1n, 0n] },
  movement(5, { reason: 'redeem', trader: BOB, change: [-4n * M, 0n], usdc: 4n * M, mark: M }),
];

// biome-ignore lint/suspicious/noExplicitAny: compared and not trusted.
type Body = any;
const get = async (path: string): Promise<Body> => (await folded.ok(path)).body;
const movements = async (trader: string, query = ''): Promise<Body> =>
  (await get(`/v2/traders/${trader}/movements?${query}`)).movements;
const brief = (all: Body) =>
  all.map((one: Body) => [
    one.reason,
    [one.change_0, one.change_1],
    one.value,
    [one.opened_0, one.opened_1],
    one.counterparty.toLowerCase(),
  ]);

describe('GET /v2/traders/:address/movements', () => {
  test('lists what moved, newest first, for both wallets of a transfer', async () => {
    const [a, b] = [ALICE, BOB];
    expect(brief(await movements(ALICE))).toEqual([
      ['transfer', [0, 1e6], 700_000, [0, 0], b],
      ['merge', [-6e6, -6e6], 6e6, [0, 0], ''],
      ['transfer', [-4e6, 0], 1_200_000, [0, 0], b],
      ['split', [10e6, 10e6], 10e6, [0, 0], ''],
    ]);
    expect(brief(await movements(BOB))).toEqual([
      ['redeem', [-4e6, 0], 4e6, [0, 0], ''],
      ['transfer', [0, -1e6], 700_000, [0, 1e6], a],
      ['transfer', [4e6, 0], 1_200_000, [0, 0], a],
    ]);
    const [newest] = await movements(BOB, 'limit=1');
    expect(newest).toMatchObject({
      ...{ time: new Date((NOW - 995) * 1_000).toISOString().replace('.000', '') },
      ...{ block_number: BLOCK + 5, log_index: 5, part: 0, tx_hash: TX, realised_pnl: 0 },
      market: { condition_id: MARKET },
    });
  });

  test('comes in pages of any size, either way, and of a market or a reason', async () => {
    for (const order of ['asc', 'desc']) {
      const all = await movements(ALICE, `order=${order}`);
      const paged: Body[] = [];
      let next: string | undefined = `/v2/traders/${ALICE}/movements?limit=1&order=${order}`;
      while (next !== undefined) {
        const page: Body = await folded.ok(next);
        paged.push(...page.body.movements);
        next = page.next;
      }
      expect(paged).toEqual(all);
    }
    expect(brief(await movements(ALICE, 'reason=merge'))).toHaveLength(1);
    expect(await movements(ALICE, `market=${MARKET}`)).toHaveLength(4);
    expect(await movements(ALICE, `market=${conditionId(1)}`)).toEqual([]);
    expect(await movements(traderAddress(0))).toEqual([]);
  });
});

describe('positions', () => {
  const position = async (trader: string) =>
    (await get(`/v2/traders/${trader}/positions?status=all`)).positions;

  test('carry the cost of shares that were sent, and realise it at the resolution', async () => {
    // The sender keeps outcome 1 of four pairs at 70 cents, and buys back one more at the mark.
    expect(await position(ALICE)).toMatchObject([
      {
        status: 'resolved',
        realised_pnl: -3_500_000,
        settled_shares: 5e6,
        settled_cost: 3_500_000,
      },
    ]);
    // Outcome 1 was opened and sent at the mark, closing a part of outcome 0 on the way.
    expect(await position(BOB)).toMatchObject([{ status: 'resolved', settled_shares: 4e6 }]);
  });

  test('show what is in the wallet, and where shares only left', async () => {
    // Five of ten pairs were merged or sent, and one of outcome 1 came.
    expect(await position(ALICE)).toMatchObject([{ balance_0: 0, balance_1: 5e6, pairs: 0 }]);
    expect(await position(TAKER)).toMatchObject([{ balance_0: 10e6, balance_1: 0, pairs: 0 }]);
    expect(await position(MOVER)).toMatchObject([
      { status: 'moved', balance_0: 0, balance_1: 0, realised_pnl: 0 },
    ]);
    const { totals } = await get(`/v2/traders/${MOVER}/positions?status=all`);
    expect(totals).toMatchObject({ closed_count: 0, closed_won_count: 0 });
    const [held] = await position(KEEPER);
    expect(held).toMatchObject({ status: 'open', shares: 10e6, balance_0: 12e6, balance_1: 2e6 });
    expect(held.pairs).toBe(2e6);
  });

  test('of wallets that only traded are those of trades', async () => {
    const [taker] = await position(TAKER);
    expect(taker).toMatchObject({ realised_pnl: 7_000_000, settled_shares: 10e6 });
  });

  test('of the market, traders are those with a trade or a settlement', async () => {
    const { total_traders } = await get(`/v2/markets/${MARKET}`);
    expect(total_traders).toBe(4);
  });
});

describe('GET /v2/traders/:address/audit', () => {
  const audit = async (trader: string, query = ''): Promise<Body> =>
    (await get(`/v2/traders/${trader}/audit?${query}`)).markets;

  test('adds up what came and left, and says what it depends on', async () => {
    expect(await audit(ALICE)).toMatchObject([
      {
        ...{ fills: 0, movements: 4, bought: 0, sold: 0, fees: 0, split: 10e6, merged: 6e6 },
        ...{ redeemed: 0, converted: 0, cash: -4e6, received: 700_000, sent: 1_200_000, opened: 0 },
        ...{ realised_pnl: -3_500_000, cost_basis: 0, open_fees: 0, balance_0: 0, balance_1: 5e6 },
        ...{ in_wallet: 0, difference: 0, flags: ['mark'] },
      },
    ]);
    expect(await audit(BOB)).toMatchObject([
      { redeemed: 4e6, cash: 4e6, opened: 700_000, difference: 0, flags: ['opening', 'mark'] },
    ]);
    expect(await audit(KEEPER)).toMatchObject([
      { cash: -2e6, received: 3e6, cost_basis: 3e6, in_wallet: 2e6, difference: 0, flags: [] },
    ]);
  });

  test('has every market of a trader once in pages of any size, and says where movements were not read', async () => {
    const all = await audit(traderAddress(0), 'limit=100');
    expect(all.length).toBeGreaterThan(20);
    const paged: Body[] = [];
    let next: string | undefined = `/v2/traders/${traderAddress(0)}/audit?limit=7`;
    while (next !== undefined) {
      const page: Body = await folded.ok(next);
      paged.push(...page.body.markets);
      next = page.next;
    }
    expect(paged).toEqual(all);
    const [first] = all;
    expect(first).toMatchObject({ difference: null, flags: ['not_covered'] });
    expect(await audit(traderAddress(0), `market=${first.market.condition_id}`)).toEqual([first]);
    expect(await audit(traderAddress(8_000))).toEqual([]);
  });
});
