-- Shares that moved without a fill, in the order of the chain, filled by every insert into bookings.
-- Serves: a trader's movements. ORDER BY trader: one trader is one range. A movement has a row for each wallet and outcome; those of a
-- wallet share block, log and part. Openings, which complete what was known of the wallet, come with the movement that needed them.
-- The index reason_range finds the unexplained ones, the last of the reasons, for /v2/status.
-- Rows: one to four a movement. Retention: unlimited.
CREATE TABLE IF NOT EXISTS movements
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    block_number UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    log_index UInt32 COMMENT 'log of the first transfer, or that closes the match during which it moved' CODEC(T64, ZSTD(1)),
    part UInt32 COMMENT 'number among the movements of that log, from 0' CODEC(T64, ZSTD(1)),
    leg UInt32 COMMENT 'index of the row' CODEC(T64, ZSTD(1)),
    kind Enum8('movement' = 2, 'opening' = 3) COMMENT 'opening: shares that the wallet must have had before',
    reason Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7)
        COMMENT 'why they moved',
    block_time DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    tx_hash FixedString(32) COMMENT 'transaction of the log, 32 bytes',
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    counterparty FixedString(20) COMMENT 'the other wallet of a transfer, or the contract of an unexplained movement, 20 bytes; else zero bytes',
    outcome_index UInt8 COMMENT 'outcome of the shares',
    side Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY: they came; SELL: they left',
    shares Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    usdc Int64 COMMENT 'micro-USDC paid for a split, merge, redemption or conversion, or what shares of a transfer had cost, fees included' CODEC(T64, ZSTD(1)),
    is_mark Bool COMMENT 'whether usdc is a value at the mark of the market',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    INDEX reason_range reason TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (trader, block_number, log_index, part, leg)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'shares that moved without a fill, by trader';

CREATE MATERIALIZED VIEW IF NOT EXISTS movements_mv TO movements
COMMENT 'feeds movements'
AS
SELECT
    trader,
    block_number,
    log_index,
    intDiv(leg, 8) AS part,
    leg,
    kind,
    reason,
    block_time,
    tx_hash,
    condition_id,
    counterparty,
    outcome_index,
    side,
    shares,
    usdc,
    is_mark,
    realised_pnl
FROM bookings
WHERE kind IN ('movement', 'opening') AND reason != 'none';
