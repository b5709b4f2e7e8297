/**
 * `GET /v1|v2/traders/:address/markets/:id/orders`: the fills of one trader in one market in chain order. With
 * `limit` it returns one page. Without it, it streams all fills page by page, so that the hundred thousand fills of a
 * market maker are never in memory at once.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { address, integer, marketId, order } from '../http/parameters.ts';
import type { Call } from './call.ts';
import { CHAIN_ORDER, fillCursor } from './cursors.ts';
import { type Fill, FillV1, FillV2, fillColumns, fillV1, fillV2, withoutRepeats } from './fills.ts';
import { keyset, pageOf, pageParameters } from './keyset.ts';
import { findListing } from './market-object.ts';
import { FEW_ROWS, read } from './query.ts';
import { rowOf } from './rows.ts';

/** Fills per read. */
const PAGE_FILLS_MAX = 1_000;

const Parameters = z.object({
  address,
  id: marketId.describe('market id'),
  order: order('asc').describe('asc: oldest first; desc: newest first'),
  limit: integer(1, PAGE_FILLS_MAX).optional().describe('maximum fills per page (default: all)'),
  cursor: fillCursor.parameter.describe('cursor from the `Link` header of the previous page'),
});
type Input = z.output<typeof Parameters>;

const Row = rowOf(fillColumns);

/** A row can occur twice. Both count towards the limit, and the next read starts after them. */
function statement(input: Input): string {
  const { behind, orderBy } = keyset(input, CHAIN_ORDER);
  return `
SELECT ${Row.columns}
FROM market_bookings
WHERE condition_id = {condition_id:FixedString(32)} AND trader = {trader:FixedString(20)}
  AND kind = 'fill' ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const DESCRIPTION =
  'Every fill of a trader in one market, oldest first unless `order=desc`. The list of an address without fills in the market is empty.';

export const ordersV1 = endpoint({
  name: 'traderOrders',
  path: '/v1/traders/:address/markets/:id/orders',
  summary: 'Fills of a trader in a market (v1)',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV1) }),
  list: 'orders',
  problems: ['not_found'],
  run: async (call: Call, input) => await readOrders(call, input, fillV1),
});

export const ordersV2 = endpoint({
  name: 'traderOrders',
  path: '/v2/traders/:address/markets/:id/orders',
  summary: 'Fills of a trader in a market',
  description: DESCRIPTION,
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV2) }),
  list: 'orders',
  problems: ['not_found'],
  run: async (call: Call, input) => await readOrders(call, input, fillV2),
});

/** Throws Problem 404 if no market has the number. */
async function readOrders<Shown extends object>(
  call: Call,
  input: Input,
  shown: (fill: Fill, outcomes: readonly string[]) => Shown,
): Promise<Page<{ orders: Shown[] }>> {
  const key = { kind: 'id', id: input.id } as const;
  const { condition_id: conditionId, outcomes } = await findListing(call, key);
  const show = (fill: Fill) => shown(fill, outcomes);
  const first = await readPage(call, conditionId, input);
  if (input.limit === undefined && first.next_cursor !== '') {
    return new Page({ orders: [] }, '', {
      elements: everyOrder(call, conditionId, input, first, show),
    });
  }
  return new Page({ orders: withoutRepeats(first.page).map(show) }, first.next_cursor);
}

type FillPage = Awaited<ReturnType<typeof readPage>>;

/** The fills of the first page and of all later ones. */
async function* everyOrder<Shown extends object>(
  call: Call,
  conditionId: string,
  input: Input,
  first: FillPage,
  show: (fill: Fill) => Shown,
): AsyncGenerator<Shown> {
  for (let { page, next_cursor } = first; ; ) {
    for (const fill of withoutRepeats(page)) yield show(fill);
    if (next_cursor === '') return;
    const cursor = fillCursor.parameter.parse(next_cursor);
    ({ page, next_cursor } = await readPage(call, conditionId, { ...input, cursor }));
  }
}

async function readPage(call: Call, conditionId: string, input: Input) {
  const { limit = PAGE_FILLS_MAX } = input;
  const parameters = {
    trader: new Bytes(input.address),
    condition_id: new Bytes(conditionId),
    ...pageParameters({ ...input, limit }),
  };
  const rows = await read(call, { sql: statement(input), parameters, row: Row });
  return pageOf(rows, limit, fillCursor);
}
