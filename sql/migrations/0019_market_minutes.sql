-- The matches of each market and minute, as a candle of outcome 0. Each match counts once, with the fill of its
-- taker; a fill of outcome 1 at price p is one of outcome 0 at 1 − p. Matches without shares have no price and
-- are left out.
-- Serves: candles of a market, prices of markets at a time in the past. ORDER BY condition_id, minute: the
-- candles of one market are one range. `open` and `close` are the first and the last match by their version, as
-- in trader_markets. Readers always GROUP BY: with FINAL, the engine takes the elements of a tuple from different rows,
-- and on a cluster each shard has the matches of its takers.
-- Rows: at most one per match. Retention: unlimited.
-- The condition_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS market_minutes
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    minute DateTime('UTC') COMMENT 'start of the minute, UTC' CODEC(T64, ZSTD(1)),
    open SimpleAggregateFunction(min, Tuple(version UInt64, usdc Int64, shares Int64)) COMMENT 'first match: micro-USDC of outcome 0 and micro-shares',
    close SimpleAggregateFunction(max, Tuple(version UInt64, usdc Int64, shares Int64)) COMMENT 'last match: micro-USDC of outcome 0 and micro-shares',
    low SimpleAggregateFunction(min, UInt32) COMMENT 'lowest price of outcome 0, micro-USDC a share, rounded down, 0 to 1,000,000',
    high SimpleAggregateFunction(max, UInt32) COMMENT 'highest price of outcome 0, micro-USDC a share, rounded down',
    volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC that the takers paid or received',
    shares SimpleAggregateFunction(sum, Int64) COMMENT 'micro-shares',
    usdc SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC at prices of outcome 0: usdc / shares is the average price',
    matches SimpleAggregateFunction(sum, UInt64) COMMENT 'number of matches',
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toStartOfQuarter(minute)
ORDER BY (condition_id, minute)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'candles of each market and minute';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_minutes_mv TO market_minutes
COMMENT 'feeds market_minutes'
AS
SELECT
    condition_id,
    toStartOfMinute(block_time) AS minute,
    min((version, first_usdc, match_shares)) AS open,
    max((version, first_usdc, match_shares)) AS close,
    min(price) AS low,
    max(price) AS high,
    sum(match_usdc) AS volume,
    sum(match_shares) AS shares,
    sum(first_usdc) AS usdc,
    count() AS matches
FROM
(
    SELECT
        condition_id,
        block_time,
        (block_number * 1048576 + log_index) * 32 + 1 AS version,
        bookings.shares AS match_shares,
        bookings.usdc AS match_usdc,
        if(outcome_index = 0, match_usdc, match_shares - match_usdc) AS first_usdc,
        toUInt32(least(1000000, greatest(0, intDiv(toInt128(first_usdc) * 1000000, match_shares)))) AS price
    FROM bookings
    WHERE kind = 'fill' AND is_taker AND bookings.shares > 0
)
GROUP BY condition_id, minute;
