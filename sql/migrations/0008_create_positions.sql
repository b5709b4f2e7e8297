-- The newest position of each trader in each market; shares = 0 once it is closed.
-- Serves: reload of open positions when the projector starts, open interest of a market.
-- ORDER BY condition_id first: a projector reloads the markets of its partitions.
-- Rows: one per trader and market. Retention: unlimited.
-- condition_text: the view's 0x-text sorts as the bytes do, so its minima and maxima prune like the
-- key.
CREATE TABLE IF NOT EXISTS positions
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    partition UInt8 COMMENT 'LEDGER partition of the market',
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
COMMENT 'newest position of each trader in each market; shares = 0 once closed'
