-- Feeds trader_markets from every insert into bookings. Serves: trader_markets.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS trader_markets_mv TO trader_markets
COMMENT 'feeds trader_markets'
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
