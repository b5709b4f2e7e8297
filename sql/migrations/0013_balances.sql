-- The newest pUSD balance of each trader, from METADATA. Serves: pusd_balance of the v2 profile.
-- The column stored_at lets the api's cache poll for new rows. ORDER BY trader: point reads. Rows: one per trader. Retention: unlimited.
CREATE TABLE IF NOT EXISTS balances
(
    trader FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    balance Int64 COMMENT 'micro-pUSD',
    block_number UInt64 COMMENT 'block at whose end the balance was read',
    stored_at DateTime('UTC') DEFAULT now() COMMENT 'when it was stored, UTC; caches poll it for new rows',
    trader_hex String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(block_number)
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'newest pUSD balance of each trader';
