/**
 * `GET /v2/traders/:address/positions`: what a trader holds, at what price, and what it is worth at the marks. One
 * statement reads the page together with the totals of all pages; then listings and settlements of the page.
 * Marks and resolutions are stored before the settlements that follow from them.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../endpoint.ts';
import { address, integer, oneOf, order } from '../parameters.ts';
import { type Call, SHARED_BRIEFLY } from './call.ts';
import { positionCursor } from './cursors.ts';
import { isoSecond, percent, price, safeInteger } from './format.ts';
import { MarketV2, marketV2, type Resolution, unlisted, withTokens } from './market-object.ts';
import { hasMarketWords, marketWords, wordParameters } from './market-words.ts';
import { markColumns, markOf, markPrice, marksSql, newestHeld, valueSql } from './marks.ts';
import { FEW_ROWS, read } from './query.ts';
import {
  boolean,
  count as counted,
  hexText,
  int,
  type RowOf,
  rowOf,
  seconds,
  typed,
} from './rows.ts';
import { amount, count, percentage, text, time } from './schemas.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

/** Which of the trader's markets each status selects. */
const STATUSES = {
  open: 'HAVING shares > 0',
  resolved: 'HAVING shares = 0 AND settled > 0',
  all: '',
} as const;

/** What each order sorts by; greater figures first in descending order. */
const SORTS = {
  value: 'value',
  pnl: 'pnl',
  age: '-toInt64(toUnixTimestamp(first_at))',
  last_trade: 'toInt64(toUnixTimestamp(last_at))',
} as const;

const Parameters = z.object({
  address: address.describe('wallet of the trader; letter case is ignored'),
  status: oneOf(Object.keys(STATUSES) as (keyof typeof STATUSES)[])
    .default('open')
    .describe(
      'open: shares are held; resolved: the shares were settled by a resolution; all: sold ones, too',
    ),
  sort_by: oneOf(Object.keys(SORTS) as (keyof typeof SORTS)[])
    .default('value')
    .describe(
      'value; pnl: realised and unrealised PnL in the market; age: time since the first trade in it; last_trade: time of the newest one',
    ),
  order: order('desc').describe('desc: greatest first; asc: least first'),
  q: marketWords.optional(),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum entries per page'),
  cursor: positionCursor
    .optional()
    .describe('cursor from the `Link` header or `next_cursor` of the previous page'),
});
type Given = z.output<typeof Parameters>;

const OF_TRADERS = 'trader IN {traders:Array(FixedString(20))}';
/** The market of each of the traders' positions. */
const MARKETS = `(SELECT condition_id FROM trader_markets WHERE ${OF_TRADERS})`;

/** Whether the listing of the position's market has the words. */
function hasWords(words: readonly string[]): string {
  return `condition_id IN
(
  SELECT condition_id FROM markets
  WHERE condition_id IN ${MARKETS} AND ${hasMarketWords(words)}
)`;
}

/**
 * Sums over each of the traders' markets and what is held there, valued at the mark. A position in a market without a mark is worth
 * what it cost: its first match is being stored.
 */
export function valuedSql(having = ''): string {
  return `(
  SELECT
    sums.*,
    mark,
    if(markets.condition_id = '', cost_basis + open_fees, ${valueSql('outcome', 'shares', 'mark.3', 'mark.4')}) AS value,
    value - cost_basis - open_fees AS unrealised,
    realised + unrealised AS pnl
  FROM
  (
    SELECT
      trader,
      condition_id,
      ${newestHeld('outcome')} AS outcome,
      ${newestHeld('shares')} AS shares,
      ${newestHeld('cost_basis')} AS cost_basis,
      ${newestHeld('open_fees')} AS open_fees,
      sum(realised_pnl) AS realised,
      min(first_trade_at) AS first_at,
      max(last_trade_at) AS last_at,
      sum(settlements) AS settled
    FROM trader_markets
    WHERE ${OF_TRADERS}
    GROUP BY trader, condition_id
    ${having}
  ) AS sums
  LEFT JOIN ${marksSql(MARKETS)} AS markets ON sums.condition_id = markets.condition_id
)`;
}

const Row = rowOf({
  conditionId: hexText('condition_id'),
  outcome: typed('outcome', z.literal([0, 1])),
  shares: int('shares'),
  cost: int('cost_basis'),
  fees: int('open_fees'),
  ...markColumns,
  value: int('value'),
  unrealised: int('unrealised'),
  realised: int('realised'),
  firstAt: seconds('first_at'),
  lastAt: seconds('last_at'),
  settled: counted('settled'),
  figure: int('figure'),
  isBehind: boolean('is_behind'),
  heldValue: int('sum(value) OVER ()'),
  totalCount: counted('countIf(is_found) OVER ()'),
  totalValue: int('sumIf(value, is_found) OVER ()'),
  totalCost: int('sumIf(cost_basis, is_found) OVER ()'),
  totalFees: int('sumIf(open_fees, is_found) OVER ()'),
  totalUnrealised: int('sumIf(unrealised, is_found) OVER ()'),
  totalRealised: int('sumIf(realised, is_found) OVER ()'),
  totalClosed: counted('countIf(is_found AND shares = 0) OVER ()'),
  totalWon: counted('countIf(is_found AND shares = 0 AND realised > 0) OVER ()'),
});

