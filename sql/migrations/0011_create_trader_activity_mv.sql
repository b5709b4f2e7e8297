-- Feeds trader_activity from the fills of every insert into bookings.
CREATE MATERIALIZED VIEW IF NOT EXISTS trader_activity_mv TO trader_activity AS
SELECT
    trader,
    min(block_time) AS first_trade_at,
    max(block_time) AS last_trade_at,
    count() AS fills
FROM bookings
WHERE kind = 'fill'
GROUP BY trader
