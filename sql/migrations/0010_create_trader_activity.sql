-- First and newest fill of each trader. Serves: last_trade_at, last_active_hours, "never seen" (404).
-- ORDER BY trader: point reads. Rows: one per trader. Retention: unlimited.
CREATE TABLE IF NOT EXISTS trader_activity
(
    trader FixedString(20),
    first_trade_at SimpleAggregateFunction(min, DateTime('UTC')),
    last_trade_at SimpleAggregateFunction(max, DateTime('UTC')),
    fills SimpleAggregateFunction(sum, UInt64)
)
ENGINE = AggregatingMergeTree
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000
