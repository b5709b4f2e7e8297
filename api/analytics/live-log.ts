/** Reads of `bookings_by_time`: what was stored between two blocks, what happened in a period, and whether it is still the same table. */

import { z } from 'zod';
import { BALANCE_CHANGE, IS_COUNTED } from './bookings.ts';
import type { Period } from './live-cells.ts';
import { MARKET_SERIES, MARKET_TAG_LINES } from './market-tags.ts';
import { type Reading, read } from './query.ts';
import { boolean, count, hexText, int, type RowOf, rowOf, seconds, string, typed } from './rows.ts';
import { UNWEIGHTED } from './trader-cells.ts';

const outcome = (sql: string) => typed(sql, z.literal([0, 1]));

const columns = {
  trader: hexText('trader'),
  conditionId: hexText('condition_id'),
  time: seconds('block_time'),
  isFill: boolean("toBool(kind = 'fill')"),
  pnl: int('realised_pnl'),
  cost: int('realised_cost'),
  makerVolume: int("if(kind = 'fill' AND NOT is_taker, usdc, 0)"),
  takerVolume: int('if(is_taker, usdc, 0)'),
  unweighted: int(`if(is_taker, ${UNWEIGHTED}, 0)`),
};
const LoggedRow = rowOf(columns);

/** With its block, and the labels of its market as of now. */
const StoredRow = rowOf({
  ...columns,
  isCounted: boolean(`toBool(${IS_COUNTED})`),
  isSettlement: boolean("toBool(kind = 'settlement')"),
  rank: count('rank'),
  block: count('block_number'),
  log: count('log_index'),
  isTaker: boolean('is_taker'),
  outcome: outcome('outcome_index'),
  shares: int('shares'),
  balanceChange: int(BALANCE_CHANGE),
  usdc: int('usdc'),
  heldOutcome: outcome('position_outcome'),
  heldShares: int('position_shares'),
  heldCost: int('position_cost'),
  heldFees: int('position_fees'),
  tagLines: string(MARKET_TAG_LINES),
  series: string(MARKET_SERIES),
});
export type Place = { readonly block: number; readonly time: number };

const STORED_SQL = `
SELECT ${StoredRow.columns}
FROM bookings_by_time
WHERE block_time >= toDateTime({time:UInt32}, 'UTC') AND block_number > {block:UInt64} AND block_number <= {last:UInt64}
ORDER BY block_number, log_index, rank
LIMIT {most:UInt32}`;

/** Bookings of the blocks after `from`, up to `last`, in the order of the chain. */
export async function readStored(reading: Reading, from: Place, last: number, most: number) {
  const parameters = { ...from, last, most };
  return await read(reading, { sql: STORED_SQL, parameters, row: StoredRow });
}

const ResolvedRow = rowOf({
  conditionId: hexText('condition_id'),
  block: count('block_number'),
  time: seconds('resolved_at'),
  usdc: int('payout_0'),
  shares: int('payout_0 + payout_1'),
});

const RESOLVED_SQL = `
SELECT ${ResolvedRow.columns}
FROM resolutions
WHERE block_number > {block:UInt64} AND block_number <= {last:UInt64}
LIMIT {most:UInt32}`;

/** Resolutions in the blocks after `from`, up to `last`. */
export async function readResolved(reading: Reading, from: Place, last: number, most: number) {
  const parameters = { block: from.block, last, most };
  return await read(reading, { sql: RESOLVED_SQL, parameters, row: ResolvedRow });
}

const PERIOD_SQL = `
SELECT ${LoggedRow.columns}
FROM bookings_by_time
WHERE block_time >= toDateTime({from:UInt32}, 'UTC') AND block_time < toDateTime({to:UInt32}, 'UTC')
  AND ${IS_COUNTED}
ORDER BY block_time`;

/** The bookings of a period, in the order of time. */
export async function readPeriod(reading: Reading, { from, to }: Period) {
  return await read(reading, { sql: PERIOD_SQL, parameters: { from, to }, row: LoggedRow });
}

const TableRow = rowOf({
  id: string('toString(uuid)'),
  engine: string('engine'),
  /** Only of tables whose rows do not merge. */
  rows: count("if(engine = 'MergeTree', ifNull(total_rows, 0), 0)"),
});

const TABLES_SQL = `
SELECT ${TableRow.columns}
FROM system.tables
WHERE database = currentDatabase() AND name IN ('bookings', 'bookings_by_time', 'trader_markets', 'market_marks', 'resolutions')
ORDER BY name`;

/** The tables as they are now. A rebuild or a restore puts others in their place. */
export type Tables = readonly RowOf<typeof TableRow>[];

export async function readTables(reading: Reading): Promise<Tables> {
  return await read(reading, { sql: TABLES_SQL, parameters: {}, row: TableRow });
}

/** Whether `after` are the same tables as `before`, and no rows were deleted. */
export function isContinued(before: Tables, after: Tables): boolean {
  return (
    before.length === after.length &&
    after.every(({ id, rows }, at) => id === before[at]?.id && rows >= (before[at]?.rows ?? 0))
  );
}

const LabelRow = rowOf({
  conditionId: hexText('condition_id'),
  tagLines: string(MARKET_TAG_LINES),
  series: string(MARKET_SERIES),
});

const LABELS_SQL = `
SELECT DISTINCT ${LabelRow.columns}
FROM markets
WHERE stored_at >= now() - {seconds:UInt32}
LIMIT {most:UInt32}`;

/** The labels, as of now, of the markets whose listings were stored in the last `seconds`. */
export async function readLabels(reading: Reading, seconds: number, most: number) {
  return await read(reading, { sql: LABELS_SQL, parameters: { seconds, most }, row: LabelRow });
}
