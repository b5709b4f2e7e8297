-- Ends the refreshes of leaderboard_1h until its columns are changed: one that is under way would put its own
-- table, without the new columns, in the place of the changed one.
-- Serves: the next two migrations. ORDER BY, Rows: and Retention: see 0020_create_leaderboard_1h.sql.
DROP VIEW IF EXISTS leaderboard_1h_mv
