-- Feeds trader_hours from every insert into bookings. Serves: trader_hours.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS trader_hours_mv TO trader_hours
COMMENT 'feeds trader_hours'
AS
SELECT
    trader,
    toStartOfHour(block_time) AS hour,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker_volume,
    sumIf(usdc, kind = 'fill' AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements
FROM bookings
GROUP BY trader, hour, condition_id
