/**
 * `GET /v1/traders/:address/markets/:id/orders` (specification 2.5): every fill of one trader in one
 * market, oldest first in chain order. Settlements are bookings too but no orders: left out.
 */
import type { RequestHandler } from 'express';
import { z } from 'zod';
import { address, marketId, parseParameters } from '../parameters.ts';
import { CONDITION_OF_MARKET_ID, unknownMarket } from './market-object.ts';
import { type Analytics, read } from './query.ts';
import { Int, isoSecond, price, Seconds } from './wire.ts';

const Parameters = z.object({ address, id: marketId });

/** One row where the market exists, fills or none; else no row. */
const SQL = `
WITH ${CONDITION_OF_MARKET_ID} AS condition
SELECT market.outcomes AS outcomes, own.fills AS fills
FROM (SELECT outcomes FROM markets FINAL WHERE condition_id = condition) AS market
CROSS JOIN
(
  SELECT arraySort(
    fill -> (fill.1, fill.2),
    groupArray((
      block_number,
      log_index,
      toUnixTimestamp(block_time),
      outcome_index,
      toString(side),
      shares,
      usdc,
      fee,
      lower(hex(order_hash)),
      is_taker,
      toString(token_id)
    ))
  ) AS fills
  FROM bookings
  WHERE trader = unhex({trader:String}) AND condition_id = condition AND kind = 'fill'
) AS own`;

const FillColumns = z.tuple([
  Int, // block
  z.int(), // log
  Seconds,
  z.union([z.literal(0), z.literal(1)]),
  z.enum(['BUY', 'SELL']),
  Int, // shares
  Int, // usdc
  Int, // fee
  z.string().regex(/^[0-9a-f]{64}$/),
  z.boolean(),
  z.string(),
]);

const Row = z.object({ outcomes: z.array(z.string()), fills: z.array(FillColumns) });

export function orders(analytics: Analytics): RequestHandler {
  return async (request, response) => {
    const { address: trader, id } = parseParameters(Parameters, request);
    const parameters = { trader: trader.slice(2), market_id: id };
    const [row] = await read(analytics, response, { sql: SQL, parameters, row: Row });
    if (row === undefined) throw unknownMarket(id);
    response.json({ orders: row.fills.map((fill) => orderObject(fill, row.outcomes)) });
  };
}

function orderObject(fill: z.output<typeof FillColumns>, outcomes: readonly string[]) {
  const [, , seconds, outcomeIndex, side, shares, usdc, fee, orderHash, isTaker, tokenId] = fill;
  return {
    time: isoSecond(seconds),
    outcome: outcomes[outcomeIndex] ?? '',
    side,
    price: price(usdc, shares).toString(),
    shares: shares.toString(),
    usdc: usdc.toString(),
    order_hash: /^0+$/.test(orderHash) ? '' : `0x${orderHash}`,
    is_taker: isTaker,
    token_id: tokenId,
    fee: fee.toString(),
  };
}
