-- Feeds positions from every insert into bookings. Serves: positions.
-- ORDER BY, Rows: and Retention: see there.
CREATE MATERIALIZED VIEW IF NOT EXISTS positions_mv TO positions
COMMENT 'feeds positions'
AS
SELECT
    condition_id,
    trader,
    partition,
    position_outcome AS outcome,
    position_shares AS shares,
    position_cost AS cost_basis,
    position_fees AS open_fees,
    (block_number * 1048576 + log_index) * 2 + (kind = 'settlement') AS version
FROM bookings
