-- The newest public profile of each trader. Serves: profile objects of every endpoint.
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
    weighted_volume_usd Float64 COMMENT '30 days, USD, as the public profile gave it',
    has_weighted_volume Bool COMMENT 'false until the public profile gave one',
    sequence UInt64 COMMENT 'LEDGER sequence of the profile',
    trader_hex String EPHEMERAL COMMENT 'takes in hex text, is not stored'
)
ENGINE = ReplacingMergeTree(sequence)
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'newest public profile of each trader'
