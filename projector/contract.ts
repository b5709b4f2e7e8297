/**
 * Rows of the table `bookings` (sql/migrations/0001_bookings.sql): one for each event that changes a trader's position.
 * The api imports only this file of the projector.
 */

import type { Movement } from '../ingest/contract.ts';

export type Booking = {
  readonly kind: 'fill' | 'settlement' | 'movement' | 'opening';
  readonly blockNumber: number;
  /** Seconds since the epoch. */
  readonly blockTime: number;
  readonly logIndex: number;
  readonly eventLogIndex: number;
  readonly txHash: string;
  readonly conditionId: string;
  readonly trader: string;
  /** '' for a settlement. */
  readonly orderHash: string;
  readonly isTaker: boolean;
  /** BUY and SELL of a movement or an opening: shares that came or left. */
  readonly side: 'NONE' | 'BUY' | 'SELL';
  readonly outcomeIndex: 0 | 1;
  /** Decimal; '0' for a settlement. */
  readonly tokenId: string;
  readonly shares: bigint;
  /** The payout, for a settlement. */
  readonly usdc: bigint;
  readonly fee: bigint;
  readonly realisedPnl: bigint;
  readonly realisedCost: bigint;
  readonly positionOutcome: 0 | 1;
  readonly positionShares: bigint;
  readonly positionCost: bigint;
  readonly positionFees: bigint;
  /** Micro-shares held before this row: of outcome 0, or of outcome 1 if below 0. */
  readonly positionBefore: bigint;
  readonly partition: number;
  readonly leg: number;
  /** Order among the rows of the trader in this market and log, from 0 to 31: part of the version of a position. */
  readonly rank: number;
  /** Why shares moved; 'none' for fills and settlements. */
  readonly reason: Movement['reason'] | 'none';
  /** The other wallet or contract; ''. */
  readonly counterparty: string;
  /** Whether `usdc` is a value at the mark. */
  readonly isMark: boolean;
  /** Whether movements were read in its block, so that it counts in balances. */
  readonly isCovered: boolean;
};

/** Rank of a fill, also without an opening before it. */
export const FILL_RANK = 1;

/** The columns of an insert and their values: 64-bit numbers as decimal text, hex without 0x. */
const COLUMNS: Readonly<Record<string, (row: Booking) => unknown>> = {
  kind: (row) => row.kind,
  block_number: (row) => row.blockNumber,
  block_time: (row) => row.blockTime,
  log_index: (row) => row.logIndex,
  event_log_index: (row) => row.eventLogIndex,
  tx_hash_hex: (row) => row.txHash.slice(2),
  condition_id_hex: (row) => row.conditionId.slice(2),
  trader_hex: (row) => row.trader.slice(2),
  order_hash_hex: (row) => row.orderHash.slice(2),
  is_taker: (row) => row.isTaker,
  side: (row) => row.side,
  outcome_index: (row) => row.outcomeIndex,
  token_id: (row) => row.tokenId,
  shares: (row) => row.shares.toString(),
  usdc: (row) => row.usdc.toString(),
  fee: (row) => row.fee.toString(),
  realised_pnl: (row) => row.realisedPnl.toString(),
  realised_cost: (row) => row.realisedCost.toString(),
  position_outcome: (row) => row.positionOutcome,
  position_shares: (row) => row.positionShares.toString(),
  position_cost: (row) => row.positionCost.toString(),
  position_fees: (row) => row.positionFees.toString(),
  position_before: (row) => row.positionBefore.toString(),
  partition: (row) => row.partition,
  leg: (row) => row.leg,
  rank: (row) => row.rank,
  reason: (row) => row.reason,
  counterparty_hex: (row) => row.counterparty.slice(2),
  is_mark: (row) => row.isMark,
  is_covered: (row) => row.isCovered,
};
const VALUES = Object.values(COLUMNS);

/** Columns of an insert, in the order of `bookingValues`. */
export const BOOKING_COLUMNS = [...Object.keys(COLUMNS), 'batch_id'];

/** The same columns as stored, for inserting a batch again from its own rows. */
export const STORED_COLUMNS = BOOKING_COLUMNS.map((column) => column.replace(/_hex$/, ''));

/** A row for JSONCompactEachRow. */
export function bookingValues(row: Booking, batchId: string): unknown[] {
  return [...VALUES.map((value) => value(row)), batchId];
}
