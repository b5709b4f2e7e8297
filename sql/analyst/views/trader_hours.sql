-- Sums per trader, hour and market: the smallest table with time, tags and volumes, so the first choice for
-- questions by hour or longer. Fast by `trader` (index trader_text) and by `hour`.
-- GROUP BY instead of FINAL, which reads more than the index selects (4M rows: 15 ms instead of 1.4 s).
CREATE OR REPLACE VIEW analyst.trader_hours
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    hour DateTime('UTC') COMMENT 'start of the hour, UTC',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised in the hour, net of fees',
    realised_cost Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    fee Decimal(38, 6) COMMENT 'USDC of fees paid',
    maker_volume Decimal(38, 6) COMMENT 'USDC of fills as maker',
    taker_volume Decimal(38, 6) COMMENT 'USDC of fills as taker',
    fills UInt64 COMMENT 'fills, as maker and as taker',
    settlements UInt64 COMMENT 'open positions that a resolution paid out'
)
SQL SECURITY DEFINER
COMMENT 'sums per trader, hour and market'
AS
SELECT
    concat('0x', lower(hex(trader_bytes))) AS trader,
    hour,
    concat('0x', lower(hex(condition_bytes))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(condition_bytes)), 0) AS market_id,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(condition_bytes))) AS category,
    dictGetOrDefault('{database}.market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(condition_bytes)), []) AS tags,
    dictGetOrDefault('{database}.market_dictionary', 'series_slug',
        tuple(reinterpretAsUInt256(condition_bytes)), '') AS series,
    toDecimal128(pnl_sum, 6) / 1000000 AS realised_pnl,
    toDecimal128(cost_sum, 6) / 1000000 AS realised_cost,
    toDecimal128(fee_sum, 6) / 1000000 AS fee,
    toDecimal128(maker_sum, 6) / 1000000 AS maker_volume,
    toDecimal128(taker_sum, 6) / 1000000 AS taker_volume,
    fill_count AS fills,
    settlement_count AS settlements
FROM
(
    SELECT
        h.trader AS trader_bytes,
        h.hour AS hour,
        h.condition_id AS condition_bytes,
        sum(h.realised_pnl) AS pnl_sum,
        sum(h.realised_cost) AS cost_sum,
        sum(h.fee) AS fee_sum,
        sum(h.maker_volume) AS maker_sum,
        sum(h.taker_volume) AS taker_sum,
        sum(h.fills) AS fill_count,
        sum(h.settlements) AS settlement_count
    FROM {database}.trader_hours AS h
    GROUP BY trader_bytes, hour, condition_bytes
)
