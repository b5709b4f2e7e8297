-- The newest position of each trader in each market; shares = 0 once it is closed. Filled by every insert
-- into bookings. Serves: reload of open positions when the projector starts, open interest of a market.
-- ORDER BY condition_id first: a projector reloads the markets of its partitions.
-- Rows: one per trader and market. Retention: unlimited.
-- The condition_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS positions
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    partition UInt8 COMMENT 'partition of the market',
    outcome UInt8 COMMENT 'outcome held, 0 or 1',
    shares Int64 COMMENT 'micro-shares',
    cost_basis Int64 COMMENT 'micro-USDC paid for the shares still held, without fees',
    open_fees Int64 COMMENT 'micro-USDC of fees paid on the shares still held',
    version UInt64 COMMENT 'chain order: (block · 2^20 + log) · 2 + (1 for a settlement)',
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (condition_id, trader)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'newest position of each trader in each market; shares = 0 once closed';

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
FROM bookings;
