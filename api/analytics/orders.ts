/**
 * `GET /v1|v2/traders/:address/markets/:id/orders` (specification 2.5, 2.10): every fill of one
 * trader in one market, oldest first in chain order.
 */
import { z } from 'zod';
import { endpoint } from '../endpoint.ts';
import { address, marketId } from '../parameters.ts';
import { FILLS, FillColumns, FillV1, FillV2, fillV1, fillV2 } from './fills.ts';
import { CONDITION_OF_MARKET_ID, unknownMarket } from './market-object.ts';
import { type Call, read } from './query.ts';

const Parameters = z.object({
  address: address.describe('wallet of the trader, in any letter case'),
  id: marketId.describe('market id'),
});
type Given = z.output<typeof Parameters>;

/** One row where the market exists, fills or none; else no row. */
const SQL = `
WITH ${CONDITION_OF_MARKET_ID} AS condition
SELECT market.outcomes AS outcomes, own.fills AS fills
FROM (SELECT outcomes FROM markets FINAL WHERE condition_id = condition) AS market
CROSS JOIN
(
  SELECT ${FILLS} AS fills
  FROM bookings
  WHERE trader = unhex({trader:String}) AND condition_id = condition AND kind = 'fill'
) AS own`;

const Row = z.object({ outcomes: z.array(z.string()), fills: z.array(FillColumns) });

export const ordersV1 = endpoint({
  path: '/v1/traders/:address/markets/:id/orders',
  summary: 'Fills of one trader in one market',
  description: 'Every fill, oldest first. An address without fills there has an empty list.',
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV1) }),
  list: 'orders',
  problems: ['not_found'],
  async run(call: Call, given) {
    const { fills, outcomes } = await readFills(call, given);
    return { orders: fills.map((fill) => fillV1(fill, outcomes)) };
  },
});

export const ordersV2 = endpoint({
  path: '/v2/traders/:address/markets/:id/orders',
  summary: 'Fills of one trader in one market, amounts as numbers',
  description: 'Every fill, oldest first. An address without fills there has an empty list.',
  parameters: Parameters,
  answer: z.object({ orders: z.array(FillV2) }),
  list: 'orders',
  problems: ['not_found'],
  async run(call: Call, given) {
    const { fills, outcomes } = await readFills(call, given);
    return { orders: fills.map((fill) => fillV2(fill, outcomes)) };
  },
});

async function readFills(call: Call, { address: trader, id }: Given) {
  const parameters = { trader: trader.slice(2), market_id: id };
  const [row] = await read(call, { sql: SQL, parameters, row: Row });
  if (row === undefined) throw unknownMarket(`id ${id}`);
  return row;
}
