-- Refreshes leaderboard_3d.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_3d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_3d AS
SELECT * FROM leaderboard_window(seconds = 259200)
