-- The leaderboards of all time frames. They refresh as often as their cost allows, usually five seconds after the
-- last refresh (see refreshed_at). Fast by `time_frame` and `tag`.
CREATE OR REPLACE VIEW analyst.leaderboards
(
    time_frame String COMMENT '1H, 4H, 1D, 3D, 7D or 30D: the window that ends at refreshed_at',
    tag String COMMENT 'all, or a tag; sports leaves out what is tagged esports',
    trader String COMMENT 'wallet, 0x-hex in lower case',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised in the window, net of fees',
    realised_cost Decimal(38, 6) COMMENT 'USDC that the closed shares had cost',
    roi_percent Float64 COMMENT '100 · realised_pnl / realised_cost; 0 where the cost is not above 0',
    volume Decimal(38, 6) COMMENT 'USDC of all fills, as maker and as taker',
    markets UInt32 COMMENT 'markets with a fill or a settlement in the window',
    wins UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    win_rate_percent Float64 COMMENT '100 · wins / markets',
    closed UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    closed_wins UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    last_trade_at DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'end of the window, UTC'
)
SQL SECURITY DEFINER
COMMENT 'leaderboards of six time frames by tag'
AS
SELECT
    board.time_frame AS time_frame,
    board.tag AS tag,
    concat('0x', lower(hex(board.trader))) AS trader,
    toDecimal128(board.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(board.realised_cost, 6) / 1000000 AS realised_cost,
    if(board.realised_cost <= 0, 0, 100 * board.realised_pnl / board.realised_cost) AS roi_percent,
    toDecimal128(board.volume, 6) / 1000000 AS volume,
    board.markets_count AS markets,
    board.wins_count AS wins,
    100 * board.wins_count / board.markets_count AS win_rate_percent,
    board.closed_count AS closed,
    board.closed_wins_count AS closed_wins,
    board.last_trade_at AS last_trade_at,
    board.refreshed_at AS refreshed_at
FROM
(
    SELECT '1H' AS time_frame, * FROM {database}.leaderboard_1h
    UNION ALL
    SELECT '4H' AS time_frame, * FROM {database}.leaderboard_4h
    UNION ALL
    SELECT '1D' AS time_frame, * FROM {database}.leaderboard_1d
    UNION ALL
    SELECT '3D' AS time_frame, * FROM {database}.leaderboard_3d
    UNION ALL
    SELECT '7D' AS time_frame, * FROM {database}.leaderboard_7d
    UNION ALL
    SELECT '30D' AS time_frame, * FROM {database}.leaderboard_30d
) AS board
