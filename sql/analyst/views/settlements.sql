-- Every open position that the resolution of its market paid out. Fast by `trader` (index trader_text)
-- and by `time` (monthly partitions).
CREATE OR REPLACE VIEW analyst.settlements
(
    time DateTime('UTC') COMMENT 'time of the resolution''s block, UTC',
    block_number UInt64 COMMENT 'block of the resolution',
    log_index UInt32 COMMENT 'log of the resolution inside its block',
    tx_hash String COMMENT 'transaction of the resolution, 0x-hex',
    trader String COMMENT 'wallet that held the position, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    outcome_index UInt8 COMMENT 'outcome held, 0 or 1',
    shares Decimal(38, 6) COMMENT 'outcome shares held',
    payout Decimal(38, 6) COMMENT 'USDC that the shares were paid',
    realised_pnl Decimal(38, 6) COMMENT 'USDC: payout less what the shares and their fees had cost',
    realised_cost Decimal(38, 6) COMMENT 'USDC that the shares had cost, the denominator of ROI'
)
SQL SECURITY DEFINER
COMMENT 'every open position that a resolution paid out'
AS
SELECT
    block_time AS time,
    block_number,
    log_index,
    concat('0x', lower(hex(b.tx_hash))) AS tx_hash,
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
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS payout,
    toDecimal128(b.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(b.realised_cost, 6) / 1000000 AS realised_cost
FROM {database}.bookings AS b
WHERE kind = 'settlement'
