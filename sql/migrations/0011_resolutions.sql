-- The resolution of each condition; only the first one counts.
-- Serves: resolved_at and winning_outcome of market objects, and the projector's closed markets.
-- ORDER BY condition_id: point reads. Rows: one per resolved condition. Retention: unlimited.
CREATE TABLE IF NOT EXISTS resolutions
(
    condition_id FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    payout_0 UInt64 COMMENT 'payout numerator of outcome 0',
    payout_1 UInt64 COMMENT 'payout numerator of outcome 1',
    parts_0 UInt128 COMMENT 'exact payout of outcome 0 in parts of 10^36, if the numerators of a combo are rounded; else 0',
    parts_1 UInt128 COMMENT 'exact payout of outcome 1 in parts of 10^36, if the numerators of a combo are rounded; else 0',
    resolved_at DateTime('UTC') COMMENT 'time of the block, UTC',
    block_number UInt64 COMMENT 'block of the resolution',
    log_index UInt32 COMMENT 'log of the resolution',
    condition_id_hex String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(block_number)
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'payouts of each resolved condition';
