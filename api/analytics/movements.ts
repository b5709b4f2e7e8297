/** `GET /v2/traders/:address/movements`: shares of one trader that moved without a fill, in chain order. */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { MOVEMENT_REASONS } from '../../ingest/contract.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { address, integer, marketKey, oneOf, order } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { movementCursor } from './cursors.ts';
import { checksummed, isoSecond, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findMarket, MarketV2, readMarketsV2 } from './market-object.ts';
import { FEW_ROWS, read } from './query.ts';
import { boolean, count as counted, hexText, int, rowOf, seconds, typed } from './rows.ts';
import { amount, count, text, time, yes } from './schemas.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;

const Parameters = z.object({
  address,
  market: marketKey.optional().describe('only this market: its id, condition id or slug'),
  reason: oneOf(MOVEMENT_REASONS).optional().describe('only movements for this reason'),
  order: order('desc').describe('desc: newest first; asc: oldest first'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum movements per page'),
  cursor: movementCursor.parameter,
});
type Input = z.output<typeof Parameters>;

/** Of the rows of an outcome and kind. */
const change = (kind: 'movement' | 'opening', outcome: 0 | 1) =>
  int(
    `sumIf(if(side = 'BUY', movements.shares, -movements.shares), kind = '${kind}' AND outcome_index = ${outcome})`,
  );

const Row = rowOf({
  block: int('block_number'),
  log: counted('log_index'),
  part: counted('part'),
  at: seconds('any(block_time)'),
  reason: typed('toString(any(movements.reason))', z.enum(MOVEMENT_REASONS)),
  conditionId: hexText('any(movements.condition_id)'),
  counterparty: hexText("maxIf(movements.counterparty, kind = 'movement')"),
  txHash: hexText('any(movements.tx_hash)'),
  change0: change('movement', 0),
  change1: change('movement', 1),
  opened0: change('opening', 0),
  opened1: change('opening', 1),
  value: int("sumIf(movements.usdc, kind = 'movement')"),
  isMark: boolean("toBool(maxIf(movements.is_mark, kind = 'movement'))"),
  pnl: int('sum(movements.realised_pnl)'),
});

function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(input, {
    columns: ['block_number', 'log_index', 'part'],
    at: '({cursor_block:UInt64}, {cursor_log:UInt32}, {cursor_part:UInt32})',
  });
  const conditions = [
    'trader = {trader:FixedString(20)}',
    ...(input.market === undefined ? [] : ['condition_id = {market:FixedString(32)}']),
    ...(input.reason === undefined ? [] : ['reason = {reason:String}']),
  ];
  return `
SELECT ${Row.columns}
FROM movements
WHERE ${conditions.join(' AND ')} ${behind}
GROUP BY block_number, log_index, part
ORDER BY ${orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const MovementV2 = z.object({
  reason: z.enum(MOVEMENT_REASONS).meta({
    description:
      'refund: an exchange returned what it did not sell; unexplained: nothing on the chain says why',
    examples: ['split'],
  }),
  market: MarketV2,
  change_0: amount('micro-shares of outcome 0 that came, or left if below 0'),
  change_1: amount('micro-shares of outcome 1 that came, or left if below 0'),
  value: amount(
    'paid for a split, merge, redemption or conversion, or what the shares of a transfer had cost, fees included, micro-USD',
  ),
  is_mark: yes('whether the value depends on the mark of the market, as in conversions'),
  realised_pnl: amount(
    'PnL that the movement realised, net of fees, micro-USD; in a resolved market, a settlement follows, which is not part of it',
  ),
  counterparty: text(
    'the other wallet of a transfer, the contract of an unexplained movement, or empty',
    `0x${'5f'.repeat(20)}`,
  ),
  opened_0: amount(
    'micro-shares of outcome 0 that the wallet must have had before the first block',
  ),
  opened_1: amount(
    'micro-shares of outcome 1 that the wallet must have had before the first block',
  ),
  time: time('time of the block'),
  block_number: count('number of the block', 85_671_003),
  log_index: count(
    'index of its first log in the block, or of the log that closes the match during which it moved',
    12,
  ),
  part: count('number among the movements of that log', 0),
  tx_hash: text('transaction', `0x${'5f'.repeat(32)}`),
});

export const traderMovementsV2 = endpoint({
  name: 'traderMovements',
  path: '/v2/traders/:address/movements',
  summary: 'Movements of shares of a trader',
  description: `Splits, merges, redemptions, conversions of negative-risk positions, transfers to and from other wallets, and whatever
else changed the balances of a trader, newest first unless \`order=asc\`. Trades and movements add up to the balances on the chain.
Blocks that were read with \`MOVEMENTS=off\` have none.

The order is fixed, so pages never repeat or omit a movement while others arrive. The list of an unknown address is empty.`,
  parameters: Parameters,
  answer: z.object({
    movements: z.array(MovementV2),
    next_cursor: NEXT_CURSOR,
  }),
  list: 'movements',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const market = input.market && (await findMarket(call, input.market)).conditionId;
    const found = await read(call, {
      sql: pageStatement(input),
      parameters: {
        ...{ trader: new Bytes(input.address), market: market && new Bytes(market) },
        ...{ reason: input.reason, ...pageParameters(input) },
      },
      row: Row,
    });
    const { page: rows, next_cursor } = pageOf(found, input.limit, movementCursor);
    const marketOf = await readMarketsV2(
      call,
      rows.map((row) => row.conditionId),
    );
    const movements = rows.map((row) => {
      const { market } = marketOf(row.conditionId);
      return {
        reason: row.reason,
        market,
        change_0: safeInteger(row.change0),
        change_1: safeInteger(row.change1),
        value: safeInteger(row.value),
        is_mark: row.isMark,
        realised_pnl: safeInteger(row.pnl),
        counterparty: row.counterparty === NOBODY ? '' : checksummed(row.counterparty),
        opened_0: safeInteger(row.opened0),
        opened_1: safeInteger(row.opened1),
        time: isoSecond(row.at),
        block_number: safeInteger(row.block),
        log_index: row.log,
        part: row.part,
        tx_hash: row.txHash,
      };
    });
    return new Page({ movements, next_cursor }, next_cursor);
  },
});

const NOBODY = `0x${'0'.repeat(40)}`;
