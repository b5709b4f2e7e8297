-- Fewer and cheaper parts of market_traders: a read of one key opens every column of every part. Parts that all are
-- older than a day become one, and parts below 100 MB keep all columns in one file.
-- Serves: what market_traders serves, see 0006_create_market_traders.sql; ORDER BY, Rows: and Retention: as there.
ALTER TABLE market_traders
MODIFY SETTING min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
