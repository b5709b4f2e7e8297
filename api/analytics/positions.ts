/**
 * `GET /v2/traders/:address/positions`: a trader's positions with cost and value at the marks. Positions and the marks of the
 * open ones are live or read by two statements, which together take half the time of a join. Then the page is selected, and
 * its listings and settlements are read.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { address, integer, oneOf, order } from '../http/parameters.ts';
import { type Call, SHARED_BRIEFLY } from './call.ts';
import { positionCursor } from './cursors.ts';
import { isoSecond, percent, price, safeInteger } from './format.ts';
import { balancesOf, type Holding } from './holdings.ts';
import { behindCursor, NEXT_CURSOR, pageOf } from './keyset.ts';
import { MarketV2, marketV2, resolutionOf, unlisted, withTokens } from './market-object.ts';
import { hasMarketWords, hasWords, marketWords, wordParameters } from './market-words.ts';
import { type Mark, markPrice, newestHeld, TRADED_MARKETS, valueAt } from './marks.ts';
import { read } from './query.ts';
import { hexText, int, type RowOf, rowOf, seconds, typed } from './rows.ts';
import { amount, count, outcomeIndex, percentage, text, time } from './schemas.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

/** Which holdings have each status. */
const STATUSES = {
  open: ({ shares }) => shares > 0n,
  resolved: ({ shares, settled }) => shares === 0n && settled > 0,
  all: () => true,
} as const satisfies Record<string, (holding: Holding) => boolean>;

/** The sort key of each order. */
const SORTS = {
  value: ({ value }) => value,
  pnl: ({ unrealised, realised }) => unrealised + realised,
  age: ({ firstAt }) => BigInt(-firstAt),
  last_trade: ({ lastAt }) => BigInt(lastAt),
} as const satisfies Record<string, (position: Valued) => bigint>;

const Parameters = z.object({
  address,
  status: oneOf(Object.keys(STATUSES) as (keyof typeof STATUSES)[])
    .default('open')
    .describe(
      'open: shares are held; resolved: a resolution settled the shares; all: sold positions as well',
    ),
  sort_by: oneOf(Object.keys(SORTS) as (keyof typeof SORTS)[])
    .default('value')
    .describe(
      'value; pnl: realised and unrealised PnL in the market; age: time since the first trade; last_trade: time of the newest trade',
    ),
  order: order('desc').describe('desc: greatest first; asc: smallest first'),
  q: marketWords.optional(),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum entries per page'),
  cursor: positionCursor.parameter,
});

/** Sums and holdings in each market of `traders` (an expression after IN). */
export function holdingsSql(traders: string): string {
  return `(
  SELECT
    trader,
    condition_id,
    ${newestHeld('outcome')} AS outcome,
    ${newestHeld('shares')} AS shares,
    ${newestHeld('cost_basis')} AS cost_basis,
    ${newestHeld('open_fees')} AS open_fees,
    sum(realised_pnl) AS realised,
    sum(realised_cost) AS released,
    if(sum(fills) = 0, toDateTime(0, 'UTC'), min(first_trade_at)) AS first_at,
    max(last_trade_at) AS last_at,
    sum(settlements) AS settled
  FROM trader_markets
  WHERE trader IN ${traders}
  GROUP BY trader, condition_id
  HAVING shares > 0 OR settled > 0 OR first_at > 0 OR realised != 0 OR released != 0
)`;
}

/** Whether anything was traded or held: splits and merges alone only change balances. */
const isPosition = ({ shares, settled, firstAt, realised, realisedCost }: Holding) =>
  shares > 0n || settled > 0 || firstAt > 0 || realised !== 0n || realisedCost !== 0n;

/** Whether shares were sold or settled, and none is left. Shares that only moved away leave a market neither won nor lost. */
const isClosed = ({ shares, settled, realised, realisedCost }: Holding) =>
  shares === 0n && (settled > 0 || realised !== 0n || realisedCost !== 0n);

/** The same for rows of `holdingsSql`. */
export const IS_CLOSED = '(shares = 0 AND (settled > 0 OR realised != 0 OR released != 0))';

/** A holding, at the mark of its market. */
type Valued = Holding & { readonly value: bigint; readonly unrealised: bigint };

