-- The bookings of the last weeks in the order of time, filled by every insert into bookings, which scatters the rows of
-- an hour over the whole month.
-- Serves: the leaderboards, which read the hours in which their windows begin and end from it, to the second.
-- ORDER BY block_time: a period is one range. The rest makes each row unique: read it with FINAL. Rows: one per booking, 18 to 22 bytes. Retention: 32 days, dropped by week.
CREATE TABLE IF NOT EXISTS recent_bookings
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes' CODEC(ZSTD(1)),
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes' CODEC(ZSTD(1)),
    block_time DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    block_number UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    log_index UInt32 COMMENT 'log of the fill or of the resolution' CODEC(T64, ZSTD(1)),
    kind Enum8('fill' = 0, 'settlement' = 1) COMMENT 'fill, or settlement of an open position by a resolution',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI' CODEC(T64, ZSTD(1)),
    volume Int64 COMMENT 'micro-USDC, 0 for a settlement' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toMonday(block_time)
ORDER BY (block_time, block_number, log_index, kind, trader)
TTL block_time + INTERVAL 32 DAY
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, ttl_only_drop_parts = 1
COMMENT 'every fill and settlement of the last weeks, by time';

CREATE MATERIALIZED VIEW IF NOT EXISTS recent_bookings_mv TO recent_bookings
COMMENT 'feeds recent_bookings'
AS
SELECT
    trader,
    condition_id,
    block_time,
    block_number,
    log_index,
    kind,
    realised_pnl,
    realised_cost,
    if(kind = 'fill', usdc, 0) AS volume
FROM bookings;
