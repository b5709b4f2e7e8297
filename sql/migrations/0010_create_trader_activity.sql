-- First and newest fill of each trader. Serves: last_trade_at, last_active_hours, "never seen" (404).
-- ORDER BY trader: point reads. Rows: one per trader. Retention: unlimited.
-- trader_text: the view's 0x-text sorts as the bytes do, so its minima and maxima prune like the key.
CREATE TABLE IF NOT EXISTS trader_activity
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    first_trade_at SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first fill, UTC',
    last_trade_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    fills SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'first and newest fill of each trader'
