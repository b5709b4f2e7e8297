-- The leaderboard of the last 1h of every tag, replaced whole at each refresh.
-- Serves: the leaderboard endpoint. ORDER BY: a page of the usual ranking is one range.
-- Rows: traders of the window times their tags. Retention: until the next refresh.
CREATE TABLE IF NOT EXISTS leaderboard_1h
(
    tag LowCardinality(String) COMMENT 'all, or a tag of the market',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees',
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI',
    volume Int64 COMMENT 'micro-USDC, maker and taker',
    markets_count UInt32 COMMENT 'markets with a fill or a settlement in the window',
    wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    last_trade_at DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 1h by tag, replaced at each refresh'
