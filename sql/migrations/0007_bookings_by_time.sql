-- A third copy of bookings, in the order of time, because bookings scatters the rows of an hour over the whole month.
-- Serves: the leaderboards of up to a day and the edges of the longer ones, to the second; the live sums of the api, which follow
-- its end and read what leaves a window; analysts, for everything that happened in a period.
-- ORDER BY block_time: a period is one range. Rows: one per booking, about 31 bytes without position_before. Retention: unlimited.
-- Old parts are not merged into one, as in bookings: a period touches only the parts that hold it.
CREATE TABLE IF NOT EXISTS bookings_by_time
(
    block_time DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    block_number UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    log_index UInt32 COMMENT 'log of the fill or of the resolution' CODEC(T64, ZSTD(1)),
    kind Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3)
        COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes' CODEC(ZSTD(1)),
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes' CODEC(ZSTD(1)),
    is_taker Bool COMMENT 'true for the taker of its match; false for a settlement',
    outcome_index UInt8 COMMENT 'outcome traded, or held at the settlement',
    side Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'NONE for a settlement; BUY and SELL of a movement or an opening: shares that came or left',
    shares Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    usdc Int64 COMMENT 'micro-USDC without fee; payout for a settlement' CODEC(T64, ZSTD(1)),
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI' CODEC(T64, ZSTD(1)),
    position_outcome UInt8 COMMENT 'outcome held after this row',
    position_shares Int64 COMMENT 'micro-shares held after this row' CODEC(T64, ZSTD(1)),
    position_cost Int64 COMMENT 'cost basis after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    position_fees Int64 COMMENT 'open fees after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    position_before Int64 COMMENT 'micro-shares held before this row: of outcome 0, or of outcome 1 if below 0' CODEC(T64, ZSTD(1)),
    rank UInt8 COMMENT 'order among the rows of the trader in this market and log, from 0',
    is_covered Bool COMMENT 'whether movements were read in this block, so that it counts in balances'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (block_time, block_number, log_index)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384
COMMENT 'every fill, settlement and movement, by time';

CREATE MATERIALIZED VIEW IF NOT EXISTS bookings_by_time_mv TO bookings_by_time
COMMENT 'feeds bookings_by_time'
AS
SELECT
    block_time,
    block_number,
    log_index,
    kind,
    trader,
    condition_id,
    is_taker,
    outcome_index,
    side,
    shares,
    usdc,
    realised_pnl,
    realised_cost,
    position_outcome,
    position_shares,
    position_cost,
    position_fees,
    position_before,
    rank,
    is_covered
FROM bookings;
