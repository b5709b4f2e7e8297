-- The newest public profile of each trader, from METADATA. Serves: profile objects of every endpoint.
-- ORDER BY trader: point reads. Rows: one per trader with a public profile. Retention: unlimited.
CREATE TABLE IF NOT EXISTS traders
(
    trader FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    name String COMMENT 'display name',
    profile_image String COMMENT 'URL of an image, or empty',
    x_username String COMMENT 'account on X, or empty',
    profile_created_at String COMMENT 'ISO 8601 UTC, or empty',
    taker_tier UInt8 COMMENT '0 to 6',
    taker_tier_name String COMMENT 'name of the tier',
    weighted_volume_usd Float64 COMMENT '30-day weighted volume in USD, from the public profile',
    has_weighted_volume Bool COMMENT 'false until the public profile had one',
    observed_at DateTime64(3, 'UTC') COMMENT 'when ingest observed it, UTC; the newest row is valid',
    stored_at DateTime('UTC') DEFAULT now() COMMENT 'when it was stored, UTC; caches poll it for new rows',
    trader_hex String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(observed_at)
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 4096, min_bytes_for_wide_part = 104857600
COMMENT 'newest public profile of each trader';
