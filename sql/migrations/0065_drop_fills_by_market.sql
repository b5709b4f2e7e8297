-- The projection of 0042 in bookings: market_fills is read faster. Serves: nothing any more.
-- ORDER BY, Rows: and Retention: of bookings, unchanged.
ALTER TABLE bookings
DROP PROJECTION IF EXISTS fills_by_market
