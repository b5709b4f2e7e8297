-- The refreshes of leaderboard_3d go on, as before.
-- Serves: leaderboard_3d, which it replaces whole. ORDER BY, Rows: and Retention: see 0026_create_leaderboard_3d.sql.
CREATE MATERIALIZED VIEW IF NOT EXISTS leaderboard_3d_mv
REFRESH EVERY 5 MINUTE TO leaderboard_3d
COMMENT 'refreshes leaderboard_3d'
AS
SELECT * FROM leaderboard_window(seconds = 259200)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
