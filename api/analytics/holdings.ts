/** What a trader holds in each market, with the trader's sums there over all time. */
import { z } from 'zod';
import { Bytes } from '../../infra/clickhouse.ts';
import { newestHeld } from './marks.ts';
import { FEW_ROWS, type Reading, read } from './query.ts';
import { count, hexText, int, type RowOf, rowOf, seconds, typed } from './rows.ts';

const HoldingRow = rowOf({
  conditionId: hexText('condition_id'),
  /** Place in the chain of the newest booking, which says what is held. */
  version: count('max(position.version)'),
  outcome: typed(newestHeld('outcome'), z.literal([0, 1])),
  shares: int(newestHeld('shares')),
  cost: int(newestHeld('cost_basis')),
  fees: int(newestHeld('open_fees')),
  realised: int('sum(realised_pnl)'),
  realisedCost: int('sum(realised_cost)'),
  volume: int('sum(maker_volume + taker_volume)'),
  /** 0 without a trade. */
  firstAt: seconds("if(sum(fills) = 0, toDateTime(0, 'UTC'), min(first_trade_at))"),
  lastAt: seconds('max(last_trade_at)'),
  settled: count('sum(settlements)'),
  /** Micro-shares of each outcome that were seen to come and leave. */
  balance0: int('sum(balance_0)'),
  balance1: int('sum(balance_1)'),
});
export type Holding = RowOf<typeof HoldingRow>;

/** Of all markets of the trader, or of those in which shares are held. Throws Problem 503 if ClickHouse is unavailable. */
export async function readHoldings(
  reading: Reading,
  trader: string,
  { isOpen }: { readonly isOpen: boolean },
): Promise<readonly Holding[]> {
  const sql = `
SELECT ${HoldingRow.columns}
FROM trader_markets
WHERE trader = {trader:FixedString(20)}
GROUP BY condition_id
${isOpen ? `HAVING ${newestHeld('shares')} > 0` : ''}
${FEW_ROWS}`;
  return await read(reading, {
    sql,
    parameters: { trader: new Bytes(trader) },
    row: HoldingRow,
  });
}

/**
 * Micro-shares that the wallet has of each outcome, at least. While the market is open, its position was read even if not all of
 * its balances were.
 */
export function balancesOf({ outcome, shares, balance0, balance1 }: Holding): [bigint, bigint] {
  const net = outcome === 0 ? shares : -shares;
  const unread = shares === 0n ? 0n : net - (balance0 - balance1);
  const [zero, one] = unread > 0n ? [balance0 + unread, balance1] : [balance0, balance1 - unread];
  return [zero > 0n ? zero : 0n, one > 0n ? one : 0n];
}

/** Block of the booking with this version, `(block · 2^20 + log) · 32 + rank`. */
export const blockOf = (version: number) => Math.floor(version / 2 ** 25);

/** Version of a booking. */
export const versionOf = (block: number, log: number, rank: number) =>
  (block * 2 ** 20 + log) * 32 + rank;
