-- Ends the refreshes of leaderboard_7d until its columns are changed: one that is under way would put its own
-- table, without the new columns, in the place of the changed one.
-- Serves: the next two migrations. ORDER BY, Rows: and Retention: see 0028_create_leaderboard_7d.sql.
DROP VIEW IF EXISTS leaderboard_7d_mv
