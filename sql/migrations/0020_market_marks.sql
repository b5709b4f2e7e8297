-- The last match and the sums of each market. Each match counts once, with the fill of its taker.
-- Serves: mark prices of many markets at once, for example of a trader's open positions.
-- ORDER BY condition_id: point reads. `last` as in market_minutes; a market whose matches all had no shares has
-- version 0 and no price. Readers always GROUP BY, as of market_minutes.
-- Rows: one per market. Retention: unlimited.
CREATE TABLE IF NOT EXISTS market_marks
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    last SimpleAggregateFunction(max, Tuple(version UInt64, usdc Int64, shares Int64, time DateTime('UTC'))) COMMENT 'last match with shares: micro-USDC of outcome 0, micro-shares, time of its block',
    first_match_at SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first match, UTC',
    volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC that the takers paid or received',
    matches SimpleAggregateFunction(sum, UInt64) COMMENT 'number of matches'
)
ENGINE = AggregatingMergeTree
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'last match and sums of each market';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_marks_mv TO market_marks
COMMENT 'feeds market_marks'
AS
SELECT
    condition_id,
    max(if(bookings.shares > 0,
        ((block_number * 1048576 + log_index) * 32 + 1,
            if(outcome_index = 0, usdc, bookings.shares - usdc), bookings.shares, block_time),
        (toUInt64(0), toInt64(0), toInt64(0), toDateTime(0, 'UTC')))) AS last,
    min(block_time) AS first_match_at,
    sum(usdc) AS volume,
    count() AS matches
FROM bookings
WHERE kind = 'fill' AND is_taker
GROUP BY condition_id;