/** A market's first match and its mark may not be visible at once. Without a mark, a position is worth what it cost. */
function valued(holding: Holding, mark: Mark | undefined): Valued {
  const paid = holding.cost + holding.fees;
  const value = mark === undefined ? paid : valueAt(mark, holding);
  return { ...holding, value, unrealised: value - paid };
}

const ConditionRow = rowOf({ conditionId: hexText('condition_id') });

/** The trader's markets whose listings have, or once had, the words; undefined: all markets. */
async function readMarketsWith(call: Call, address: string, words: readonly string[] | undefined) {
  if (words === undefined) return undefined;
  const sql = `
SELECT ${ConditionRow.columns}
FROM markets
WHERE condition_id IN ${TRADED_MARKETS} AND ${hasMarketWords(words)}`;
  const parameters = { trader: new Bytes(address), ...wordParameters(words) };
  const rows = await read(call, { sql, parameters, row: ConditionRow });
  return new Set(rows.map(({ conditionId }) => conditionId));
}

/** Returns whether a holding is among these and its listing has the words now; without words, every one is. */
async function matchOf(
  call: Call,
  found: readonly Holding[],
  words: readonly string[] | undefined,
) {
  if (words === undefined) return () => true;
  const listings = await call.metadata.listings(found.map(({ conditionId }) => conditionId));
  return ({ conditionId }: Holding) => hasWords(listings.get(conditionId), words);
}

/** A column of the first settlement in a market. */
const first = (column: string) => `argMin(${column}, (block_number, log_index))`;

const SettledRow = rowOf({
  conditionId: hexText('condition_id'),
  outcome: typed(first('outcome_index'), z.literal([0, 1])),
  shares: int(first('shares')),
  cost: int(first('realised_cost')),
  payout: int(first('usdc')),
  pnl: int(first('realised_pnl')),
  at: seconds('min(block_time)'),
});
type Settled = RowOf<typeof SettledRow>;

/** The settlement by the resolution. A later fill settles on its own. */
const SETTLED_SQL = `
SELECT ${SettledRow.columns}
FROM market_bookings
WHERE condition_id IN {conditions:Array(FixedString(32))}
  AND trader = {trader:FixedString(20)} AND kind = 'settlement'
GROUP BY condition_id`;

const MARK = z
  .object({
    price: amount('price of the outcome, micro-USD a share, 0 to 1,000,000; 0 without a mark'),
    time: time('time of the match or the resolution, or empty'),
    age_seconds: count('age of the mark, seconds'),
    source: z.enum(['last_match', 'resolution', 'none']).meta({
      description: 'the newest final match of the market, its payout once resolved, or none',
      examples: ['last_match'],
    }),
  })
  .meta({ id: 'Mark' });

const PositionV2 = z.object({
  market: MarketV2,
  status: z.enum(['open', 'resolved', 'sold', 'moved']).meta({
    description:
      'open: shares are held; resolved: the shares were settled; sold: all shares were sold; moved: all shares left without a sale',
    examples: ['open'],
  }),
  outcome_index: outcomeIndex('index of the outcome held, or held last'),
  outcome: text('label of the outcome', 'Yes'),
  shares: amount('micro-shares held now'),
  balance_0: amount(
    'micro-shares of outcome 0 in the wallet, at least: those from before the first block are not known',
  ),
  balance_1: amount('micro-shares of outcome 1 in the wallet, at least'),
  pairs: amount('micro-shares that the wallet has of both outcomes: each pair is worth 1 USDC'),
  average_price: amount(
    'cost per share held now or at the settlement, without fees, micro-USD, rounded to nearest',
  ),
  average_price_with_fees: amount(
    'cost per share held now or at the settlement, with fees, micro-USD, rounded to nearest',
  ),
  cost_basis: amount('paid for the shares held now, without fees, micro-USD'),
  open_fees: amount('fees of the shares held now, micro-USD'),
  mark: MARK,
  value: amount('value of the shares held now at the mark, micro-USD'),
  unrealised_pnl: amount('value − cost_basis − open_fees, micro-USD'),
  unrealised_roi: percentage('unrealised_pnl divided by cost_basis'),
  realised_pnl: amount('realised PnL in this market, net of fees, micro-USD'),
  pnl: amount('realised_pnl + unrealised_pnl, micro-USD'),
  portfolio_share: percentage('value divided by the value of all open positions of the trader'),
  first_trade_at: time('first trade of the trader in this market'),
  last_trade_at: time('newest trade of the trader in this market'),
  settled_at: time('when the shares were settled, or empty'),
  settled_shares: amount('micro-shares held at the settlement; 0 without one'),
  settled_cost: amount('cost of the settled shares without fees, micro-USD'),
  settled_fees: amount('fees of the settled shares, micro-USD'),
  payout: amount('payout of the settlement, micro-USD'),
});

