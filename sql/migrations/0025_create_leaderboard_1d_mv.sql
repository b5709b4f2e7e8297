-- Serves: leaderboard_1d, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1d_mv
REFRESH EVERY 1 MINUTE TO leaderboard_1d
COMMENT 'refreshes leaderboard_1d'
AS
SELECT * FROM leaderboard_window(seconds = 86400)
