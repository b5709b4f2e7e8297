-- Logs and calls that could not be decoded, kept raw, and contracts and tokens that ingest does not know. Serves: operators who
-- investigate what was left out, and why. ORDER BY chain order. Rows: few. Retention: unlimited.
CREATE TABLE IF NOT EXISTS refused_events
(
    block_number UInt64 COMMENT 'block of the log or call',
    log_index UInt32 COMMENT 'log that could not be decoded',
    tx_hash FixedString(32) DEFAULT unhex(tx_hash_hex) COMMENT 'transaction, 32 bytes',
    reason LowCardinality(String) COMMENT 'class of the error',
    detail String COMMENT 'the raw logs or call as JSON, or what ingest does not know',
    tx_hash_hex String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree
ORDER BY (block_number, tx_hash, log_index, reason)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'logs and calls that could not be decoded, and what ingest does not know';
