-- Fewer and cheaper parts of trader_markets: a read of one key opens every column of every part. Parts that all are
-- older than a day become one, and parts below 100 MB keep all columns in one file.
-- Serves: what trader_markets serves, see 0004_create_trader_markets.sql; ORDER BY, Rows: and Retention: as there.
ALTER TABLE trader_markets
MODIFY SETTING min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
