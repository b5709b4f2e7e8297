-- For each partition a LEDGER sequence up to which everything is stored, with the id of the message
-- there. Serves: a projector's start, so that a quiet partition is not read again from far back.
-- Never ahead of bookings: written after them. ORDER BY partition: all of it is read at once.
-- Rows: 16. Retention: the newest of each partition.
CREATE TABLE IF NOT EXISTS projector_checkpoints
(
    partition UInt8 COMMENT 'LEDGER partition',
    sequence UInt64 COMMENT 'LEDGER sequence up to which all is stored',
    message_id String COMMENT 'Nats-Msg-Id of that sequence, to prove that the stream is the same',
    message_time DateTime64(3, 'UTC') COMMENT 'when JetStream stored it',
    last_block UInt64 COMMENT 'chain position of the newest booking of the partition then',
    last_log UInt32 COMMENT 'its event_log_index'
)
ENGINE = ReplacingMergeTree
ORDER BY partition
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'how far LEDGER is stored, by partition'
