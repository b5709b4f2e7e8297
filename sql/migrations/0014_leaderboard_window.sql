-- The leaderboard of the last {seconds} for every tag, computed from raw rows, so that the window is exact to
-- the second. Serves: the refreshable views of the leaderboards; not meant for a request.
-- "sports" excludes markets that are also tagged "esports". A market is won when its realised PnL inside the
-- window is above 0; it counts when it has a fill or a settlement there.
-- last_trade_at covers all time and all markets: a settlement alone can put a trader on a leaderboard.
-- Both edges belong to the window: a row exactly {seconds} old counts, one a second older does not.
-- ORDER BY: none, it reads the parts of bookings whose block_time reaches into the window.
-- Rows: traders of the window times their tags. Retention: stores nothing.
CREATE VIEW IF NOT EXISTS leaderboard_window
(
    tag String COMMENT 'all, or a tag of the market',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees',
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI',
    volume Int64 COMMENT 'micro-USDC, maker and taker',
    markets_count UInt32 COMMENT 'markets with a fill or a settlement in the window',
    wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    last_trade_at DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
COMMENT 'leaderboard of the last {seconds} for every tag'
AS
SELECT
    tag,
    board.trader AS trader,
    board_pnl AS realised_pnl,
    board_cost AS realised_cost,
    board_volume AS volume,
    toUInt32(board_markets) AS markets_count,
    toUInt32(board_wins) AS wins_count,
    activity.newest AS last_trade_at,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        tag,
        trader,
        sum(pnl) AS board_pnl,
        sum(cost) AS board_cost,
        sum(market_volume) AS board_volume,
        count() AS board_markets,
        countIf(pnl > 0) AS board_wins
    FROM
    (
        SELECT
            trader,
            condition_id,
            sum(realised_pnl) AS pnl,
            sum(realised_cost) AS cost,
            sumIf(usdc, kind = 'fill') AS market_volume,
            dictGetOrDefault('market_dictionary', 'tags', tuple(reinterpretAsUInt256(condition_id)), []) AS tags
        FROM bookings
        WHERE block_time >= now('UTC') - {seconds:UInt32} AND block_time <= now('UTC')
        GROUP BY trader, condition_id
    )
    ARRAY JOIN arrayConcat(
        ['all'],
        if(has(tags, 'sports') AND NOT has(tags, 'esports'), ['sports'], []),
        arrayIntersect(tags, ['crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture',
            'tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer',
            'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'])) AS tag
    GROUP BY tag, trader
) AS board
LEFT JOIN
(
    SELECT trader, toDateTime(max(last_trade_at), 'UTC') AS newest
    FROM trader_activity
    GROUP BY trader
) AS activity ON activity.trader = board.trader;
