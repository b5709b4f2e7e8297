-- Sums per trader, day and category: for returns by day. Fast by `trader` (index trader_text) and by `day`.
-- Days without a fill or settlement have no row. A join instead of dictGet, because a condition on `category` then
-- filters the markets before the hours are looked up (4.7M rows: 1.0 s of CPU instead of 1.45).
CREATE OR REPLACE VIEW analyst.trader_days
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    day Date COMMENT 'day, UTC',
    category LowCardinality(String) COMMENT 'main tag of the markets, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised on the day, net of fees',
    realised_cost Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    fee Decimal(38, 6) COMMENT 'USDC of fees paid',
    maker_volume Decimal(38, 6) COMMENT 'USDC of fills as maker',
    taker_volume Decimal(38, 6) COMMENT 'USDC of fills as taker',
    fills UInt64 COMMENT 'fills, as maker and as taker',
    settlements UInt64 COMMENT 'open positions that a resolution paid out'
)
SQL SECURITY DEFINER
COMMENT 'sums per trader, day and category'
AS
SELECT
    concat('0x', lower(hex(trader_bytes))) AS trader,
    day,
    category,
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
        toDate(h.hour) AS day,
        if(m.market_category = '', 'other', m.market_category) AS category,
        sum(h.realised_pnl) AS pnl_sum,
        sum(h.realised_cost) AS cost_sum,
        sum(h.fee) AS fee_sum,
        sum(h.maker_volume) AS maker_sum,
        sum(h.taker_volume) AS taker_sum,
        sum(h.fills) AS fill_count,
        sum(h.settlements) AS settlement_count
    FROM {database}.trader_hours AS h
    LEFT JOIN
    (
        SELECT reinterpretAsFixedString(condition) AS market_condition, category AS market_category
        FROM {database}.market_dictionary
    ) AS m ON m.market_condition = h.condition_id
    GROUP BY trader_bytes, day, category
)
