/**
 * `GET /v2/traders/:address/trades`: the fills of one trader in all markets, in chain order. `bookings` is sorted by
 * market, so a page reads block and log index of all the trader's fills, and the other columns only of those on the page.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import {
  address,
  decimal,
  inOrder,
  instant,
  integer,
  marketKey,
  oneOf,
  order,
} from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { CHAIN_ORDER, fillCursor } from './cursors.ts';
import { FillV2, fillColumns, fillV2 } from './fills.ts';
import { price, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findMarket, MarketV2, readMarketsV2 } from './market-object.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, hexText, int, rowOf } from './rows.ts';
import { amount, count, outcomeIndex, text } from './schemas.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;
/** More than all existing USDC. */
const USDC_MAX = 1e12;

const Parameters = z
  .object({
    address,
    market: marketKey.optional().describe('only this market: its id, condition id or slug'),
    side: oneOf(['BUY', 'SELL']).optional().describe('only this side'),
    min_usdc: decimal(0, USDC_MAX).optional().describe('minimum value of a fill, USDC'),
    max_usdc: decimal(0, USDC_MAX).optional().describe('maximum value of a fill, USDC'),
    from: instant.optional().describe('only fills at this time or later'),
    to: instant.optional().describe('only fills at this time or earlier'),
    order: order('desc').describe('desc: newest first; asc: oldest first'),
    limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum fills per page'),
    cursor: fillCursor.parameter,
  })
  .superRefine(inOrder(['min_usdc', 'max_usdc'], ['from', 'to']));
type Input = z.output<typeof Parameters>;

const Row = rowOf({
  ...fillColumns,
  conditionId: hexText('condition_id'),
  txHash: hexText('tx_hash'),
  matchLog: counted('event_log_index'),
  pnl: int('realised_pnl'),
});

/** The condition of each parameter that restricts the list; `bookings` is partitioned by month. */
const CONDITIONS = {
  market: 'condition_id = {market:FixedString(32)}',
  side: 'side = {side:String}',
  min_usdc: 'usdc >= {min_usdc:Int64}',
  max_usdc: 'usdc <= {max_usdc:Int64}',
  from: "block_time >= toDateTime({from:UInt32}, 'UTC')",
  to: "block_time <= toDateTime({to:UInt32}, 'UTC')",
} as const;

function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(input, CHAIN_ORDER);
  const names = Object.keys(CONDITIONS) as (keyof typeof CONDITIONS)[];
  const conditions = [
    ...['trader = {trader:FixedString(20)}', "kind = 'fill'"],
    ...names.filter((name) => input[name] !== undefined).map((name) => CONDITIONS[name]),
  ];
  return `
SELECT ${Row.columns}
FROM bookings
WHERE ${conditions.join(' AND ')} ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const TradeV2 = z.object({
  ...FillV2.shape,
  outcome_index: outcomeIndex('index of the outcome, 0 or 1'),
  price: amount('price of the outcome, micro-USD a share, rounded to nearest'),
  realised_pnl: amount('PnL that the fill realised, net of fees, micro-USD'),
  block_number: count('number of the block', 85_671_003),
  log_index: count('index of the log in the block', 12),
  match_log_index: count(
    'index of the log that closes the match, equal for all fills of a match',
    14,
  ),
  tx_hash: text('transaction of the fill', `0x${'5f'.repeat(32)}`),
  order_hash: text('EIP-712 hash of the order', `0x${'6e'.repeat(32)}`),
  market: MarketV2,
});

export const traderTradesV2 = endpoint({
  name: 'traderTrades',
  path: '/v2/traders/:address/trades',
  summary: 'Trades of a trader',
  description: `Every final fill of a trader in all markets, newest first unless \`order=asc\`. Settlements are not trades;
\`/v2/traders/:address/positions?status=resolved\` has them.

The order is fixed, so pages never repeat or omit a fill while trades arrive. The list of an unknown address is empty.`,
  parameters: Parameters,
  answer: z.object({
    trades: z.array(TradeV2),
    next_cursor: NEXT_CURSOR,
  }),
  list: 'trades',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const market = input.market && (await findMarket(call, input.market)).conditionId;
    const { from, limit, max_usdc, min_usdc, side, to } = input;
    const found = await read(call, {
      sql: pageStatement(input),
      parameters: {
        ...{ trader: new Bytes(input.address), market: market && new Bytes(market) },
        ...{ side, from, to, ...pageParameters(input) },
        min_usdc: min_usdc && Math.round(min_usdc * 1e6),
        max_usdc: max_usdc && Math.round(max_usdc * 1e6),
      },
      row: Row,
    });
    const { page: rows, next_cursor } = pageOf(found, limit, fillCursor);
    const marketOf = await readMarketsV2(
      call,
      rows.map((row) => row.conditionId),
    );
    const trades = rows.map((row) => {
      const { market, outcomes } = marketOf(row.conditionId);
      return {
        ...fillV2(row, outcomes),
        outcome_index: row.outcomeIndex,
        price: safeInteger(price(row.usdc, row.shares)),
        realised_pnl: safeInteger(row.pnl),
        block_number: safeInteger(row.block),
        log_index: row.log,
        match_log_index: row.matchLog,
        tx_hash: row.txHash,
        order_hash: row.orderHash,
        market,
      };
    });
    return new Page({ trades, next_cursor }, next_cursor);
  },
});
