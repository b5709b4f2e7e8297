-- The refreshes of leaderboard_7d go on, as before.
-- Serves: leaderboard_7d, which it replaces whole. ORDER BY, Rows: and Retention: see 0028_create_leaderboard_7d.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_7d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_7d
COMMENT 'refreshes leaderboard_7d'
AS
SELECT * FROM leaderboard_window(seconds = 604800)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
