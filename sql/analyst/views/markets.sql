-- Listed markets with their resolution. A market that trades before its listing is known has no row.
-- The winner is the outcome with the greater payout, or 50-50 if both are paid the same.
CREATE OR REPLACE VIEW analyst.markets
(
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market',
    question String COMMENT 'what the market decides',
    slug String COMMENT 'name of the market in URLs',
    event_slug String COMMENT 'name of its event in URLs',
    event_title String COMMENT 'title of its event',
    series String COMMENT 'series of recurring events, or empty',
    category LowCardinality(String) COMMENT 'main tag of the market: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    tags Array(String) COMMENT 'tags of the market',
    outcomes Array(String) COMMENT 'two labels; outcome_index 0 is outcomes[1]',
    token_ids Array(UInt256) COMMENT 'two ERC-1155 ids, in the order of outcomes',
    neg_risk Bool COMMENT 'one of the exclusive markets of a negative-risk event',
    market_type String COMMENT 'moneyline, spreads, totals …; empty outside sports',
    group_item_title String COMMENT 'label of the market inside its event, or empty',
    start_at Nullable(DateTime64(3, 'UTC')) COMMENT 'start, UTC; NULL if unknown',
    end_at Nullable(DateTime64(3, 'UTC')) COMMENT 'planned end, UTC; NULL if unknown',
    is_resolved Bool COMMENT 'true once the chain has the payouts',
    resolved_at Nullable(DateTime('UTC')) COMMENT 'time of the resolution''s block, UTC; NULL before it',
    winning_outcome String COMMENT 'label of the winner, 50-50 for a split, empty before the resolution',
    winning_outcome_index Nullable(UInt8) COMMENT 'the winner, 0 or 1; NULL for a split and before the resolution; use it instead of the label, which both outcomes may share'
)
SQL SECURITY DEFINER
COMMENT 'listed markets with tags, outcomes and resolution'
AS
SELECT
    concat('0x', lower(hex(listing_condition))) AS condition_id,
    listing_market_id AS market_id,
    listing_question AS question,
    listing_slug AS slug,
    listing_event_slug AS event_slug,
    listing_event_title AS event_title,
    listing_series_slug AS series,
    dictGet('{database}.market_dictionary', 'category',
        tuple(reinterpretAsUInt256(listing_condition))) AS category,
    listing_tags AS tags,
    listing_outcomes AS outcomes,
    listing_token_ids AS token_ids,
    listing_neg_risk AS neg_risk,
    listing_sports_market_type AS market_type,
    listing_group_item_title AS group_item_title,
    parseDateTime64BestEffortOrNull(listing_start_date, 3, 'UTC') AS start_at,
    parseDateTime64BestEffortOrNull(listing_end_date, 3, 'UTC') AS end_at,
    toBool(resolution_time > 0) AS is_resolved,
    nullIf(resolution_time, toDateTime(0, 'UTC')) AS resolved_at,
    multiIf(
        resolution_time = 0, '',
        resolution_payout_0 = resolution_payout_1, '50-50',
        resolution_payout_0 > resolution_payout_1, listing_outcomes[1],
        listing_outcomes[2]) AS winning_outcome,
    if(resolution_payout_0 = resolution_payout_1, NULL, toUInt8(resolution_payout_0 < resolution_payout_1)) AS winning_outcome_index
FROM
(
    SELECT
        condition_id AS listing_condition,
        market_id AS listing_market_id,
        question AS listing_question,
        slug AS listing_slug,
        event_slug AS listing_event_slug,
        event_title AS listing_event_title,
        series_slug AS listing_series_slug,
        tags AS listing_tags,
        outcomes AS listing_outcomes,
        token_ids AS listing_token_ids,
        neg_risk AS listing_neg_risk,
        sports_market_type AS listing_sports_market_type,
        group_item_title AS listing_group_item_title,
        start_date AS listing_start_date,
        end_date AS listing_end_date
    FROM {database}.markets FINAL
) AS listing
LEFT JOIN
(
    SELECT
        condition_id AS resolution_condition,
        resolved_at AS resolution_time,
        payout_0 AS resolution_payout_0,
        payout_1 AS resolution_payout_1
    FROM {database}.resolutions FINAL
) AS resolution ON resolution_condition = listing_condition
