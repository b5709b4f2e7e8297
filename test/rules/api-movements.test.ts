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

function movement(block: number, of: Partial<Movement>): Movement {
  return {
    ...{ kind: 'movement', ...at(block), logIndex: 5, part: 0, reason: 'split', trader: ALICE },
    ...{ counterparty: '', change: [0n, 0n], usdc: 0n, mark: 300_000n, ...of },
  };
}

const EVENTS: readonly LedgerEvent[] = [
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
    one.counterparty,
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

  test('of wallets that only traded are those of trades', async () => {
    const [taker] = await position(TAKER);
    expect(taker).toMatchObject({ realised_pnl: 7_000_000, settled_shares: 10e6 });
  });

  test('of the market, traders are those with a trade or a settlement', async () => {
    const { total_traders } = await get(`/v2/markets/${MARKET}`);
    expect(total_traders).toBe(4);
  });
});
