/**
 * Figures of a database of projections, to compare two databases, or several tables of one. Sums are linear, and so is
 * a checksum of `sum · hash(key)` modulo 2^64, so they can be taken over unmerged rows with one scan of each table. A
 * row that is duplicated, lost or booked to another key changes a figure.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { STORED_COLUMNS } from '../projector/contract.ts';

/** Decimal figures by `table.figure`. A name that ends in `#` is a checksum, so its value means nothing by itself. */
export type Figures = ReadonlyMap<string, string>;

const MARKET_KEY = 'reinterpretAsInt64(cityHash64(trader, condition_id))';
const hourKey = (hour: string) =>
  `reinterpretAsInt64(cityHash64(trader, toUnixTimestamp(${hour}), condition_id))`;

/** All sums of a row in one number. The factors prevent errors in different sums from cancelling out. */
const MIXED = `(realised_pnl + 3 * realised_cost + 5 * fee + 7 * maker_volume + 11 * taker_volume
  + 13 * toInt64(fills) + 17 * toInt64(settlements))`;
const MIXED_BOOKING = `(realised_pnl + 3 * realised_cost + 5 * fee
  + multiIf(kind = 'fill', if(is_taker, 11, 7) * usdc + 13, kind = 'settlement', 17, 0))`;

const SUMS = {
  fills: 'sum(fills)',
  settlements: 'sum(settlements)',
  usdc: 'sum(maker_volume + taker_volume)',
  fee: 'sum(fee)',
  realised_pnl: 'sum(realised_pnl)',
  realised_cost: 'sum(realised_cost)',
  'by market#': `sum(${MIXED} * ${MARKET_KEY})`,
};

const FILL_HASH = `cityHash64(condition_id, trader, block_number, log_index, block_time,
  outcome_index, side, shares, usdc, fee, order_hash, is_taker, token_id)`;

const MATCH_HASH = `cityHash64(condition_id, trader, block_number, log_index, event_log_index, block_time,
  tx_hash, outcome_index, side, shares, usdc, fee, order_hash)`;

const MOVED_HASH = `cityHash64(trader, block_number, log_index, leg, toString(kind), toString(reason), block_time,
  tx_hash, condition_id, counterparty, outcome_index, side, shares, usdc, is_mark, realised_pnl)`;

const TIMED_HASH = `cityHash64(block_time, block_number, log_index, kind, trader, condition_id, is_taker,
  outcome_index, shares, usdc, realised_pnl, realised_cost, position_outcome, position_shares, position_cost,
  position_fees, position_before, rank, side, is_covered)`;

/** Without the batch, which describes how a row was inserted, not what it means. */
const BOOKED = STORED_COLUMNS.filter((column) => column !== 'batch_id').join(', ');

const LAST_TRADES = { 'last trades#': 'sum(cityHash64(trader, condition_id, last_trade_at))' };
/** With FINAL, the engine would take the elements of a tuple from different rows. */
const positionsOf = (table: string) =>
  `(SELECT trader, condition_id, max(position) AS held, min(first_trade_at) AS first,
      (sum(balance_0), sum(balance_1)) AS balances
    FROM ${table} GROUP BY trader, condition_id)`;
const POSITIONS = {
  open: 'countIf(held.shares > 0)',
  shares: 'sum(held.shares)',
  cost_basis: 'sum(held.cost_basis)',
  open_fees: 'sum(held.open_fees)',
  'held#': 'sum(cityHash64(trader, condition_id, held, first, balances))',
};
const CANDLES = `(SELECT condition_id, minute, min(open) AS first, max(close) AS last, min(low) AS lowest,
  max(high) AS highest, sum(volume) AS value, sum(shares) AS traded, sum(usdc) AS paid, sum(matches) AS number
  FROM market_minutes GROUP BY condition_id, minute)`;
const HOURS = `(SELECT trader, condition_id, hour, max(position) AS held FROM trader_market_hours
  GROUP BY trader, condition_id, hour)`;
const DAYS = `(SELECT condition_id, day, max(close) AS last FROM market_days GROUP BY condition_id, day)`;
const MARKS = `(SELECT condition_id, max(last) AS mark, min(first_match_at) AS first, sum(volume) AS value,
  sum(matches) AS number FROM market_marks GROUP BY condition_id)`;
const CONTENTS = { rows: 'count()', 'contents#': 'sum(cityHash64(*))' };

