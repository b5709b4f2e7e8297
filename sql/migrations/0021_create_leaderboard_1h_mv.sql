-- Serves: leaderboard_1h, which it replaces whole. ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1h_mv
REFRESH EVERY 10 SECOND TO leaderboard_1h
COMMENT 'refreshes leaderboard_1h'
AS
SELECT * FROM leaderboard_window(seconds = 3600)