export const positionTotals = {
  value: amount('value, micro-USD'),
  cost_basis: amount('cost basis, micro-USD'),
  open_fees: amount('fees of the shares held, micro-USD'),
  unrealised_pnl: amount('unrealised PnL, micro-USD'),
  realised_pnl: amount('realised PnL in these markets, net of fees, micro-USD'),
  closed_count: count('positions that were settled or sold'),
  closed_won_count: count('closed positions with a realised PnL above 0'),
};

export const positionsV2 = endpoint({
  name: 'traderPositions',
  path: '/v2/traders/:address/positions',
  summary: 'Positions of a trader',
  description: `What a trader holds and held: shares, average price, cost, and value at the mark of the market, which is its newest final
match, or its payout once resolved. \`totals\` cover all pages. Shares that came without a fill have the cost
that moved with them, or their value at the mark. \`shares\` are the net position; the wallet may have pairs of both outcomes
beside it, and after the resolution shares that were not redeemed. A market in which the wallet has only pairs, and never traded, is in
\`/audit\`, not here.

\`value\` and \`pnl\` change with every match, so an entry that moves between two pages can be repeated or omitted;
\`limit=100\` returns 100 at once. Sorted by \`age\`, entries do not move; sorted by \`last_trade\`, they move only when they
are traded. With \`status=open\`, positions that are closed or opened meanwhile leave or join the list, and nothing is
repeated. Ties are ordered by condition id. The list of an unknown address is empty.`,
  parameters: Parameters,
  answer: z.object({
    positions: z.array(PositionV2),
    totals: z.object(positionTotals).describe('sums of all entries that match, on all pages'),
    next_cursor: NEXT_CURSOR,
    total_count: count('entries that match, on all pages'),
  }),
  list: 'positions',
  problems: [],
  keep: SHARED_BRIEFLY,
  async run(call: Call, input) {
    const { address, status } = input;
    const [{ holdings: all, marks: heldMarks, isLive }, found] = await Promise.all([
      call.traders.positions(call, address, { isOpen: status === 'open' }),
      readMarketsWith(call, address, input.q),
    ]);
    const holdings = all.filter(isPosition).filter(STATUSES[status]);
    const isMatch = await matchOf(
      call,
      holdings.filter(({ conditionId }) => found?.has(conditionId)),
      input.q,
    );
    const positions = holdings.map((holding) =>
      valued(holding, heldMarks.get(holding.conditionId)),
    );
    const matching = positions.filter(isMatch);
    const { page, next_cursor } = pageOf(
      behindCursor(
        matching.map((one) => ({ ...one, figure: SORTS[input.sort_by](one) })),
        input.order,
        input.cursor && {
          figure: BigInt(input.cursor.cursor_figure),
          conditionId: `0x${input.cursor.cursor_condition}`,
        },
      ),
      input.limit,
      positionCursor,
    );
    const conditionIds = page.map(({ conditionId }) => conditionId);
    const [marks, listings, settlements] = await Promise.all([
      call.traders.marks(
        call,
        conditionIds.filter((id) => !heldMarks.has(id)),
        { trader: address, isLive },
      ),
      readListings(call, conditionIds),
      readSettlements(call, address, page),
    ]);
    const now = Math.floor(call.now() / 1_000);
    const portfolio = positions.reduce((total, { value }) => total + value, 0n);
    const shown = page.map((position, i) => {
      const { conditionId } = position;
      const mark = heldMarks.get(conditionId) ?? marks.get(conditionId);
      const listing = listings[i] ?? unlisted(conditionId);
      return {
        market: marketV2(listing, resolutionOf(conditionId, mark)),
        ...positionV2(position, {
          ...{ mark, portfolio, now, outcomes: listing.outcomes },
          settled: settlements.get(conditionId),
        }),
      };
    });
    const answer = { positions: shown, totals: totalsOf(matching), next_cursor };
    return new Page({ ...answer, total_count: matching.length }, next_cursor);
  },
});

