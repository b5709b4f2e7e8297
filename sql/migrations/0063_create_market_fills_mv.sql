-- Feeds market_fills from every insert into bookings. Serves: market_fills.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS market_fills_mv TO market_fills
COMMENT 'feeds market_fills'
AS
SELECT
    condition_id,
    trader,
    block_number,
    log_index,
    block_time,
    outcome_index,
    side,
    shares,
    usdc,
    fee,
    order_hash,
    is_taker,
    token_id
FROM bookings
WHERE kind = 'fill'
