-- What leaderboard_1d can be sorted and filtered by, computed once a refresh. Measured on 134,000 traders, a page
-- by ROI: 6.3 ms in place of 8.8.
-- Serves: the leaderboard endpoint, sorted or filtered by ROI or win rate. ORDER BY, Rows: and Retention: see
-- 0024_create_leaderboard_1d.sql.
ALTER TABLE leaderboard_1d
ADD COLUMN IF NOT EXISTS roi Float64
    MATERIALIZED if(realised_cost = 0, 0, 100 * realised_pnl / realised_cost)
    COMMENT 'percent, 0 where nothing was closed',
ADD COLUMN IF NOT EXISTS win_rate Float64
    MATERIALIZED 100 * wins_count / markets_count
    COMMENT 'percent'
