/**
 * Rows of the table `bookings` (sql/migrations/0001_bookings.sql): one per trader and event that changes
 * their position. The api and the tests import only this file of the projector.
 */

/** Columns of an insert, in the order of `bookingValues`. */
export const BOOKING_COLUMNS = [
  'kind',
  'block_number',
  'block_time',
  'log_index',
  'event_log_index',
  'tx_hash_hex',
  'condition_id_hex',
  'trader_hex',
  'order_hash_hex',
  'is_taker',
  'side',
  'outcome_index',
  'token_id',
  'shares',
  'usdc',
  'fee',
  'realised_pnl',
  'realised_cost',
  'position_outcome',
  'position_shares',
  'position_cost',
  'position_fees',
  'partition',
  'leg',
  'batch_id',
] as const;

/** Columns as stored, for inserting a batch again from its own rows. */
export const STORED_COLUMNS = BOOKING_COLUMNS.map((column) => column.replace(/_hex$/, ''));

export type Booking = {
  readonly kind: 'fill' | 'settlement';
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
  readonly partition: number;
  readonly leg: number;
};

/** A row for JSONCompactEachRow; 64-bit numbers as decimal strings. */
export function bookingValues(row: Booking, batchId: string): unknown[] {
  return [
    row.kind,
    row.blockNumber,
    row.blockTime,
    row.logIndex,
    row.eventLogIndex,
    row.txHash.slice(2),
    row.conditionId.slice(2),
    row.trader.slice(2),
    row.orderHash.slice(2),
    row.isTaker,
    row.side,
    row.outcomeIndex,
    row.tokenId,
    row.shares.toString(),
    row.usdc.toString(),
    row.fee.toString(),
    row.realisedPnl.toString(),
    row.realisedCost.toString(),
    row.positionOutcome,
    row.positionShares.toString(),
    row.positionCost.toString(),
    row.positionFees.toString(),
    row.partition,
    row.leg,
    batchId,
  ];
}
