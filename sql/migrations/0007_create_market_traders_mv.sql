-- Feeds market_traders from every insert into bookings. Serves: market_traders.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS market_traders_mv TO market_traders
COMMENT 'feeds market_traders'
AS
SELECT
    trader,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker_volume,
    sumIf(usdc, kind = 'fill' AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements,
    maxIf(block_time, kind = 'fill') AS last_trade_at
FROM bookings
GROUP BY trader, condition_id
