-- Brings market_fills what was stored before its view. What is written meanwhile may come twice, as all of it
-- when this is run again: its key replaces it.
-- Serves: market_fills. ORDER BY, Rows: and Retention: see 0062.
INSERT INTO market_fills
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
