-- Open positions as of the newest final block. Fast by `condition_id` (index condition_text); a filter by
-- `trader` scans one column.
CREATE OR REPLACE VIEW analyst.positions
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    question String COMMENT 'what the market decides; empty while its listing is unknown',
    outcome_index UInt8 COMMENT 'outcome held, 0 or 1',
    outcome String COMMENT 'label of that outcome; empty while the listing is unknown',
    shares Decimal(38, 6) COMMENT 'outcome shares held; each pays 1 USDC if the outcome wins',
    cost_basis Decimal(38, 6) COMMENT 'USDC paid for these shares, without fees',
    open_fees Decimal(38, 6) COMMENT 'USDC of fees paid on these shares, realised when they are closed',
    average_price Decimal(38, 6) COMMENT 'cost basis a share, rounded down'
)
SQL SECURITY DEFINER
COMMENT 'open positions: one row per trader and market'
AS
SELECT
    concat('0x', lower(hex(position_trader))) AS trader,
    concat('0x', lower(hex(position_condition))) AS condition_id,
    listing_market_id AS market_id,
    listing_question AS question,
    position_outcome AS outcome_index,
    listing_outcomes[position_outcome + 1] AS outcome,
    toDecimal128(position_shares, 6) / 1000000 AS shares,
    toDecimal128(position_cost, 6) / 1000000 AS cost_basis,
    toDecimal128(position_fees, 6) / 1000000 AS open_fees,
    toDecimal128(position_cost, 6) / greatest(position_shares, 1) AS average_price
FROM
(
    SELECT
        trader AS position_trader,
        condition_id AS position_condition,
        outcome AS position_outcome,
        shares AS position_shares,
        cost_basis AS position_cost,
        open_fees AS position_fees
    FROM {database}.positions FINAL
    WHERE shares > 0
) AS held
LEFT JOIN
(
    SELECT
        condition_id AS listing_condition,
        market_id AS listing_market_id,
        question AS listing_question,
        outcomes AS listing_outcomes
    FROM {database}.markets FINAL
) AS listing ON listing_condition = position_condition
