-- The refreshes of leaderboard_30d go on, as before.
-- Serves: leaderboard_30d, which it replaces whole. ORDER BY, Rows: and Retention: see 0030_create_leaderboard_30d.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_30d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_30d
COMMENT 'refreshes leaderboard_30d'
AS
SELECT * FROM leaderboard_window(seconds = 2592000)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