/** By table, the expression of each figure; with FINAL where unmerged rows do not add up. */
const SCANS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  bookings: {
    fills: `countIf(kind = 'fill')`,
    settlements: `countIf(kind = 'settlement')`,
    usdc: `sumIf(usdc, kind = 'fill')`,
    payouts: `sumIf(usdc, kind = 'settlement')`,
    fee: 'sum(fee)',
    realised_pnl: 'sum(realised_pnl)',
    realised_cost: 'sum(realised_cost)',
    'by market#': `sum(${MIXED_BOOKING} * ${MARKET_KEY})`,
    'by hour#': `sum(${MIXED_BOOKING} * ${hourKey('toStartOfHour(block_time)')})`,
    'by fill#': `sumIf(${FILL_HASH}, kind = 'fill')`,
    matches: 'countIf(is_taker)',
    'match volume': 'sumIf(usdc, is_taker)',
    'priced matches': 'countIf(is_taker AND shares > 0)',
    'priced volume': 'sumIf(usdc, is_taker AND shares > 0)',
    'by match#': `sumIf(${MATCH_HASH}, is_taker)`,
    'by time#': `sum(${TIMED_HASH})`,
    'movements#': `sumIf(${MOVED_HASH}, kind IN ('movement', 'opening') AND reason != 'none')`,
    'contents#': `sum(cityHash64(${BOOKED}))`,
  },
  movements: { 'movements#': `sum(${MOVED_HASH})` },
  bookings_by_time: { 'by time#': `sum(${TIMED_HASH})` },
  trader_hours: { ...SUMS, 'by hour#': `sum(${MIXED} * ${hourKey('hour')})` },
  trader_markets: SUMS,
  market_traders: SUMS,
  'trader_markets FINAL': LAST_TRADES,
  [positionsOf('trader_markets')]: POSITIONS,
  [positionsOf('market_traders')]: POSITIONS,
  'market_traders FINAL': LAST_TRADES,
  'market_bookings FINAL': {
    fills: `countIf(kind = 'fill')`,
    settlements: `countIf(kind = 'settlement')`,
    usdc: `sumIf(usdc, kind = 'fill')`,
    payouts: `sumIf(usdc, kind = 'settlement')`,
    fee: 'sum(fee)',
    realised_pnl: 'sum(realised_pnl)',
    realised_cost: 'sum(realised_cost)',
    'by fill#': `sumIf(${FILL_HASH}, kind = 'fill')`,
  },
  'matches FINAL': {
    matches: 'count()',
    'match volume': 'sum(usdc)',
    'by match#': `sum(${MATCH_HASH})`,
  },
  [CANDLES]: {
    'priced matches': 'sum(number)',
    'priced volume': 'sum(value)',
    'contents#': 'sum(cityHash64(*))',
  },
  [HOURS]: CONTENTS,
  [DAYS]: CONTENTS,
  [MARKS]: {
    matches: 'sum(number)',
    'match volume': 'sum(value)',
    'contents#': 'sum(cityHash64(*))',
  },
  'trader_activity FINAL': {
    fills: 'sum(fills)',
    'contents#': 'sum(cityHash64(trader, first_trade_at, last_trade_at, fills))',
  },
  'resolutions FINAL': CONTENTS,
  'refused_events FINAL': CONTENTS,
};

/** Figures of the positions in `bookings`, which `trader_markets` and `market_traders` must match. */
const NEWEST_POSITIONS = `SELECT toString(countIf(held.1 > 0)), toString(sum(held.1)),
    toString(sum(held.2)), toString(sum(held.3))
  FROM (SELECT argMax((position_shares, position_cost, position_fees),
      (block_number, log_index, rank)) AS held
    FROM bookings GROUP BY condition_id, trader)`;

export async function figuresOf(client: ClickHouseClient): Promise<Figures> {
  const figures = new Map<string, string>();
  for (const [from, wanted] of Object.entries(SCANS)) {
    const expressions = Object.values(wanted).map((expression) => `toString(${expression})`);
    const values = await row(client, `SELECT ${expressions.join(', ')} FROM ${from}`);
    const table = /\w+$/.exec(from.replace(/ FINAL$| GROUP BY .*$/s, ''))?.[0];
    for (const [i, name] of Object.keys(wanted).entries()) {
      figures.set(`${table}.${name}`, values[i] ?? '');
    }
  }
  return figures;
}

/** Differences between the stored positions and the rows of `bookings`. Reads everything once. */
export async function wrongPositions(
  client: ClickHouseClient,
  figures: Figures,
): Promise<readonly string[]> {
  const values = await row(client, NEWEST_POSITIONS);
  return ['trader_markets', 'market_traders'].flatMap((table) =>
    ['open', 'shares', 'cost_basis', 'open_fees'].flatMap((name, i) => {
      const stored = figures.get(`${table}.${name}`);
      return stored === values[i]
        ? []
        : [`${table}.${name} is ${stored}, bookings say ${values[i]}`];
    }),
  );
}

/** Contradictions between the tables of one database and its bookings; empty if they agree. */
export function contradictions(figures: Figures): readonly string[] {
  const wrong: string[] = [];
  for (const [name, value] of figures) {
    const [table, figure] = name.split('.');
    const booked = figures.get(`bookings.${figure}`);
    if (table === 'bookings' || figure === 'contents#' || booked === undefined) continue;
    if (value !== booked) wrong.push(`${name} is ${value}, bookings say ${booked}`);
  }
  return wrong;
}

/** Differences between the rebuilt and the live figures, one sentence each. */
export function differences(live: Figures, rebuilt: Figures): readonly string[] {
  return [...rebuilt].flatMap(([name, value]) => {
    const before = live.get(name) ?? '';
    if (before === value) return [];
    if (name.endsWith('#')) return [`${name.slice(0, -1)}: differ`];
    return [
      `${name}: live ${before}, rebuilt ${value} (${signed(BigInt(value) - BigInt(before))})`,
    ];
  });
}

function signed(change: bigint): string {
  return change > 0n ? `+${change}` : `${change}`;
}

async function row(client: ClickHouseClient, query: string): Promise<readonly string[]> {
  const result = await client.query({ query, format: 'JSONCompactEachRow' });
  return z.array(z.array(z.string())).parse(await result.json())[0] ?? [];
}
