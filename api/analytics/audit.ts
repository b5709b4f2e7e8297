/** `GET /v2/traders/:address/audit`: for each market of a trader, what came and left, and whether it adds up to the PnL. */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { address, integer, marketKey } from '../http/parameters.ts';
import { BALANCE_CHANGE } from './bookings.ts';
import { type Call, SHARED } from './call.ts';
import { conditionCursor } from './cursors.ts';
import { safeInteger } from './format.ts';
import { NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findMarket, MarketV2, readMarketsV2 } from './market-object.ts';
import { type Mark, readMarks, valueAt } from './marks.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf } from './rows.ts';
import { amount, count } from './schemas.ts';

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 100;

const Parameters = z.object({
  address,
  market: marketKey.optional().describe('only this market: its id, condition id or slug'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum markets per page'),
  cursor: conditionCursor.parameter,
});
type Input = z.output<typeof Parameters>;

const usdcOf = (condition: string) => int(`sumIf(usdc, ${condition})`);
const paidFor = (reason: string) => usdcOf(`kind = 'movement' AND reason = '${reason}'`);
const carried = (side: string) =>
  usdcOf(
    `kind = 'movement' AND reason IN ('transfer', 'refund', 'unexplained') AND side = '${side}'`,
  );
const newest = (column: string) => int(`argMax(${column}, (block_number, log_index, rank))`);
const balance = (outcome: 0 | 1) => int(`sumIf(${BALANCE_CHANGE}, outcome_index = ${outcome})`);

const Row = rowOf({
  conditionId: hexText('condition_id'),
  fills: counted("countIf(kind = 'fill')"),
  bought: usdcOf("kind = 'fill' AND side = 'BUY'"),
  sold: usdcOf("kind = 'fill' AND side = 'SELL'"),
  fees: int("sumIf(fee, kind = 'fill')"),
  movements: counted("uniqExactIf((block_number, log_index, intDiv(leg, 8)), kind = 'movement')"),
  split: paidFor('split'),
  merged: paidFor('merge'),
  redeemed: paidFor('redeem'),
  converted: int("sumIf(if(side = 'SELL', usdc, -usdc), kind = 'movement' AND reason = 'convert')"),
  received: carried('BUY'),
  sent: carried('SELL'),
  opened: usdcOf("kind = 'opening'"),
  realised: int('sum(realised_pnl)'),
  /** Of the net position. */
  shares: newest('position_shares'),
  cost: newest('position_cost'),
  openFees: newest('position_fees'),
  balance0: balance(0),
  balance1: balance(1),
  openings: counted("countIf(kind = 'opening')"),
  unexplained: counted("countIf(reason = 'unexplained')"),
  marked: counted('countIf(is_mark)'),
  notCovered: counted('countIf(NOT is_covered)'),
});
type Row = RowOf<typeof Row>;

/** The markets of a page come from the sums by market, so that only their bookings are read. */
function pageStatement(input: Input): string {
  return `
SELECT ${Row.columns}
FROM bookings
WHERE trader = {trader:FixedString(20)} AND condition_id IN (
  SELECT DISTINCT condition_id
  FROM trader_markets
  WHERE trader = {trader:FixedString(20)}
    ${input.market === undefined ? '' : 'AND condition_id = {market:FixedString(32)}'}
    ${input.cursor === undefined ? '' : 'AND condition_id > unhex({cursor_condition:String})'}
  ORDER BY condition_id
  LIMIT {most:UInt32}
)
GROUP BY condition_id
ORDER BY condition_id
${FEW_ROWS}`;
}

/** What the figures of a market depend on, besides what the chain says. */
const FLAGS = {
  opening: ({ openings }) => openings > 0,
  mark: ({ marked }) => marked > 0,
  unexplained: ({ unexplained }) => unexplained > 0,
  not_covered: ({ notCovered }) => notCovered > 0,
} as const satisfies Record<string, (row: Row) => boolean>;
type Flag = keyof typeof FLAGS;
const FLAG_NAMES = Object.keys(FLAGS) as Flag[];

const AuditV2 = z.object({
  market: MarketV2,
  fills: count('fills of the trader, as maker and as taker'),
  movements: count('movements of shares without a fill'),
  bought: amount('paid for purchases, without fees, micro-USD'),
  sold: amount('received for sales, without fees, micro-USD'),
  fees: amount('fees of the fills, micro-USD'),
  split: amount('paid for splits, micro-USD'),
  merged: amount('received for merges, micro-USD'),
  redeemed: amount('received for redemptions, micro-USD'),
  converted: amount('received for conversions, micro-USD; below 0: paid in this market'),
  cash: amount('sold − bought − fees − split + merged + redeemed + converted, micro-USD'),
  received: amount('what shares that came from other wallets had cost, with fees, micro-USD'),
  sent: amount('what shares that left to other wallets had cost, with fees, micro-USD'),
  opened: amount('what shares from before the first block count, micro-USD'),
  realised_pnl: amount('realised PnL, net of fees, micro-USD'),
  cost_basis: amount('paid for the position, without fees, micro-USD'),
  open_fees: amount('fees of the position, micro-USD'),
  balance_0: amount('micro-shares of outcome 0 by fills and movements'),
  balance_1: amount('micro-shares of outcome 1 by fills and movements'),
  in_wallet: amount(
    'pairs of both outcomes at 1 USDC, or once the market is resolved the payout of all shares that were not redeemed, micro-USD',
  ),
  difference: z
    .int()
    .nullable()
    .meta({
      description:
        'cash − (realised_pnl − cost_basis − open_fees − in_wallet + received + opened − sent), micro-USD: 0, or a few units if the payout is a fraction; null if trades were read without movements',
      examples: [0],
    }),
  flags: z.array(z.enum(FLAG_NAMES)).meta({
    description:
      'opening: shares from before the first block; mark: movements were valued at the mark; unexplained: shares moved for no known reason; not_covered: trades were read without movements',
    examples: [['mark']],
  }),
});

export const traderAuditV2 = endpoint({
  name: 'traderAudit',
  path: '/v2/traders/:address/audit',
  summary: 'Audit of a trader',
  description: `For each market of a trader, everything that came and left: trades, splits, merges, redemptions, conversions, and
transfers with the cost that they carry. \`cash\` can be compared with the trader's payments, the balances with the contract, and
\`difference\` says whether both explain the PnL. [The rules](/docs/pnl#shares-that-move-without-a-fill).

Markets are ordered by condition id, so pages never repeat or omit one. The list of an unknown address is empty.`,
  parameters: Parameters,
  answer: z.object({ markets: z.array(AuditV2), next_cursor: NEXT_CURSOR }),
  list: 'markets',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const market = input.market && (await findMarket(call, input.market)).conditionId;
    const rows = await read(call, {
      sql: pageStatement(input),
      parameters: {
        ...{ trader: new Bytes(input.address), market: market && new Bytes(market) },
        ...pageParameters(input),
      },
      row: Row,
    });
    const { page, next_cursor } = pageOf(rows, input.limit, conditionCursor);
    const ids = page.map(({ conditionId }) => conditionId);
    const [marketOf, marks] = await Promise.all([readMarketsV2(call, ids), readMarks(call, ids)]);
    const markets = page.map((row) => {
      const { market } = marketOf(row.conditionId);
      return { market, ...auditOf(row, marks.get(row.conditionId)) };
    });
    return new Page({ markets, next_cursor }, next_cursor);
  },
});

