-- The refreshes of leaderboard_4h go on, as before.
-- Serves: leaderboard_4h, which it replaces whole. ORDER BY, Rows: and Retention: see 0022_create_leaderboard_4h.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_4h_mv
REFRESH EVERY 10 SECOND TO leaderboard_4h
COMMENT 'refreshes leaderboard_4h'
AS
SELECT * FROM leaderboard_window(seconds = 14400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
