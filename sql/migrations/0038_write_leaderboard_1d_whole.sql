-- A refresh writes leaderboard_1d as one part, up to 256 MB of rows, not as one for each million: a page is read
-- from all parts and merged. Its threads give way to those of queries, where the server may say so (CAP_SYS_NICE).
-- Serves: what leaderboard_1d serves, see there; ORDER BY, Rows: and Retention: as there.
ALTER TABLE leaderboard_1d_mv
MODIFY QUERY SELECT * FROM leaderboard_window(seconds = 86400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19
