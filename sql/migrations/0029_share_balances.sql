-- Balances of both outcomes of a market, read from the chain for a sample of the traders, and what was booked up to that block,
-- once the projector has compared them. Serves: the comparison, and coverage in /v2/status.
-- ORDER BY block, trader, market: a compared row replaces the one that waited, so the compared ones can be counted without FINAL. The
-- table is small enough to be read whole for those that wait.
-- Rows: at most 86,400, those of a day. Retention: a day.
CREATE TABLE IF NOT EXISTS share_balances
(
    trader FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    condition_id FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    partition UInt8 COMMENT 'partition of the market',
    block_number UInt64 COMMENT 'block at whose end the balances were read',
    covered_from UInt64 COMMENT 'the movements of all blocks from here to block_number were read',
    balance_0 Int64 COMMENT 'micro-shares of outcome 0 on the chain',
    balance_1 Int64 COMMENT 'the same of outcome 1',
    booked_0 Int64 COMMENT 'micro-shares of outcome 0 by bookings up to block_number, once they are compared',
    booked_1 Int64 COMMENT 'the same of outcome 1',
    result Enum8('waiting' = 0, 'equal' = 1, 'less' = 2, 'more' = 3, 'left_out' = 4)
        COMMENT 'less: fewer shares were booked than the wallet has on the chain; more: more were, of either outcome; left_out: the trader has bookings before covered_from',
    observed_at DateTime('UTC') COMMENT 'when ingest read the balances, UTC',
    is_compared UInt8 DEFAULT result != 'waiting' COMMENT 'a compared row replaces the one that waited',
    trader_hex String EPHEMERAL COMMENT 'input as hex text, not stored',
    condition_id_hex String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(is_compared)
ORDER BY (block_number, trader, condition_id)
TTL observed_at + INTERVAL 1 DAY
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'sampled balances of shares on the chain, compared with bookings';
