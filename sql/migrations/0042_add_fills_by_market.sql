-- The fills of bookings once more, by market: a market's fills by trader stand together, where the table has
-- them apart, each trader's in another granule of every month.
-- Serves: the fills of a page of a market's traders, a market's prices. ORDER BY condition_id, trader as
-- market_traders, so that a page is one range; then the chain's order.
-- Measured on 27M rows, 20 traders of a market: 5.8 ms in place of 23.7.
-- Rows: as bookings; 37 bytes a row, about 50 with real order hashes. Retention: unlimited.
ALTER TABLE bookings
ADD PROJECTION IF NOT EXISTS fills_by_market
(
    SELECT
        condition_id,
        trader,
        block_number,
        log_index,
        kind,
        block_time,
        outcome_index,
        side,
        shares,
        usdc,
        fee,
        order_hash,
        is_taker,
        token_id
    ORDER BY condition_id, trader, block_number, log_index
)
