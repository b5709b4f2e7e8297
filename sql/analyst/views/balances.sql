-- Outcome shares in each wallet as of the newest final block, pairs and shares that were not redeemed included. Fast by `trader`
-- (index trader_text).
CREATE OR REPLACE VIEW analyst.balances
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    balance_0 Decimal(38, 6) COMMENT 'shares of outcome 0, at least: those from before the first block are not known',
    balance_1 Decimal(38, 6) COMMENT 'the same of outcome 1',
    pairs Decimal(38, 6) COMMENT 'shares of both outcomes: a pair is worth 1 USDC'
)
SQL SECURITY DEFINER
COMMENT 'outcome shares in each wallet, by market'
AS
SELECT
    concat('0x', lower(hex(holder))) AS trader,
    concat('0x', lower(hex(condition))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(condition)), 0) AS market_id,
    toDecimal128(zero, 6) / 1000000 AS balance_0,
    toDecimal128(one, 6) / 1000000 AS balance_1,
    least(balance_0, balance_1) AS pairs
FROM
(
    SELECT
        t.trader AS holder,
        t.condition_id AS condition,
        max(t.position) AS held,
        sum(t.balance_0) AS seen_0,
        sum(t.balance_1) AS seen_1,
        if(held.shares = 0, 0, if(held.outcome = 0, held.shares, -held.shares) - (seen_0 - seen_1)) AS unread,
        greatest(0, seen_0 + greatest(0, unread)) AS zero,
        greatest(0, seen_1 + greatest(0, -unread)) AS one
    FROM {database}.trader_markets AS t
    GROUP BY holder, condition
    HAVING zero > 0 OR one > 0
)
