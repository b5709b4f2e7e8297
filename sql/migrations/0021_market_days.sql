-- The last match of each market and day.
-- Serves: what positions were worth at the end of a day or before an hour, without reading all minutes of each market.
-- ORDER BY condition_id, day: the days of one market are one range. `close` as in market_minutes; readers always
-- GROUP BY, as there. Rows: one per market and day with a match. Retention: unlimited.
CREATE TABLE IF NOT EXISTS market_days
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    day DateTime('UTC') COMMENT 'start of the day, UTC' CODEC(T64, ZSTD(1)),
    close SimpleAggregateFunction(max, Tuple(version UInt64, usdc Int64, shares Int64)) COMMENT 'last match: micro-USDC of outcome 0 and micro-shares'
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, day)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'last match of each market and day';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_days_mv TO market_days
COMMENT 'feeds market_days'
AS
SELECT
    condition_id,
    toStartOfDay(minute) AS day,
    max(market_minutes.close) AS close
FROM market_minutes
GROUP BY condition_id, day;
