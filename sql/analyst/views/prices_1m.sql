-- Candles of outcome 0 by market and minute. Fast by `condition_id` (index condition_text); a filter by `minute`
-- reads one column. A minute without a match has no row.
CREATE OR REPLACE VIEW analyst.prices_1m
(
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    minute DateTime('UTC') COMMENT 'start of the minute, UTC',
    open Decimal(38, 6) COMMENT 'price of outcome 0 in the first match, rounded to nearest',
    high Decimal(38, 6) COMMENT 'highest price of outcome 0, less than a micro-USD away',
    low Decimal(38, 6) COMMENT 'lowest price of outcome 0, rounded down',
    close Decimal(38, 6) COMMENT 'price of outcome 0 in the last match',
    vwap Decimal(38, 6) COMMENT 'average price of outcome 0, weighted by shares, rounded to nearest',
    volume Decimal(38, 6) COMMENT 'USDC that the takers paid or received: each match once',
    shares Decimal(38, 6) COMMENT 'shares of these matches',
    matches UInt64 COMMENT 'number of matches'
)
SQL SECURITY DEFINER
COMMENT 'open, high, low, close and volume of each market and minute'
AS
SELECT
    concat('0x', lower(hex(condition_bytes))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(condition_bytes)), 0) AS market_id,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(condition_bytes))) AS category,
    dictGetOrDefault('{database}.market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(condition_bytes)), []) AS tags,
    dictGetOrDefault('{database}.market_dictionary', 'series_slug',
        tuple(reinterpretAsUInt256(condition_bytes)), '') AS series,
    minute,
    toDecimal128(least(1, greatest(0, round(toDecimal128(first_match.usdc, 12) / first_match.shares, 6))), 6) AS open,
    greatest(toDecimal128(highest, 6) / 1000000, open, close) AS high,
    toDecimal128(lowest, 6) / 1000000 AS low,
    toDecimal128(least(1, greatest(0, round(toDecimal128(last_match.usdc, 12) / last_match.shares, 6))), 6) AS close,
    toDecimal128(least(1, greatest(0, round(toDecimal128(usdc_sum, 12) / shares_sum, 6))), 6) AS vwap,
    toDecimal128(volume_sum, 6) / 1000000 AS volume,
    toDecimal128(shares_sum, 6) / 1000000 AS shares,
    match_count AS matches
FROM
(
    SELECT
        m.condition_id AS condition_bytes,
        m.minute AS minute,
        min(m.open) AS first_match,
        max(m.high) AS highest,
        min(m.low) AS lowest,
        max(m.close) AS last_match,
        sum(m.usdc) AS usdc_sum,
        sum(m.volume) AS volume_sum,
        sum(m.shares) AS shares_sum,
        sum(m.matches) AS match_count
    FROM {database}.market_minutes AS m
    GROUP BY condition_bytes, minute
)
