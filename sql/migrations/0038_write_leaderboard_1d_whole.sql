-- A refresh writes leaderboard_1d as one part, up to 256 MB of rows, not as one for each million: a page is read
-- from all parts and merged.
-- Serves: what leaderboard_1d serves, see there; ORDER BY, Rows: and Retention: as there.
ALTER TABLE leaderboard_1d_mv
MODIFY QUERY SELECT * FROM leaderboard_window(seconds = 86400) SETTINGS min_insert_block_size_rows = 0
