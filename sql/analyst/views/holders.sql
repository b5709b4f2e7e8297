-- Open positions as of the newest final block, with their value at the mark of their market. Fast by `condition_id`
-- (index condition_text); `positions` has the same by trader.
CREATE OR REPLACE VIEW analyst.holders
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    category LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    question String COMMENT 'what the market decides; empty while its listing is unknown',
    outcome_index UInt8 COMMENT 'outcome held, 0 or 1',
    outcome String COMMENT 'label of that outcome; empty while the listing is unknown',
    shares Decimal(38, 6) COMMENT 'outcome shares held; each pays 1 USDC if the outcome wins',
    cost_basis Decimal(38, 6) COMMENT 'USDC paid for these shares, without fees',
    open_fees Decimal(38, 6) COMMENT 'USDC of fees paid on these shares, realised when they are closed',
    average_price Decimal(38, 6) COMMENT 'cost basis a share, rounded to nearest',
    mark Decimal(38, 6) COMMENT 'price of the outcome in the newest match of the market, or its payout once resolved',
    mark_source String COMMENT 'last_match or resolution; none while the first match is being stored',
    marked_at Nullable(DateTime('UTC')) COMMENT 'time of that match or resolution, UTC; NULL for none',
    value Decimal(38, 6) COMMENT 'USDC that the shares are worth at the mark, rounded down',
    unrealised_pnl Decimal(38, 6) COMMENT 'value less cost_basis and open_fees'
)
SQL SECURITY DEFINER
COMMENT 'open positions by market, with their value at the mark'
AS
SELECT
    concat('0x', lower(hex(position_trader))) AS trader,
    concat('0x', lower(hex(position_condition))) AS condition_id,
    listing_market_id AS market_id,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(position_condition))) AS category,
    listing_question AS question,
    position_outcome AS outcome_index,
    listing_outcomes[position_outcome + 1] AS outcome,
    toDecimal128(position_shares, 6) / 1000000 AS shares,
    toDecimal128(position_cost, 6) / 1000000 AS cost_basis,
    toDecimal128(position_fees, 6) / 1000000 AS open_fees,
    toDecimal128(round(toDecimal128(position_cost, 12) / position_shares, 6), 6) AS average_price,
    multiIf(
        mark_whole = 0, toDecimal128(0, 6),
        position_outcome = 0, mark_price,
        1 - mark_price) AS mark,
    multiIf(mark_version = 0, 'none', is_resolution, 'resolution', 'last_match') AS mark_source,
    nullIf(mark_time, toDateTime(0, 'UTC')) AS marked_at,
    toDecimal128(if(mark_version = 0, position_cost + position_fees, toInt64(position_worth)), 6) / 1000000 AS value,
    value - cost_basis - open_fees AS unrealised_pnl
FROM
(
    SELECT
        *,
        toDecimal128(least(1, greatest(0, round(toDecimal128(mark_usdc, 12) / greatest(mark_whole, 1), 6))), 6) AS mark_price,
        toInt128(position_shares) * if(position_outcome = 0, mark_usdc, mark_whole - mark_usdc) AS product,
        intDivOrZero(product, mark_whole) - (product < 0 AND moduloOrZero(product, mark_whole) != 0) AS position_worth
    FROM
    (
        SELECT
            trader AS position_trader,
            condition_id AS position_condition,
            max(position) AS newest_position,
            newest_position.outcome AS position_outcome,
            newest_position.shares AS position_shares,
            newest_position.cost_basis AS position_cost,
            newest_position.open_fees AS position_fees
        FROM {database}.market_traders
        GROUP BY position_trader, position_condition
        HAVING position_shares > 0
    ) AS held
    LEFT JOIN
    (
        SELECT
            mark_condition,
            max(candidate) AS newest,
            newest.1 AS is_resolution,
            newest.2 AS mark_version,
            newest.3 AS mark_usdc,
            newest.4 AS mark_whole,
            newest.5 AS mark_time
        FROM
        (
            SELECT
                m.condition_id AS mark_condition,
                (false, last.version, last.usdc, last.shares, last.time) AS candidate
            FROM {database}.market_marks AS m
            WHERE last.version > 0
            UNION ALL
            SELECT
                r.condition_id AS mark_condition,
                (true, r.block_number, toInt64(r.payout_0), toInt64(r.payout_0 + r.payout_1), r.resolved_at) AS candidate
            FROM {database}.resolutions AS r
        )
        GROUP BY mark_condition
    ) AS marks ON mark_condition = position_condition
) AS valued
LEFT JOIN
(
    SELECT
        condition_id AS listing_condition,
        market_id AS listing_market_id,
        question AS listing_question,
        outcomes AS listing_outcomes
    FROM {database}.markets FINAL
) AS listing ON listing_condition = position_condition
