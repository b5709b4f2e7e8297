/**
 * A small exchange of made-up bookings, the same for the same seed, and functions that insert them.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { generator } from './seed.ts';

export type Booking = {
  readonly kind: 'fill' | 'settlement';
  /** Epoch seconds. */
  readonly time: number;
  readonly block: number;
  readonly log: number;
  readonly market: number;
  readonly trader: string;
  readonly isTaker: boolean;
  readonly side: 'BUY' | 'SELL' | 'NONE';
  readonly outcome: 0 | 1;
  readonly shares: bigint;
  readonly usdc: bigint;
  readonly fee: bigint;
  readonly pnl: bigint;
  readonly cost: bigint;
};

export type Market = {
  readonly id: string;
  readonly conditionId: string;
  readonly tags: readonly string[];
  readonly tokens: readonly [string, string];
};

export const MARKETS: readonly Market[] = [
  ['sports', 'basketball', 'nba'],
  ['sports', 'esports', 'counter-strike-2'],
  ['crypto', '5M'],
  ['crypto', '15M', 'crypto'],
  ['politics', 'elections', 'geopolitics'],
  ['tweets-markets', 'pop-culture'],
  [],
].map((tags, index) => ({
  id: String(1_000 + index),
  conditionId: (index + 1).toString(16).padStart(64, 'a'),
  tags,
  tokens: [`${index + 1}${'7'.repeat(70)}`, `${index + 1}${'8'.repeat(70)}`],
}));

/** A market without a listing: the last number, which has no entry in MARKETS. */
export const UNLISTED_MARKET = MARKETS.length;
export const UNLISTED_TOKENS = ['112345', '212345'] as const;

export function conditionOf(market: number): string {
  return MARKETS[market]?.conditionId ?? (market + 1).toString(16).padStart(64, 'b');
}

export function addressOf(trader: number): string {
  return `0x${(trader + 1).toString(16).padStart(40, 'c0ffee')}`.slice(0, 42);
}

/** Random bookings of the 40 days before `now`, newest last. */
export function makeBookings(seed: number, now: number, count: number, traders: number): Booking[] {
  const random = generator(seed);
  const below = (limit: number) => Math.floor(random() * limit);
  const rows: Booking[] = [];
  while (rows.length < count) {
    // More of them in the recent past, so that each window has some.
    const age = 60 + Math.floor(random() ** 4 * 40 * 86_400);
    const isFill = random() < 0.85;
    const shares = BigInt(1 + below(500_000_000));
    const usdc = (shares * BigInt(1 + below(999_999))) / 1_000_000n;
    const closes = !isFill || random() < 0.5;
    rows.push({
      kind: isFill ? 'fill' : 'settlement',
      time: now - age,
      block: 0,
      log: below(900),
      market: below(UNLISTED_MARKET + 1),
      trader: addressOf(below(traders)),
      isTaker: isFill && random() < 0.4,
      side: isFill ? (random() < 0.5 ? 'BUY' : 'SELL') : 'NONE',
      outcome: random() < 0.5 ? 0 : 1,
      shares,
      usdc,
      fee: isFill ? BigInt(below(1_000_000)) : 0n,
      pnl: closes ? BigInt(below(400_000_000)) - 200_000_000n : 0n,
      cost: closes ? usdc : 0n,
    });
  }
  rows.sort((a, b) => a.time - b.time);
  return rows.map((row, index) => ({
    ...{ ...row, block: 80_000_000 + Math.floor(index / 3) },
    time: rows[index - (index % 3)]?.time ?? row.time,
    // No two rows of a block have the same log.
    log: row.log - (row.log % 3) + (index % 3),
  }));
}

/** Inserts bookings as the projector does; `batch` identifies the insert. Without `orderHash`, each has its own. */
export async function insertBookings(
  client: ClickHouseClient,
  rows: Booking[],
  batch: number,
  orderHash?: string,
) {
  await client.insert({
    table: 'bookings',
    format: 'JSONEachRow',
    values: rows.map((row) => ({
      kind: row.kind,
      block_number: row.block,
      block_time: row.time,
      log_index: row.log,
      event_log_index: row.log,
      tx_hash_hex: row.block.toString(16).padStart(64, '0'),
      condition_id_hex: conditionOf(row.market),
      trader_hex: row.trader.slice(2),
      order_hash_hex:
        row.kind === 'fill' ? (orderHash ?? orderHashOf(row)).slice(2) : '0'.repeat(64),
      is_taker: row.isTaker,
      side: row.side,
      outcome_index: row.outcome,
      token_id: row.kind === 'fill' ? tokenOf(row) : '0',
      shares: String(row.shares),
      usdc: String(row.usdc),
      fee: String(row.fee),
      realised_pnl: String(row.pnl),
      realised_cost: String(row.cost),
      position_outcome: row.outcome,
      ...heldAfter(row),
      partition: 0,
      leg: 0,
      // So that balances of some blocks count.
      is_covered: row.block % 2 === 0,
      batch_id: batch,
    })),
    columns: COLUMNS,
  });
}

