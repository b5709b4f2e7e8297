-- Every match once, with the fill of its taker. Fast by `condition_id` (index condition_text); a filter by `time`
-- reads one column. Without FINAL: each row is inserted once.
CREATE OR REPLACE VIEW analyst.trades
(
    time DateTime('UTC') COMMENT 'time of the block, UTC',
    block_number UInt64 COMMENT 'block of the match',
    log_index UInt32 COMMENT 'log of the taker''s fill inside its block',
    tx_hash String COMMENT 'transaction, 0x-hex',
    order_hash String COMMENT 'order of the taker, 0x-hex',
    trader String COMMENT 'wallet of the taker, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market, as of now',
    series String COMMENT 'series of the market, or empty',
    outcome_index UInt8 COMMENT 'outcome that the taker traded: 0 or 1, see markets.outcomes[outcome_index + 1]',
    side Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY or SELL of that outcome',
    shares Decimal(38, 6) COMMENT 'outcome shares',
    usdc Decimal(38, 6) COMMENT 'USDC that the taker paid or received, without fee',
    price Decimal(38, 6) COMMENT 'USDC a share, rounded to nearest; 0 for no shares',
    price_yes Nullable(Decimal(38, 6)) COMMENT 'price of outcome 0 in this match, rounded to nearest: for outcome 1, 1 less its price; NULL for no shares',
    signed_shares Decimal(38, 6) COMMENT 'shares of outcome 0 that the taker bought, or sold if negative; to buy outcome 1 is to sell outcome 0',
    fee Decimal(38, 6) COMMENT 'USDC of fee that the taker paid'
)
SQL SECURITY DEFINER
COMMENT 'every match, once: the fill of its taker'
AS
SELECT
    block_time AS time,
    block_number,
    log_index,
    concat('0x', lower(hex(b.tx_hash))) AS tx_hash,
    concat('0x', lower(hex(b.order_hash))) AS order_hash,
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
    side,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS usdc,
    toDecimal128(if(b.shares = 0, 0, round(toDecimal128(b.usdc, 12) / greatest(b.shares, 1), 6)), 6) AS price,
    if(b.shares = 0, NULL, toDecimal128(least(1, greatest(0,
        round(toDecimal128(if(outcome_index = 0, b.usdc, b.shares - b.usdc), 12) / greatest(b.shares, 1), 6))), 6)) AS price_yes,
    toDecimal128(if((side = 'BUY') = (outcome_index = 0), b.shares, -b.shares), 6) / 1000000 AS signed_shares,
    toDecimal128(b.fee, 6) / 1000000 AS fee
FROM {database}.matches AS b
