-- The leaderboard of each time frame for every tag, replaced as a whole by each refresh.
-- Serves: the leaderboard endpoint. ORDER BY: a page of the default ranking is one range; roi and win_rate are
-- stored for the other rankings (134,000 traders, a page by ROI: 6.3 ms instead of 8.8).
-- Rows: traders of the window times their tags. Retention: until the next refresh.
-- A refresh writes one part (up to 256 MB), because a page merges all parts, and its threads yield to those
-- of queries where the server may set that (CAP_SYS_NICE).
-- For each {frame}, {seconds}, {pace}:
--   1h, 3600, 10 SECOND
--   4h, 14400, 10 SECOND
--   1d, 86400, 1 MINUTE
--   3d, 259200, 5 MINUTE
--   7d, 604800, 5 MINUTE
--   30d, 2592000, 5 MINUTE
CREATE TABLE IF NOT EXISTS leaderboard_{frame}
(
    tag LowCardinality(String) COMMENT 'all, or a tag of the market',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees',
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI',
    volume Int64 COMMENT 'micro-USDC, maker and taker',
    markets_count UInt32 COMMENT 'markets with a fill or a settlement in the window',
    wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    closed_count UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    closed_wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    last_trade_at DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    roi Float64 MATERIALIZED if(realised_cost = 0, 0, 100 * realised_pnl / realised_cost)
        COMMENT 'percent, 0 where nothing was closed',
    win_rate Float64 MATERIALIZED 100 * wins_count / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last {frame} by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_{frame}_mv
REFRESH EVERY {pace} TO leaderboard_{frame}
COMMENT 'refreshes leaderboard_{frame}'
AS
SELECT * FROM leaderboard_window(seconds = {seconds})
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;
