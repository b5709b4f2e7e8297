-- Refreshes leaderboard_7d.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_7d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_7d AS
SELECT * FROM leaderboard_window(seconds = 604800)
