-- The refreshes of leaderboard_1h go on, as before.
-- Serves: leaderboard_1h, which it replaces whole. ORDER BY, Rows: and Retention: see 0020_create_leaderboard_1h.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1h_mv
REFRESH EVERY 10 SECOND TO leaderboard_1h
COMMENT 'refreshes leaderboard_1h'
AS
SELECT * FROM leaderboard_window(seconds = 3600)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
