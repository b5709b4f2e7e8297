-- Serves: leaderboard_7d, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_7d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_7d
COMMENT 'refreshes leaderboard_7d'
AS
SELECT * FROM leaderboard_window(seconds = 604800)
