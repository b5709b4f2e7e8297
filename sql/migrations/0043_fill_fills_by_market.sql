-- Gives the projection of 0042 to what is stored already, in the background: 27M rows in 25 s. Until then a
-- part without it is read as before.
-- Serves: what the projection serves, see 0042. ORDER BY, Rows: and Retention: as there.
ALTER TABLE bookings
MATERIALIZE PROJECTION fills_by_market
