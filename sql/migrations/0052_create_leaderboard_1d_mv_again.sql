-- The refreshes of leaderboard_1d go on, as before.
-- Serves: leaderboard_1d, which it replaces whole. ORDER BY, Rows: and Retention: see 0024_create_leaderboard_1d.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_1d_mv
REFRESH EVERY 1 MINUTE TO leaderboard_1d
COMMENT 'refreshes leaderboard_1d'
AS
SELECT * FROM leaderboard_window(seconds = 86400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
