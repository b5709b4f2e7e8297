/**
 * `GET /v2/markets/:id/trades`: the matches of a market in chain order, without duplicates, with the taker's fill.
 */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { feedMessageId } from '../../ingest/contract.ts';
import { endpoint, Page } from '../http/endpoint.ts';
import { integer, marketKey, order } from '../http/parameters.ts';
import { type Call, SHARED } from './call.ts';
import { CHAIN_ORDER, fillCursor } from './cursors.ts';
import { checksummed, isoSecond, price, safeInteger } from './format.ts';
import { keyset, NEXT_CURSOR, pageOf, pageParameters } from './keyset.ts';
import { findKnownMarket } from './market-object.ts';
import { FEW_ROWS, read } from './query.ts';
import { count as counted, hexText, int, type RowOf, rowOf, seconds, typed } from './rows.ts';
import { amount, checksummedAddress, count, outcomeIndex, side, text, time } from './schemas.ts';

const LIMIT_DEFAULT = 100;
const LIMIT_MAX = 1_000;

const Parameters = z.object({
  id: marketKey.describe('market id, condition id or slug'),
  order: order('desc').describe('desc: newest first; asc: oldest first'),
  limit: integer(1, LIMIT_MAX).default(LIMIT_DEFAULT).describe('maximum matches per page'),
  cursor: fillCursor.parameter,
});
type Input = z.output<typeof Parameters>;

export const matchColumns = {
  block: int('block_number'),
  log: counted('log_index'),
  time: seconds('block_time'),
  txHash: hexText('tx_hash'),
  orderHash: hexText('order_hash'),
  taker: hexText('trader'),
  side: typed('side', z.literal(['BUY', 'SELL'])),
  outcome: typed('outcome_index', z.literal([0, 1])),
  shares: int('shares'),
  usdc: int('usdc'),
  fee: int('fee'),
};
const Row = rowOf(matchColumns);
type Match = RowOf<typeof Row>;

/** A row can occur twice. Both count towards the limit, and the next page starts after them. */
function pageStatement(input: Input): string {
  const { behind, orderBy } = keyset(input, CHAIN_ORDER);
  return `
SELECT ${Row.columns}
FROM matches
WHERE condition_id = {condition_id:FixedString(32)} ${behind}
ORDER BY ${orderBy}
LIMIT {most:UInt32}
${FEW_ROWS}`;
}

const OrderRow = rowOf({
  log: counted('log_index'),
  txHash: hexText('tx_hash'),
  orderHash: hexText('order_hash'),
});

/** The matches of a block before a log, which are not on the page. */
const EARLIER_SQL = `
SELECT DISTINCT ${OrderRow.columns}
FROM matches
WHERE condition_id = {condition_id:FixedString(32)} AND block_number = {block:UInt64}
  AND log_index < {log:UInt32}
${FEW_ROWS}`;

export const TradeV2 = z.object({
  match_id: text(
    'id of the match, as in the order feed',
    `0x${'5f'.repeat(32)}:0x${'6e'.repeat(32)}`,
  ),
  time: time('time of the block'),
  block_number: count('number of the block', 85_671_003),
  taker: checksummedAddress,
  side,
  outcome: text('label of the outcome that the taker traded', 'Yes'),
  outcome_index: outcomeIndex('index of the outcome, 0 or 1'),
  price: amount('price of the outcome, rounded to nearest, micro-USD a share'),
  shares: amount('shares traded, micro-shares'),
  usdc: amount('value without the fee, micro-USD'),
  fee: amount('fee of the taker, micro-USD'),
  tx_hash: text('transaction of the match', `0x${'5f'.repeat(32)}`),
  order_hash: text('EIP-712 hash of the order of the taker', `0x${'6e'.repeat(32)}`),
});

export const marketTradesV2 = endpoint({
  name: 'marketTrades',
  path: '/v2/markets/:id/trades',
  summary: 'Trades of a market',
  description: `Every final match of a market once, with the fill of its taker, newest first unless \`order=asc\`. The order is fixed, so
pages never repeat or omit a match while trades arrive.`,
  parameters: Parameters,
  answer: z.object({
    trades: z.array(TradeV2),
    next_cursor: NEXT_CURSOR,
  }),
  list: 'trades',
  problems: ['not_found'],
  keep: SHARED,
  async run(call: Call, input) {
    const { conditionId, listing } = await findKnownMarket(call, input.id);
    const condition_id = new Bytes(conditionId);
    const sql = pageStatement(input);
    const parameters = { condition_id, ...pageParameters(input) };
    const found = await read(call, { sql, parameters, row: Row });
    const { page: rows, next_cursor } = pageOf(found, input.limit, fillCursor);
    const matches = rows.filter((row, i) => !isSame(row, rows[i - 1]));
    const idOf = await readIds(call, condition_id, matches);
    const trades = matches.map((match) => ({
      match_id: idOf(match),
      ...tradeV2(match, listing.outcomes),
    }));
    return new Page({ trades, next_cursor }, next_cursor);
  },
});

/** A match without its id. */
export function tradeV2(match: Match, outcomes: readonly string[]) {
  return {
    time: isoSecond(match.time),
    block_number: safeInteger(match.block),
    taker: checksummed(match.taker),
    side: match.side,
    outcome: outcomes[match.outcome] ?? '',
    outcome_index: match.outcome,
    price: safeInteger(price(match.usdc, match.shares)),
    shares: safeInteger(match.shares),
    usdc: safeInteger(match.usdc),
    fee: safeInteger(match.fee),
    tx_hash: match.txHash,
    order_hash: match.orderHash,
  };
}

function isSame(match: Match, other: Match | undefined): boolean {
  return other?.log === match.log && other.block === match.block;
}

/**
 * Returns a function from a match of the page to its id on the feed. The id contains the match's ordinal among those of
 * the same taker order in its transaction, so matches of the oldest block that are not on the page are read as well.
 */
async function readIds(call: Call, condition_id: Bytes, page: readonly Match[]) {
  const inOrder = page.toSorted((a, b) => Number(a.block - b.block) || a.log - b.log);
  const [oldest] = inOrder;
  const seen = new Map<string, number>();
  const ids = new Map<Match, string>();
  if (oldest !== undefined) {
    const parameters = { condition_id, block: oldest.block, log: oldest.log };
    const earlier = await read(call, { sql: EARLIER_SQL, parameters, row: OrderRow });
    for (const match of earlier) nextOf(match);
  }
  for (const match of inOrder) {
    ids.set(match, feedMessageId(match.txHash, match.orderHash, nextOf(match)));
  }
  function nextOf({ txHash, orderHash }: Pick<Match, 'txHash' | 'orderHash'>): number {
    const key = txHash + orderHash;
    const ordinal = seen.get(key) ?? 0;
    seen.set(key, ordinal + 1);
    return ordinal;
  }
  return (match: Match) => ids.get(match) ?? '';
}
