-- Ends the refreshes of leaderboard_30d until its columns are changed: one that is under way would put its own
-- table, without the new columns, in the place of the changed one.
-- Serves: the next two migrations. ORDER BY, Rows: and Retention: see 0030_create_leaderboard_30d.sql.
DROP VIEW IF EXISTS leaderboard_30d_mv
