-- Ends the refreshes of leaderboard_4h until its columns are changed: one that is under way would put its own
-- table, without the new columns, in the place of the changed one.
-- Serves: the next two migrations. ORDER BY, Rows: and Retention: see 0022_create_leaderboard_4h.sql.
DROP VIEW IF EXISTS leaderboard_4h_mv