/** A fill that closes nothing opens a position, so that some positions are open. All others end one. */
function heldAfter(row: Booking) {
  const isHeld = row.kind === 'fill' && row.cost === 0n;
  return {
    position_shares: String(isHeld ? row.shares : 0n),
    position_cost: String(isHeld ? row.usdc : 0n),
    position_fees: String(isHeld ? row.fee : 0n),
    position_before: String(isHeld ? 0n : row.outcome === 0 ? row.shares : -row.shares),
  };
}

const COLUMNS: [string, ...string[]] = [
  ...(['kind', 'block_number', 'block_time', 'log_index', 'event_log_index'] as const),
  ...['tx_hash_hex', 'condition_id_hex', 'trader_hex', 'order_hash_hex', 'is_taker', 'side'],
  ...['outcome_index', 'token_id', 'shares', 'usdc', 'fee', 'realised_pnl', 'realised_cost'],
  ...['position_outcome', 'position_shares', 'position_cost', 'position_fees', 'position_before'],
  ...['partition', 'leg', 'is_covered', 'batch_id'],
];

export function orderHashOf(row: Booking): string {
  return `0x${(BigInt(row.block) * 10_000n + BigInt(row.log)).toString(16).padStart(64, 'e')}`;
}

export function tokenOf(row: Booking): string {
  return (MARKETS[row.market]?.tokens ?? UNLISTED_TOKENS)[row.outcome];
}

/** Inserts the listings of MARKETS; market 1000 is resolved to outcome 0, 1002 is split. */
export async function insertListings(client: ClickHouseClient, resolvedAt: number) {
  await client.insert({
    table: 'markets',
    format: 'JSONEachRow',
    columns: [
      ...(['condition_id_hex', 'market_id', 'question', 'slug', 'start_date', 'end_date'] as const),
      ...['icon', 'neg_risk', 'event_slug', 'event_title', 'event_icon', 'series_slug', 'tags'],
      ...['outcomes', 'token_ids', 'group_item_title', 'sports_market_type', 'observed_at'],
    ],
    values: MARKETS.map((market, index) => ({
      condition_id_hex: market.conditionId,
      market_id: market.id,
      ...listingOf(market),
      neg_risk: index % 2 === 1,
      tags: market.tags,
      outcomes: ['Yes', `No ${index}`],
      token_ids: market.tokens,
      sports_market_type: '',
      observed_at: `2026-01-01 00:00:${String(index).padStart(2, '0')}`,
    })),
  });
  await insertResolution(client, { market: 0, payouts: [1, 0], at: resolvedAt });
  await insertResolution(client, { market: 2, payouts: [1, 1], at: resolvedAt });
  await client.command({ query: 'SYSTEM RELOAD DICTIONARY market_dictionary' });
}

export async function insertResolution(
  client: ClickHouseClient,
  given: {
    readonly market: number;
    readonly payouts: readonly [number, number];
    /** Epoch seconds. */
    readonly at: number;
  },
) {
  await client.insert({
    table: 'resolutions',
    format: 'JSONEachRow',
    columns: [
      ...(['condition_id_hex', 'payout_0', 'payout_1', 'resolved_at', 'block_number'] as const),
      'log_index',
    ],
    values: [
      {
        condition_id_hex: conditionOf(given.market),
        ...{ payout_0: given.payouts[0], payout_1: given.payouts[1] },
        ...{ resolved_at: given.at, block_number: 1, log_index: 1 },
      },
    ],
  });
}

export function seriesOf(market: Market): string {
  return Number(market.id) % 2 === 0 ? 'series-x' : 'series-y';
}

/** The texts of a listing, by their names in API responses. */
export function listingOf(market: Market) {
  return {
    question: `Question of ${market.id}?`,
    slug: `market-${market.id}`,
    start_date: '2026-05-01T00:00:00Z',
    end_date: '2026-06-01T00:00:00Z',
    icon: `https://example.com/${market.id}.png`,
    event_slug: `event-${market.id}`,
    series_slug: seriesOf(market),
    group_item_title: '',
    event_title: `Event of ${market.id}`,
    event_icon: '',
  };
}
