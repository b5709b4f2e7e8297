-- First and newest fill of each trader, filled by every insert into bookings.
-- Serves: last_trade_at, last_active_hours, "never seen" (404). ORDER BY trader: point reads.
-- Rows: one per trader. Retention: unlimited.
-- The trader_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
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
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'first and newest fill of each trader';

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_activity_mv TO trader_activity
COMMENT 'feeds trader_activity'
AS
SELECT
    trader,
    min(block_time) AS first_trade_at,
    max(block_time) AS last_trade_at,
    count() AS fills
FROM bookings
WHERE kind = 'fill'
GROUP BY trader;
