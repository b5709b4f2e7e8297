-- A refresh groups bookings by trader and market in the order of its key, one pair after another, in place of a hash table
-- of all pairs. Settings inside leaderboard_window would have no effect. The views keep their pace.
-- Serves: the refreshes of the leaderboards. ORDER BY: as before. Rows: as before. Retention: until the next refresh.
ALTER TABLE leaderboard_1h_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 3600)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

ALTER TABLE leaderboard_4h_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 14400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

ALTER TABLE leaderboard_1d_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 86400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

ALTER TABLE leaderboard_3d_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 259200)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

ALTER TABLE leaderboard_7d_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 604800)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

ALTER TABLE leaderboard_30d_mv MODIFY QUERY
SELECT * FROM leaderboard_window(seconds = 2592000)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;
