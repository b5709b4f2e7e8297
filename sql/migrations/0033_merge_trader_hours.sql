-- Fewer and cheaper parts of trader_hours: a read of one key opens every column of every part. Parts that all are
-- older than a day become one, and parts below 100 MB keep all columns in one file.
-- Serves: what trader_hours serves, see 0002_create_trader_hours.sql; ORDER BY, Rows: and Retention: as there.
ALTER TABLE trader_hours
MODIFY SETTING min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