/**
 * The page and one more; entries before the cursor, and those without the words, come last, so that totals are there
 * whatever the cursor is.
 */
function pageStatement({ cursor, order, q, sort_by, status }: Given): string {
  const [down, up, beyond] = order === 'desc' ? ['DESC', 'ASC', '<'] : ['ASC', 'DESC', '>'];
  const later = order === 'desc' ? '>' : '<';
  const isBehind =
    cursor === undefined
      ? 'true'
      : `figure ${beyond} {cursor_figure:Int64}
        OR (figure = {cursor_figure:Int64} AND condition_id ${later} unhex({cursor_condition:String}))`;
  return `
SELECT ${Row.columns}
FROM
(
  SELECT
    *,
    ${SORTS[sort_by]} AS figure,
    ${q === undefined ? 'true' : hasWords(q)} AS is_found,
    toBool(is_found AND (${isBehind})) AS is_behind
  FROM ${valuedSql(STATUSES[status])}
)
ORDER BY is_behind DESC, figure ${down}, condition_id ${up}
LIMIT {limit:UInt32}
${FEW_ROWS}`;
}

/** Of the first settlement in a market. */
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

/** The settlement by the resolution; a fill after it settles on its own. */
const SETTLED_SQL = `
SELECT ${SettledRow.columns}
FROM market_bookings
WHERE condition_id IN {conditions:Array(FixedString(32))}
  AND trader = {trader:FixedString(20)} AND kind = 'settlement'
GROUP BY condition_id`;

const MARK = z
  .object({
    price: amount('price of the outcome, micro-USD a share, 0 to 1,000,000; 0 without a mark'),
    time: time('when the match or the resolution was, or empty'),
    age_seconds: count('time since then, seconds'),
    source: z.enum(['last_match', 'resolution', 'none']).meta({
      description: 'the newest final match of the market, its payout once it is resolved, or none',
      examples: ['last_match'],
    }),
  })
  .meta({ id: 'Mark' });

const PositionV2 = z.object({
  market: MarketV2,
  status: z.enum(['open', 'resolved', 'sold']).meta({
    description: 'open: shares are held; resolved: they were settled; sold: all were sold',
    examples: ['open'],
  }),
  outcome_index: z
    .int()
    .min(0)
    .max(1)
    .meta({ description: 'outcome held, or held last', examples: [0] }),
  outcome: text('label of that outcome', 'Yes'),
  shares: amount('micro-shares held now'),
  average_price: amount(
    'cost of a share held, or held at the settlement, without fees, micro-USD, rounded down',
  ),
  average_price_with_fees: amount('the same with the fees of those shares'),
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
  settled_cost: amount('their cost without fees, micro-USD'),
  settled_fees: amount('their fees, micro-USD'),
  payout: amount('what the settlement paid, micro-USD'),
});

export const positionTotals = {
  value: amount('value, micro-USD'),
  cost_basis: amount('cost basis, micro-USD'),
  open_fees: amount('fees of the shares held, micro-USD'),
  unrealised_pnl: amount('unrealised PnL, micro-USD'),
  realised_pnl: amount('realised PnL in these markets, net of fees, micro-USD'),
  closed_count: count('positions that were settled or sold'),
  closed_won_count: count('those of them with a realised PnL above 0'),
};