function auditOf(row: Row, mark: Mark | undefined) {
  const { bought, sold, fees, split, merged, redeemed, converted } = row;
  const cash = sold - bought - fees - split + merged + redeemed + converted;
  const { realised, cost, openFees, received, sent, opened } = row;
  const inWallet = inWalletOf(row, mark);
  const explained = realised - cost - openFees - inWallet + received + opened - sent;
  return {
    fills: row.fills,
    movements: row.movements,
    bought: safeInteger(bought),
    sold: safeInteger(sold),
    fees: safeInteger(fees),
    split: safeInteger(split),
    merged: safeInteger(merged),
    redeemed: safeInteger(redeemed),
    converted: safeInteger(converted),
    cash: safeInteger(cash),
    received: safeInteger(received),
    sent: safeInteger(sent),
    opened: safeInteger(opened),
    realised_pnl: safeInteger(realised),
    cost_basis: safeInteger(cost),
    open_fees: safeInteger(openFees),
    balance_0: safeInteger(row.balance0),
    balance_1: safeInteger(row.balance1),
    in_wallet: safeInteger(inWallet),
    difference: row.notCovered > 0 ? null : safeInteger(cash - explained),
    flags: FLAG_NAMES.filter((name) => FLAGS[name](row)),
  };
}

/** A resolution is stored before the settlements that it makes. Until then, the position is open. */
function inWalletOf({ balance0, balance1, shares }: Row, mark: Mark | undefined): bigint {
  if (mark?.source !== 'resolution' || shares > 0n)
    return balance0 < balance1 ? balance0 : balance1;
  return (
    valueAt(mark, { outcome: 0, shares: balance0 }) +
    valueAt(mark, { outcome: 1, shares: balance1 })
  );
}
