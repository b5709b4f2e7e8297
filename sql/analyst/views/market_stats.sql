-- Every market with a match: mark, change, volume, traders and open interest, as of its last refresh (`refreshed_at`).
CREATE OR REPLACE VIEW analyst.market_stats
(
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    mark Decimal(38, 6) COMMENT 'price of outcome 0 in the newest match with shares, or its payout once resolved',
    mark_source String COMMENT 'last_match or resolution; none if no match had shares',
    marked_at Nullable(DateTime('UTC')) COMMENT 'time of that match or resolution, UTC; NULL for none',
    change_24h Decimal(38, 6) COMMENT 'price of outcome 0 now less 24 hours before',
    volume_24h Decimal(38, 6) COMMENT 'USDC of the matches of the last 24 hours, each once',
    volume Decimal(38, 6) COMMENT 'USDC of all matches, each once',
    matches UInt64 COMMENT 'number of matches',
    traders UInt32 COMMENT 'traders with a fill or a settlement',
    open_interest Decimal(38, 6) COMMENT 'shares held of outcome 0, which equal those of outcome 1',
    first_match_at DateTime('UTC') COMMENT 'first match, UTC',
    last_match_at Nullable(DateTime('UTC')) COMMENT 'newest match with shares, UTC; NULL if none had shares',
    end_at Nullable(DateTime('UTC')) COMMENT 'planned end, UTC; NULL if unknown',
    resolved_at Nullable(DateTime('UTC')) COMMENT 'time of the resolution''s block, UTC; NULL before it',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when these figures were computed, UTC'
)
SQL SECURITY DEFINER
COMMENT 'mark, volume, traders and open interest of each market'
AS
SELECT
    concat('0x', lower(hex(s.condition_id))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(s.condition_id)), 0) AS market_id,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(s.condition_id))) AS category,
    dictGetOrDefault('{database}.market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(s.condition_id)), []) AS tags,
    dictGetOrDefault('{database}.market_dictionary', 'series_slug',
        tuple(reinterpretAsUInt256(s.condition_id)), '') AS series,
    toDecimal128(if(s.mark_shares = 0, 0,
        least(1, greatest(0, round(toDecimal128(s.mark_usdc, 12) / greatest(s.mark_shares, 1), 6)))), 6) AS mark,
    multiIf(s.resolved_at > 0, 'resolution', s.mark_shares > 0, 'last_match', 'none') AS mark_source,
    nullIf(s.marked_at, toDateTime(0, 'UTC')) AS marked_at,
    toDecimal128(s.change_24h, 6) / 1000000 AS change_24h,
    toDecimal128(s.volume_24h, 6) / 1000000 AS volume_24h,
    toDecimal128(s.volume, 6) / 1000000 AS volume,
    s.matches AS matches,
    s.traders AS traders,
    toDecimal128(s.open_interest, 6) / 1000000 AS open_interest,
    s.first_match_at AS first_match_at,
    nullIf(newest.last_time, toDateTime(0, 'UTC')) AS last_match_at,
    nullIf(s.end_at, toDateTime(0, 'UTC')) AS end_at,
    nullIf(s.resolved_at, toDateTime(0, 'UTC')) AS resolved_at,
    s.refreshed_at AS refreshed_at
FROM {database}.market_stats AS s
LEFT JOIN
(
    SELECT m.condition_id AS marked_condition, max(m.last).time AS last_time
    FROM {database}.market_marks AS m
    GROUP BY marked_condition
) AS newest ON newest.marked_condition = s.condition_id
