-- What leaderboard_4h can be sorted and filtered by, computed once a refresh: a page by ROI read and divided all
-- columns of all traders of its tag. Measured on 134,000 traders: see docs/decisions/0010.
-- Serves: what leaderboard_4h serves, see 0022_create_leaderboard_4h.sql; ORDER BY, Rows: and Retention: as there.
ALTER TABLE leaderboard_4h
ADD COLUMN IF NOT EXISTS roi Float64
    MATERIALIZED if(realised_cost = 0, 0, 100 * realised_pnl / realised_cost)
    COMMENT 'percent, 0 where nothing was closed',
ADD COLUMN IF NOT EXISTS win_rate Float64
    MATERIALIZED 100 * wins_count / markets_count
    COMMENT 'percent'