function totalsOf(positions: readonly Valued[]) {
  const sum = (name: 'value' | 'cost' | 'fees' | 'unrealised' | 'realised') =>
    safeInteger(positions.reduce((total, position) => total + position[name], 0n));
  const closed = positions.filter(isClosed);
  return {
    value: sum('value'),
    cost_basis: sum('cost'),
    open_fees: sum('fees'),
    unrealised_pnl: sum('unrealised'),
    realised_pnl: sum('realised'),
    closed_count: closed.length,
    closed_won_count: closed.filter(({ realised }) => realised > 0n).length,
  };
}

async function readListings(call: Call, conditionIds: readonly string[]) {
  const found = await call.metadata.listings(conditionIds);
  return await withTokens(
    call,
    conditionIds.map((id) => found.get(id) ?? unlisted(id)),
  );
}

async function readSettlements(
  call: Call,
  address: string,
  page: readonly Holding[],
): Promise<ReadonlyMap<string, Settled>> {
  const settled = page.filter((row) => row.settled > 0).map((row) => row.conditionId);
  if (settled.length === 0) return new Map();
  const parameters = { trader: new Bytes(address), conditions: new Bytes(settled) };
  const rows = await read(call, { sql: SETTLED_SQL, parameters, row: SettledRow });
  return new Map(rows.map((row) => [row.conditionId, row] as const));
}

/** The members of a position except its market. */
function positionV2(
  held: Valued,
  beside: {
    readonly settled: Settled | undefined;
    readonly mark: Mark | undefined;
    readonly outcomes: readonly string[];
    /** Value of all open positions of the trader. */
    readonly portfolio: bigint;
    /** Seconds since the epoch. */
    readonly now: number;
  },
) {
  const { settled, mark, outcomes, portfolio, now } = beside;
  const isOpen = held.shares > 0n;
  const outcome = isOpen ? held.outcome : (settled?.outcome ?? LAST_HELD[held.outcome]);
  const settledFees = settled === undefined ? 0n : settled.payout - settled.cost - settled.pnl;
  const [shares, cost, fees] = isOpen
    ? [held.shares, held.cost, held.fees]
    : [settled?.shares ?? 0n, settled?.cost ?? 0n, settledFees];
  const balances = balancesOf(held);
  const [zero, one] = balances;
  return {
    status: statusOf(held, settled),
    outcome_index: outcome,
    outcome: outcomes[outcome] ?? '',
    shares: safeInteger(held.shares),
    balance_0: safeInteger(zero),
    balance_1: safeInteger(one),
    pairs: safeInteger(zero < one ? zero : one),
    average_price: safeInteger(price(cost, shares)),
    average_price_with_fees: safeInteger(price(cost + fees, shares)),
    cost_basis: safeInteger(held.cost),
    open_fees: safeInteger(held.fees),
    mark: {
      price: safeInteger(mark === undefined ? 0n : markPrice(mark, outcome)),
      time: isoSecond(mark?.time ?? 0),
      age_seconds: mark === undefined ? 0 : Math.max(0, now - mark.time),
      source: mark?.source ?? ('none' as const),
    },
    value: safeInteger(held.value),
    unrealised_pnl: safeInteger(held.unrealised),
    unrealised_roi: percent(held.unrealised, held.cost),
    realised_pnl: safeInteger(held.realised),
    pnl: safeInteger(held.realised + held.unrealised),
    portfolio_share: percent(held.value, portfolio),
    first_trade_at: isoSecond(held.firstAt),
    last_trade_at: isoSecond(held.lastAt),
    settled_at: isoSecond(settled?.at ?? 0),
    settled_shares: safeInteger(settled?.shares ?? 0n),
    settled_cost: safeInteger(settled?.cost ?? 0n),
    settled_fees: safeInteger(settledFees),
    payout: safeInteger(settled?.payout ?? 0n),
  };
}

function statusOf(
  held: Holding,
  settled: Settled | undefined,
): z.input<typeof PositionV2>['status'] {
  if (held.shares > 0n) return 'open';
  if (settled !== undefined) return 'resolved';
  return isClosed(held) ? 'sold' : 'moved';
}

/** A sale of everything is a purchase of the other outcome, which the position then names. */
const LAST_HELD = [1, 0] as const;
