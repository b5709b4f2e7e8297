-- Serves: leaderboard_30d, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_30d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_30d
COMMENT 'refreshes leaderboard_30d'
AS
SELECT * FROM leaderboard_window(seconds = 2592000)
