-- Serves: leaderboard_4h, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_4h_mv
REFRESH EVERY 10 SECOND TO leaderboard_4h
COMMENT 'refreshes leaderboard_4h'
AS
SELECT * FROM leaderboard_window(seconds = 14400)
