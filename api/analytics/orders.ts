/**
 * `GET /v1|v2/traders/:address/markets/:id/orders` (specification 2.5, 2.10): the fills of one trader in
 * one market in chain order. With `limit` one page; without, all of them, read a page at a time while
 * they are sent, so that a market maker's hundred thousand fills cost no memory.
 */
import { z } from 'zod';
import { endpoint, Page } from '../endpoint.ts';
import { address, integer, marketId, order } from '../parameters.ts';
import { fillCursor } from './cursors.ts';
import {
  FILL_COLUMNS,
  FILLS,
  type Fill,
  FillColumns,
  FillV1,
  FillV2,
  fillV1,
  fillV2,
} from './fills.ts';
import { CONDITION_OF_MARKET_ID, unknownMarket } from './market-key.ts';
import { type Call, read } from './query.ts';

/** Fills of one read. */
const PAGE_FILLS_MAX = 1_000;

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
  id: marketId.describe('market id'),
  order: order('asc').describe('asc: oldest first; desc: newest first'),
  limit: integer(1, PAGE_FILLS_MAX).optional().describe('most fills of the page; all by default'),
  cursor: fillCursor.optional().describe('goes on behind the page whose Link field had it'),
});
type Given = z.output<typeof Parameters>;

/** One row where the market exists, fills or none; else no row. */
function statement({ cursor, order }: Given): string {
  const [direction, behind, reversed] =
    order === 'asc' ? ['ASC', '>', ''] : ['DESC', '<', 'arrayReverse'];
  const isBehind = `AND (block_number, log_index)
        ${behind} ({cursor_block:UInt64}, {cursor_log:UInt32})`;
  return `
WITH ${CONDITION_OF_MARKET_ID} AS condition
SELECT market.outcomes AS outcomes, own.fills AS fills
FROM (SELECT outcomes FROM markets FINAL WHERE condition_id = condition) AS market
CROSS JOIN
(
  SELECT ${reversed}(${FILLS}) AS fills
  FROM
  (
    SELECT ${FILL_COLUMNS}
    FROM bookings
    WHERE trader = unhex({trader:String}) AND condition_id = condition AND kind = 'fill'
      ${cursor === undefined ? '' : isBehind}
    ORDER BY block_number ${direction}, log_index ${direction}
    LIMIT {limit:UInt32}
  )
) AS own`;
}

const Row = z.object({ outcomes: z.array(z.string()), fills: z.array(FillColumns) });

const DESCRIPTION =
  'Every fill, oldest first unless `order=desc`. An address without fills there has an empty list.';

export const ordersV1 = endpoint({
  path: '/v1/traders/:address/markets/:id/orders',
  summary: 'Fills of one trader in one market',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV1) }),
  list: 'orders',
  problems: ['not_found'],
  run: async (call: Call, given) => await readOrders(call, given, fillV1),
});

export const ordersV2 = endpoint({
  path: '/v2/traders/:address/markets/:id/orders',
  summary: 'Fills of one trader in one market, amounts as numbers',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV2) }),
  list: 'orders',
  problems: ['not_found'],
  run: async (call: Call, given) => await readOrders(call, given, fillV2),
});

type Outcomes = readonly string[];

/** Throws Problem 404 where no market has the number. */
async function readOrders<Shown extends object>(
  call: Call,
  given: Given,
  shown: (fill: Fill, outcomes: Outcomes) => Shown,
): Promise<Page<{ orders: Shown[] }>> {
  const limit = given.limit ?? PAGE_FILLS_MAX;
  const first = await readPage(call, given, limit);
  const isWhole = first.fills.length < limit;
  if (given.limit === undefined && !isWhole) {
    return new Page({ orders: [] }, '', everyOrder(call, given, first, shown));
  }
  const orders = first.fills.map((fill) => shown(fill, first.outcomes));
  return new Page({ orders }, isWhole ? '' : cursorOf(first.fills));
}

/** The first page's fills and all behind them. */
async function* everyOrder<Shown extends object>(
  call: Call,
  given: Given,
  first: z.output<typeof Row>,
  shown: (fill: Fill, outcomes: Outcomes) => Shown,
): AsyncGenerator<Shown> {
  let { fills } = first;
  for (;;) {
    for (const fill of fills) yield shown(fill, first.outcomes);
    if (fills.length < PAGE_FILLS_MAX) return;
    const cursor = fillCursor.parse(cursorOf(fills));
    ({ fills } = await readPage(call, { ...given, cursor }, PAGE_FILLS_MAX));
  }
}

async function readPage(call: Call, given: Given, limit: number) {
  const { address: trader, cursor, id } = given;
  const parameters = {
    trader: trader.slice(2),
    market_id: id,
    limit,
    cursor_block: cursor?.block ?? '0',
    cursor_log: cursor?.log ?? 0,
  };
  const [row] = await read(call, { sql: statement(given), parameters, row: Row });
  if (row === undefined) throw unknownMarket({ kind: 'id', id });
  return row;
}

function cursorOf(fills: readonly Fill[]): string {
  const last = fills.at(-1);
  return last === undefined ? '' : `${last.block}-${last.log}`;
}
