-- Feeds trader_activity from the fills of every insert into bookings. Serves: trader_activity.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS trader_activity_mv TO trader_activity
COMMENT 'feeds trader_activity'
AS
SELECT
    trader,
    min(block_time) AS first_trade_at,
    max(block_time) AS last_trade_at,
    count() AS fills
FROM bookings
WHERE kind = 'fill'
GROUP BY trader
