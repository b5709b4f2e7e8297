-- One row per match: the fill of its taker.
-- Serves: the trades of a market, newest first, and its price of the last minutes; the biggest trades of the last hours.
-- ORDER BY condition_id, then the chain's order: a page is the end of one range.
-- The projection by time finds the largest of the last hours, with only what that needs: 20 bytes more a match.
-- By quarter, as in market_bookings. Rows: one per match, about a third of the fills.
-- Retention: unlimited.
-- The condition_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS matches
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    block_number UInt64 COMMENT 'block of the match' CODEC(T64, ZSTD(1)),
    log_index UInt32 COMMENT 'log of the taker''s fill' CODEC(T64, ZSTD(1)),
    event_log_index UInt32 COMMENT 'log that closes the match' CODEC(T64, ZSTD(1)),
    block_time DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    tx_hash FixedString(32) COMMENT 'transaction of the match, 32 bytes',
    trader FixedString(20) COMMENT 'wallet of the taker, 20 bytes',
    order_hash FixedString(32) COMMENT 'order of the taker, 32 bytes',
    outcome_index UInt8 COMMENT 'outcome traded by the taker',
    side Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY or SELL of that outcome',
    shares Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    usdc Int64 COMMENT 'micro-USDC without fee' CODEC(T64, ZSTD(1)),
    fee Int64 COMMENT 'micro-USDC, of the taker' CODEC(T64, ZSTD(1)),
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1,
    PROJECTION by_time (SELECT block_time, usdc, condition_id, block_number, log_index ORDER BY block_time)
)
ENGINE = ReplacingMergeTree
PARTITION BY toStartOfQuarter(block_time)
ORDER BY (condition_id, block_number, log_index)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600,
    deduplicate_merge_projection_mode = 'rebuild'
COMMENT 'every match, by market: the fill of its taker';

CREATE MATERIALIZED VIEW IF NOT EXISTS matches_mv TO matches
COMMENT 'feeds matches'
AS
SELECT
    condition_id,
    block_number,
    log_index,
    event_log_index,
    block_time,
    tx_hash,
    trader,
    order_hash,
    outcome_index,
    side,
    shares,
    usdc,
    fee
FROM bookings
WHERE kind = 'fill' AND is_taker;
