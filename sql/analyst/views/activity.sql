-- Every fill and settlement in the order of time, without hashes. Fast by `time`: a period reads only its own rows.
CREATE OR REPLACE VIEW analyst.activity
(
    time DateTime('UTC') COMMENT 'time of the block, UTC',
    block_number UInt64 COMMENT 'block of the log',
    log_index UInt32 COMMENT 'log of the fill or of the resolution inside its block',
    kind Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3)
        COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    trader String COMMENT 'wallet that owns the fill or position, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    outcome_index UInt8 COMMENT 'outcome traded, or held at the settlement: 0 or 1',
    is_taker Bool COMMENT 'true for the taker of a match, false for its makers and for settlements',
    shares Decimal(38, 6) COMMENT 'outcome shares',
    usdc Decimal(38, 6) COMMENT 'USDC paid or received, without fee; payout of a settlement',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised, net of fees',
    realised_cost Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    held_outcome_index UInt8 COMMENT 'outcome held in the market afterwards',
    held_shares Decimal(38, 6) COMMENT 'outcome shares held afterwards'
)
SQL SECURITY DEFINER
COMMENT 'every fill and settlement, by time'
AS
SELECT
    block_time AS time,
    block_number,
    log_index,
    kind,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(b.condition_id))) AS category,
    dictGetOrDefault('{database}.market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    dictGetOrDefault('{database}.market_dictionary', 'series_slug',
        tuple(reinterpretAsUInt256(b.condition_id)), '') AS series,
    outcome_index,
    is_taker,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS usdc,
    toDecimal128(b.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(b.realised_cost, 6) / 1000000 AS realised_cost,
    position_outcome AS held_outcome_index,
    toDecimal128(b.position_shares, 6) / 1000000 AS held_shares
FROM {database}.bookings_by_time AS b