export const positionsV2 = endpoint({
  name: 'traderPositions',
  path: '/v2/traders/:address/positions',
  summary: 'Positions of one trader, at average price and mark',
  description:
    'What is held, what it cost and what it is worth at the mark of its market: its newest final match, or its payout once it is resolved. `value` and `pnl` change with every match, so an entry that moves between two pages can be repeated or omitted; `limit=100` gets 100 at once. By `age`, entries do not move, and by `last_trade` only when they are traded; with `status=open` a position that is closed meanwhile leaves the list and one that is opened joins it; nothing is repeated. Ties are broken by condition id. `totals` are of all pages. Shares that came or went without a fill of the version 2 exchange are not seen. The list of an unknown address is empty.',
  parameters: Parameters,
  answer: z.object({
    positions: z.array(PositionV2),
    totals: z.object(positionTotals).describe('sums of all entries that match, on all pages'),
    next_cursor: text('`cursor` of the next page; empty on the last page'),
    total_count: count('entries that match, on all pages'),
  }),
  list: 'positions',
  problems: [],
  keep: SHARED_BRIEFLY,
  async run(call: Call, given) {
    const parameters = {
      traders: new Bytes([given.address]),
      limit: given.limit + 1,
      cursor_figure: given.cursor?.figure ?? '0',
      cursor_condition: given.cursor?.conditionId ?? '',
      ...wordParameters(given.q ?? []),
    };
    const rows = await read(call, { sql: pageStatement(given), parameters, row: Row });
    const ahead = rows.filter((row) => row.isBehind);
    const page = ahead.slice(0, given.limit);
    const last = page.at(-1);
    const next =
      last !== undefined && ahead.length > page.length
        ? `${last.figure}-${last.conditionId.slice(2)}`
        : '';
    const conditionIds = page.map((row) => row.conditionId);
    const [found, settlements] = await Promise.all([
      call.metadata.listings(conditionIds),
      readSettlements(call, given.address, page),
    ]);
    const listings = await withTokens(
      call,
      conditionIds.map((id) => found.get(id) ?? unlisted(id)),
    );
    const now = Math.floor(call.now() / 1_000);
    const positions = listings.map((listing, i) => {
      const row = page[i] as RowOf<typeof Row>;
      return {
        market: marketV2(listing, resolutionOf(row)),
        ...positionV2(row, settlements.get(row.conditionId), listing.outcomes, now),
      };
    });
    const [any] = rows;
    const totals = {
      value: safeInteger(any?.totalValue ?? 0n),
      cost_basis: safeInteger(any?.totalCost ?? 0n),
      open_fees: safeInteger(any?.totalFees ?? 0n),
      unrealised_pnl: safeInteger(any?.totalUnrealised ?? 0n),
      realised_pnl: safeInteger(any?.totalRealised ?? 0n),
      closed_count: any?.totalClosed ?? 0,
      closed_won_count: any?.totalWon ?? 0,
    };
    const total_count = any?.totalCount ?? 0;
    return new Page({ positions, totals, next_cursor: next, total_count }, next);
  },
});

/** The resolution of a market is its mark. */
function resolutionOf({
  conditionId,
  isResolved,
  ...mark
}: RowOf<typeof Row>): Resolution | undefined {
  if (!isResolved) return undefined;
  const payouts = { payout_0: mark.usdc, payout_1: mark.whole - mark.usdc };
  return { condition_id: conditionId, resolved_at: mark.markedAt, ...payouts };
}

async function readSettlements(
  call: Call,
  address: string,
  page: readonly RowOf<typeof Row>[],
): Promise<ReadonlyMap<string, Settled>> {
  const settled = page.filter((row) => row.settled > 0).map((row) => row.conditionId);
  if (settled.length === 0) return new Map();
  const parameters = { trader: new Bytes(address), conditions: new Bytes(settled) };
  const rows = await read(call, { sql: SETTLED_SQL, parameters, row: SettledRow });
  return new Map(rows.map((row) => [row.conditionId, row] as const));
}

/** The members of a position beside its market. `now` in seconds since the epoch. */
function positionV2(
  row: RowOf<typeof Row>,
  settled: Settled | undefined,
  outcomes: readonly string[],
  now: number,
) {
  const isOpen = row.shares > 0n;
  const outcome = isOpen ? row.outcome : (settled?.outcome ?? LAST_HELD[row.outcome]);
  const settledFees = settled === undefined ? 0n : settled.payout - settled.cost - settled.pnl;
  const [shares, cost, fees] = isOpen
    ? [row.shares, row.cost, row.fees]
    : [settled?.shares ?? 0n, settled?.cost ?? 0n, settledFees];
  const mark = markOf(row);
  const hasMark = mark.time > 0;
  return {
    status: isOpen
      ? ('open' as const)
      : settled === undefined
        ? ('sold' as const)
        : ('resolved' as const),
    outcome_index: outcome,
    outcome: outcomes[outcome] ?? '',
    shares: safeInteger(row.shares),
    average_price: safeInteger(price(cost, shares)),
    average_price_with_fees: safeInteger(price(cost + fees, shares)),
    cost_basis: safeInteger(row.cost),
    open_fees: safeInteger(row.fees),
    mark: {
      price: safeInteger(markPrice(mark, outcome)),
      time: isoSecond(mark.time),
      age_seconds: hasMark ? Math.max(0, now - mark.time) : 0,
      source: hasMark ? mark.source : ('none' as const),
    },
    value: safeInteger(row.value),
    unrealised_pnl: safeInteger(row.unrealised),
    unrealised_roi: percent(row.unrealised, row.cost),
    realised_pnl: safeInteger(row.realised),
    pnl: safeInteger(row.realised + row.unrealised),
    portfolio_share: percent(row.value, row.heldValue),
    first_trade_at: isoSecond(row.firstAt),
    last_trade_at: isoSecond(row.lastAt),
    settled_at: isoSecond(settled?.at ?? 0),
    settled_shares: safeInteger(settled?.shares ?? 0n),
    settled_cost: safeInteger(settled?.cost ?? 0n),
    settled_fees: safeInteger(settledFees),
    payout: safeInteger(settled?.payout ?? 0n),
  };
}

/** A sale of everything is a purchase of the other outcome, which the position then names. */
const LAST_HELD = [1, 0] as const;
