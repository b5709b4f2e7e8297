-- Refreshes leaderboard_4h.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_4h_mv
REFRESH EVERY 10 SECOND TO leaderboard_4h AS
SELECT * FROM leaderboard_window(seconds = 14400)
