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
import { fillCursor } from './cursors.ts';
import { type Fill, FillV1, FillV2, fillColumns, fillV1, fillV2, withoutRepeats } from './fills.ts';
import { pageOf } from './keyset.ts';
import { findListing } from './market-object.ts';
import { FEW_ROWS, read } from './query.ts';
import { rowOf } from './rows.ts';

/** Fills per read. */
const PAGE_FILLS_MAX = 1_000;

const Parameters = z.object({
  address: address.describe('wallet of the trader; letter case is ignored'),
  id: marketId.describe('market id'),
  order: order('asc').describe('asc: oldest first; desc: newest first'),
  limit: integer(1, PAGE_FILLS_MAX).optional().describe('maximum fills per page (default: all)'),
  cursor: fillCursor.optional().describe('cursor from the `Link` header of the previous page'),
});
type Input = z.output<typeof Parameters>;

const Row = rowOf(fillColumns);

/** A row can occur twice. Both count towards the limit, and the next read starts after them. */
function statement({ cursor, order }: Input): string {
  const [direction, behind] = order === 'asc' ? ['ASC', '>'] : ['DESC', '<'];
  const isBehind = `AND (block_number, log_index)
    ${behind} ({cursor_block:UInt64}, {cursor_log:UInt32})`;
  return `
SELECT ${Row.columns}
FROM market_bookings
WHERE condition_id = {condition_id:FixedString(32)} AND trader = {trader:FixedString(20)}
  AND kind = 'fill'
  ${cursor === undefined ? '' : isBehind}
ORDER BY block_number ${direction}, log_index ${direction}
LIMIT {limit:UInt32}
${FEW_ROWS}`;
}

const DESCRIPTION =
  'Every fill, oldest first unless `order=desc`. The list of an address without fills in the market is empty.';

export const ordersV1 = endpoint({
  name: 'traderOrders',
  path: '/v1/traders/:address/markets/:id/orders',
  summary: 'Fills of one trader in one market',
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
  summary: 'Fills of one trader in one market, amounts as numbers',
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
  const limit = input.limit ?? PAGE_FILLS_MAX;
  const { page, last } = pageOf(await readPage(call, conditionId, input, limit + 1), limit);
  if (input.limit === undefined && last !== undefined) {
    return new Page({ orders: [] }, '', {
      elements: everyOrder(call, conditionId, input, page, show),
    });
  }
  return new Page({ orders: withoutRepeats(page).map(show) }, last ? cursorOf(last) : '');
}

/** The fills of the first page and of all later ones. */
async function* everyOrder<Shown extends object>(
  call: Call,
  conditionId: string,
  input: Input,
  first: readonly Fill[],
  show: (fill: Fill) => Shown,
): AsyncGenerator<Shown> {
  for (let fills = first; ; ) {
    for (const fill of withoutRepeats(fills)) yield show(fill);
    const last = fills.at(-1);
    if (last === undefined || fills.length < PAGE_FILLS_MAX) return;
    const cursor = fillCursor.parse(cursorOf(last));
    fills = await readPage(call, conditionId, { ...input, cursor }, PAGE_FILLS_MAX);
  }
}

async function readPage(
  call: Call,
  conditionId: string,
  input: Input,
  limit: number,
): Promise<readonly Fill[]> {
  const parameters = {
    trader: new Bytes(input.address),
    condition_id: new Bytes(conditionId),
    limit,
    cursor_block: input.cursor?.block ?? '0',
    cursor_log: input.cursor?.log ?? 0,
  };
  return await read(call, { sql: statement(input), parameters, row: Row });
}

function cursorOf({ block, log }: Fill): string {
  return `${block}-${log}`;
}
