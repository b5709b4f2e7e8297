-- Refreshes leaderboard_1h.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1h_mv
REFRESH EVERY 10 SECOND TO leaderboard_1h AS
SELECT * FROM leaderboard_window(seconds = 3600)
