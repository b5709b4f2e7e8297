-- Serves: leaderboard_3d, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_3d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_3d
COMMENT 'refreshes leaderboard_3d'
AS
SELECT * FROM leaderboard_window(seconds = 259200)
