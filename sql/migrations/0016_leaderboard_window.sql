-- The leaderboard of the last {seconds} for every tag, exact to the second. A window of up to a day comes from
-- bookings_by_time, so its cost follows its own rows. In a longer one, whole hours come from trader_hours, which has a fifth of
-- the rows, and the hours in which the window begins and ends from bookings_by_time. One reading of the clock decides where
-- these meet. Markets with the same tags are summed for each trader before they are counted for each of their tags.
-- "sports" excludes markets that are also tagged "esports"; the tags are in the order of the bits of market_dictionary. A
-- market is won when its realised PnL inside the window is above 0; it counts when it has a fill or a settlement there, and as
-- closed when shares were sold back or settled there.
-- last_trade_at covers all time and all markets: a settlement alone can put a trader on a leaderboard. It is the newest fill
-- in the window, or that of trader_activity for traders who may have none there.
-- Both edges belong to the window: a row exactly {seconds} old counts, one a second older does not.
-- Serves: the refreshes of the leaderboards; not meant for a request. ORDER BY: none. Rows: traders of the window times
-- their tags. Retention: stores nothing.
CREATE VIEW IF NOT EXISTS leaderboard_window
(
    tag String COMMENT 'all, or a tag of the market',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    realised_pnl Int64 COMMENT 'micro-USDC, net of fees',
    realised_cost Int64 COMMENT 'micro-USDC, the denominator of ROI',
    volume Int64 COMMENT 'micro-USDC, maker and taker',
    markets_count UInt32 COMMENT 'markets with a fill or a settlement in the window',
    wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    closed_count UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    closed_wins_count UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    last_trade_at DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
COMMENT 'leaderboard of the last {seconds} for every tag'
AS
WITH
    (SELECT now('UTC')) AS window_end,
    window_end - {seconds:UInt32} AS window_start,
    {seconds:UInt32} > 86400 AS has_hours,
    toStartOfHour(window_end) AS last_hour,
    if(has_hours, toStartOfHour(window_start + 3599), last_hour) AS first_hour
SELECT
    ['all', 'sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech', 'economy', 'weather',
        'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer', 'tennis', 'counter-strike-2', 'dota-2',
        'league-of-legends', '5M', '15M'][bit + 1] AS tag,
    board.trader AS trader,
    board_pnl AS realised_pnl,
    board_cost AS realised_cost,
    board_volume AS volume,
    toUInt32(board_markets) AS markets_count,
    toUInt32(board_wins) AS wins_count,
    toUInt32(board_closed) AS closed_count,
    toUInt32(board_closed_wins) AS closed_wins_count,
    activity.newest AS last_trade_at,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        bit,
        trader,
        sum(boards_pnl) AS board_pnl,
        sum(boards_cost) AS board_cost,
        sum(boards_volume) AS board_volume,
        sum(boards_markets) AS board_markets,
        sum(boards_wins) AS board_wins,
        sum(boards_closed) AS board_closed,
        sum(boards_closed_wins) AS board_closed_wins
    FROM
    (
        SELECT
            trader,
            dictGetOrDefault('market_dictionary', 'boards', tuple(reinterpretAsUInt256(condition_id)), toUInt32(1)) AS boards,
            sum(pnl) AS boards_pnl,
            sum(cost) AS boards_cost,
            sum(market_volume) AS boards_volume,
            count() AS boards_markets,
            countIf(pnl > 0) AS boards_wins,
            countIf(is_closed) AS boards_closed,
            countIf(is_closed AND pnl > 0) AS boards_closed_wins
        FROM
        (
            SELECT
                trader,
                condition_id,
                sum(part_pnl) AS pnl,
                sum(part_cost) AS cost,
                sum(part_volume) AS market_volume,
                max(part_closed) AS is_closed
            FROM
            (
                SELECT
                    trader,
                    condition_id,
                    realised_pnl AS part_pnl,
                    realised_cost AS part_cost,
                    maker_volume + taker_volume AS part_volume,
                    realised_cost != 0 OR settlements > 0 AS part_closed
                FROM trader_hours
                WHERE hour >= first_hour AND hour < last_hour
                UNION ALL
                SELECT
                    trader,
                    condition_id,
                    realised_pnl,
                    realised_cost,
                    if(kind = 'fill', usdc, 0),
                    realised_cost != 0 OR kind = 'settlement'
                FROM bookings_by_time
                WHERE ((block_time >= window_start AND block_time < first_hour)
                    OR (block_time >= last_hour AND block_time <= window_end))
                    AND (kind IN ('fill', 'settlement') OR realised_pnl != 0 OR realised_cost != 0)
            )
            GROUP BY trader, condition_id
        )
        GROUP BY trader, boards
    )
    ARRAY JOIN bitPositionsToArray(boards) AS bit
    GROUP BY bit, trader
) AS board
LEFT JOIN
(
    SELECT trader, max(traded_at) AS newest
    FROM
    (
        SELECT trader, block_time AS traded_at
        FROM bookings_by_time
        WHERE NOT has_hours AND block_time >= window_start AND block_time <= window_end AND kind = 'fill'
        UNION ALL
        SELECT trader, last_trade_at
        FROM trader_activity
        WHERE has_hours OR trader IN (
            SELECT trader
            FROM bookings_by_time
            WHERE block_time >= window_start AND block_time <= window_end AND kind != 'fill'
        )
    )
    GROUP BY trader
) AS activity ON activity.trader = board.trader;
