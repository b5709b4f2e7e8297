-- Refreshes leaderboard_30d.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_30d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_30d AS
SELECT * FROM leaderboard_window(seconds = 2592000)
