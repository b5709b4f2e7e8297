-- Shares that moved without a fill. Fast by `time` (monthly partitions).
CREATE OR REPLACE VIEW analyst.movements
(
    time DateTime('UTC') COMMENT 'time of the block, UTC',
    block_number UInt64 COMMENT 'block of the log',
    log_index UInt32 COMMENT 'log of the first transfer, or that closes the match during which it moved',
    part UInt32 COMMENT 'number among the movements of that log, from 0',
    tx_hash String COMMENT 'transaction of the log, 0x-hex',
    reason Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7)
        COMMENT 'why they moved; never none',
    is_opening Bool COMMENT 'shares that the wallet must have had before any block that was read',
    trader String COMMENT 'wallet, 0x-hex in lower case',
    counterparty String COMMENT 'the other wallet of a transfer, or the contract of an unexplained movement, 0x-hex; else empty',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    outcome_index UInt8 COMMENT 'outcome of the shares, 0 or 1',
    shares Decimal(38, 6) COMMENT 'outcome shares that came, or left if below 0',
    usdc Decimal(38, 6) COMMENT 'USDC paid for a split, merge, redemption or conversion, or what shares of a transfer had cost, fees included; of both outcomes in the first row',
    is_mark Bool COMMENT 'whether usdc is a value at the mark of the market',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised, net of fees'
)
SQL SECURITY DEFINER
COMMENT 'shares that moved without a fill: splits, merges, redemptions, conversions, transfers'
AS
SELECT
    block_time AS time,
    block_number,
    log_index,
    part,
    concat('0x', lower(hex(m.tx_hash))) AS tx_hash,
    reason,
    kind = 'opening' AS is_opening,
    concat('0x', lower(hex(m.trader))) AS trader,
    if(m.counterparty = toFixedString('', 20), '', concat('0x', lower(hex(m.counterparty)))) AS counterparty,
    concat('0x', lower(hex(m.condition_id))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(m.condition_id)), 0) AS market_id,
    outcome_index,
    toDecimal128(if(side = 'BUY', m.shares, -m.shares), 6) / 1000000 AS shares,
    toDecimal128(m.usdc, 6) / 1000000 AS usdc,
    is_mark,
    toDecimal128(m.realised_pnl, 6) / 1000000 AS realised_pnl
FROM {database}.movements AS m
