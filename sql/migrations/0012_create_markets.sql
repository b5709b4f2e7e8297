-- The newest metadata of each market. Serves: market objects of every endpoint, by condition id or
-- (market_id index) by number. ORDER BY condition_id: the key that chain facts carry.
-- Rows: one per market. Retention: unlimited.
CREATE TABLE IF NOT EXISTS markets
(
    condition_id FixedString(32) DEFAULT unhex(condition_id_hex),
    market_id UInt64 COMMENT 'number of the market; 0 while the catalogue does not know it',
    question String,
    slug String,
    start_date String COMMENT 'ISO 8601 UTC, or empty',
    end_date String COMMENT 'ISO 8601 UTC, or empty',
    icon String,
    neg_risk Bool,
    event_slug String,
    event_title String,
    event_icon String,
    series_slug String,
    tags Array(String),
    outcomes Array(String) COMMENT 'two labels, by outcome index',
    token_ids Array(UInt256) COMMENT 'two ERC-1155 ids, by outcome index',
    group_item_title String,
    sports_market_type String,
    sequence UInt64 COMMENT 'LEDGER sequence of the listing',
    condition_id_hex String EPHEMERAL,
    INDEX market_id_index market_id TYPE bloom_filter GRANULARITY 1,
    INDEX slug_index slug TYPE bloom_filter GRANULARITY 1
)
ENGINE = ReplacingMergeTree(sequence)
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 1000
