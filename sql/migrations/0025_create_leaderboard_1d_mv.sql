-- Refreshes leaderboard_1d.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1d_mv
REFRESH EVERY 1 MINUTE TO leaderboard_1d AS
SELECT * FROM leaderboard_window(seconds = 86400)
