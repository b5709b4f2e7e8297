-- Logs and calls that could not be decoded, kept raw. Serves: the operator who asks what was left
-- out and why. ORDER BY chain order. Rows: normally none. Retention: unlimited.
CREATE TABLE IF NOT EXISTS refused_events
(
    block_number UInt64,
    log_index UInt32,
    tx_hash FixedString(32) DEFAULT unhex(tx_hash_hex),
    reason LowCardinality(String),
    detail String COMMENT 'the raw log or call as JSON',
    sequence UInt64 COMMENT 'LEDGER sequence',
    tx_hash_hex String EPHEMERAL
)
ENGINE = ReplacingMergeTree(sequence)
ORDER BY (block_number, tx_hash, log_index, reason)
SETTINGS non_replicated_deduplication_window = 1000
