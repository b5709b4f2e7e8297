-- For each partition the place in the chain up to which everything is stored, with the hash of its block.
-- Serves: a projector's start, so that a quiet partition is not read again from far back, and the proof that
-- LEDGER holds the blocks that are stored. Never ahead of bookings: written after them.
-- ORDER BY partition: all of it is read at once. Rows: 16. Retention: the newest of each partition.
CREATE TABLE IF NOT EXISTS projector_checkpoints
(
    partition UInt8 COMMENT 'partition of markets',
    block_number UInt64 COMMENT 'block of the newest stored row',
    block_hash String COMMENT 'its hash, to prove that LEDGER holds the same block',
    log_index UInt32 COMMENT 'event_log_index of the newest stored row'
)
ENGINE = ReplacingMergeTree
ORDER BY partition
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'how far LEDGER is stored, by partition';
