-- Written by `npm run schema` from the engine's SHOW CREATE. Do not edit: change sql/migrations or
-- sql/analyst/views and run it again.

CREATE VIEW analyst.activity
(
    `time` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the log',
    `log_index` UInt32 COMMENT 'log of the fill or of the resolution inside its block',
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3) COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    `trader` String COMMENT 'wallet that owns the fill or position, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `outcome_index` UInt8 COMMENT 'outcome traded, or held at the settlement: 0 or 1',
    `is_taker` Bool COMMENT 'true for the taker of a match, false for its makers and for settlements',
    `shares` Decimal(38, 6) COMMENT 'outcome shares',
    `usdc` Decimal(38, 6) COMMENT 'USDC paid or received, without fee; payout of a settlement',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised, net of fees',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    `held_outcome_index` UInt8 COMMENT 'outcome held in the market afterwards',
    `held_shares` Decimal(38, 6) COMMENT 'outcome shares held afterwards'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'every fill and settlement, by time'
AS SELECT
    block_time AS time,
    block_number,
    log_index,
    kind,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(b.condition_id))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(b.condition_id)), '') AS series,
    outcome_index,
    is_taker,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS usdc,
    toDecimal128(b.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(b.realised_cost, 6) / 1000000 AS realised_cost,
    position_outcome AS held_outcome_index,
    toDecimal128(b.position_shares, 6) / 1000000 AS held_shares
FROM fillstream.bookings_by_time AS b;

CREATE VIEW analyst.balances
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `balance_0` Decimal(38, 6) COMMENT 'shares of outcome 0, at least: those from before the first block are not known',
    `balance_1` Decimal(38, 6) COMMENT 'the same of outcome 1',
    `pairs` Decimal(38, 6) COMMENT 'shares of both outcomes: a pair is worth 1 USDC'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'outcome shares in each wallet, by market'
AS SELECT
    concat('0x', lower(hex(holder))) AS trader,
    concat('0x', lower(hex(condition))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(condition)), 0) AS market_id,
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
    FROM fillstream.trader_markets AS t
    GROUP BY
        holder,
        condition
    HAVING (zero > 0) OR (one > 0)
);

CREATE VIEW analyst.fills
(
    `time` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the fill',
    `log_index` UInt32 COMMENT 'log of the fill inside its block',
    `tx_hash` String COMMENT 'transaction, 0x-hex',
    `order_hash` String COMMENT 'order that was filled, 0x-hex',
    `trader` String COMMENT 'wallet that owns the fill, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `outcome_index` UInt8 COMMENT 'outcome traded: 0 or 1, see markets.outcomes[outcome_index + 1]',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY or SELL of that outcome',
    `is_taker` Bool COMMENT 'true for the taker of the match, false for its makers',
    `shares` Decimal(38, 6) COMMENT 'outcome shares',
    `usdc` Decimal(38, 6) COMMENT 'USDC paid or received, without fee',
    `price` Decimal(38, 6) COMMENT 'USDC a share, rounded to nearest; 0 for no shares',
    `price_yes` Nullable(Decimal(38, 6)) COMMENT 'price of outcome 0 in this fill, rounded to nearest: for outcome 1, 1 less its price; NULL for no shares',
    `signed_shares` Decimal(38, 6) COMMENT 'shares of outcome 0 bought, or sold if negative; to buy outcome 1 is to sell outcome 0',
    `fee` Decimal(38, 6) COMMENT 'USDC of fee paid',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised by what the fill closed, net of fees',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'every fill of every trader'
AS SELECT
    block_time AS time,
    block_number,
    log_index,
    concat('0x', lower(hex(b.tx_hash))) AS tx_hash,
    concat('0x', lower(hex(b.order_hash))) AS order_hash,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(b.condition_id))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(b.condition_id)), '') AS series,
    outcome_index,
    side,
    is_taker,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS usdc,
    toDecimal128(if(b.shares = 0, 0, round(toDecimal128(b.usdc, 12) / greatest(b.shares, 1), 6)), 6) AS price,
    if(b.shares = 0, NULL, toDecimal128(least(1, greatest(0, round(toDecimal128(if(outcome_index = 0, b.usdc, b.shares - b.usdc), 12) / greatest(b.shares, 1), 6))), 6)) AS price_yes,
    toDecimal128(if((side = 'BUY') = (outcome_index = 0), b.shares, -b.shares), 6) / 1000000 AS signed_shares,
    toDecimal128(b.fee, 6) / 1000000 AS fee,
    toDecimal128(b.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(b.realised_cost, 6) / 1000000 AS realised_cost
FROM fillstream.bookings AS b
WHERE kind = 'fill';

CREATE VIEW analyst.holders
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `question` String COMMENT 'what the market decides; empty while its listing is unknown',
    `outcome_index` UInt8 COMMENT 'outcome held, 0 or 1',
    `outcome` String COMMENT 'label of that outcome; empty while the listing is unknown',
    `shares` Decimal(38, 6) COMMENT 'outcome shares held; each pays 1 USDC if the outcome wins',
    `cost_basis` Decimal(38, 6) COMMENT 'USDC paid for these shares, without fees',
    `open_fees` Decimal(38, 6) COMMENT 'USDC of fees paid on these shares, realised when they are closed',
    `average_price` Decimal(38, 6) COMMENT 'cost basis a share, rounded to nearest',
    `mark` Decimal(38, 6) COMMENT 'price of the outcome in the newest match of the market, or its payout once resolved',
    `mark_source` String COMMENT 'last_match or resolution; none while the first match is being stored',
    `marked_at` Nullable(DateTime('UTC')) COMMENT 'time of that match or resolution, UTC; NULL for none',
    `value` Decimal(38, 6) COMMENT 'USDC that the shares are worth at the mark, rounded down',
    `unrealised_pnl` Decimal(38, 6) COMMENT 'value less cost_basis and open_fees'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'open positions by market, with their value at the mark'
AS SELECT
    concat('0x', lower(hex(position_trader))) AS trader,
    concat('0x', lower(hex(position_condition))) AS condition_id,
    listing_market_id AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(position_condition))) AS category,
    listing_question AS question,
    position_outcome AS outcome_index,
    listing_outcomes[position_outcome + 1] AS outcome,
    toDecimal128(position_shares, 6) / 1000000 AS shares,
    toDecimal128(position_cost, 6) / 1000000 AS cost_basis,
    toDecimal128(position_fees, 6) / 1000000 AS open_fees,
    toDecimal128(round(toDecimal128(position_cost, 12) / position_shares, 6), 6) AS average_price,
    multiIf(mark_whole = 0, toDecimal128(0, 6), position_outcome = 0, mark_price, 1 - mark_price) AS mark,
    multiIf(mark_version = 0, 'none', is_resolution, 'resolution', 'last_match') AS mark_source,
    nullIf(mark_time, toDateTime(0, 'UTC')) AS marked_at,
    toDecimal128(if(mark_version = 0, position_cost + position_fees, toInt64(position_worth)), 6) / 1000000 AS value,
    (value - cost_basis) - open_fees AS unrealised_pnl
FROM
(
    SELECT
        *,
        toDecimal128(least(1, greatest(0, round(toDecimal128(mark_usdc, 12) / greatest(mark_whole, 1), 6))), 6) AS mark_price,
        toInt128(position_shares) * if(position_outcome = 0, mark_usdc, mark_whole - mark_usdc) AS product,
        intDivOrZero(product, mark_whole) - ((product < 0) AND (moduloOrZero(product, mark_whole) != 0)) AS position_worth
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
        FROM fillstream.market_traders
        GROUP BY
            position_trader,
            position_condition
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
            FROM fillstream.market_marks AS m
            WHERE last.version > 0
            UNION ALL
            SELECT
                r.condition_id AS mark_condition,
                (true, r.block_number, toInt64(r.payout_0), toInt64(r.payout_0 + r.payout_1), r.resolved_at) AS candidate
            FROM fillstream.resolutions AS r
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
    FROM fillstream.markets
    FINAL
) AS listing ON listing_condition = position_condition;

CREATE VIEW analyst.leaderboards
(
    `time_frame` String COMMENT '1H, 4H, 1D, 3D, 7D or 30D: the window that ends at refreshed_at',
    `tag` String COMMENT 'all, or a tag; sports leaves out what is tagged esports',
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised in the window, net of fees',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the closed shares had cost',
    `roi_percent` Float64 COMMENT '100 · realised_pnl / realised_cost; 0 where the cost is not above 0',
    `volume` Decimal(38, 6) COMMENT 'USDC of all fills, as maker and as taker',
    `markets` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `win_rate_percent` Float64 COMMENT '100 · wins / markets',
    `closed` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'end of the window, UTC'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'leaderboards of six time frames by tag'
AS SELECT
    board.time_frame AS time_frame,
    board.tag AS tag,
    concat('0x', lower(hex(board.trader))) AS trader,
    toDecimal128(board.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(board.realised_cost, 6) / 1000000 AS realised_cost,
    if(board.realised_cost <= 0, 0, (100 * board.realised_pnl) / board.realised_cost) AS roi_percent,
    toDecimal128(board.volume, 6) / 1000000 AS volume,
    board.markets_count AS markets,
    board.wins_count AS wins,
    (100 * board.wins_count) / board.markets_count AS win_rate_percent,
    board.closed_count AS closed,
    board.closed_wins_count AS closed_wins,
    board.last_trade_at AS last_trade_at,
    board.refreshed_at AS refreshed_at
FROM
(
    SELECT
        '1H' AS time_frame,
        *
    FROM fillstream.leaderboard_1h
    UNION ALL
    SELECT
        '4H' AS time_frame,
        *
    FROM fillstream.leaderboard_4h
    UNION ALL
    SELECT
        '1D' AS time_frame,
        *
    FROM fillstream.leaderboard_1d
    UNION ALL
    SELECT
        '3D' AS time_frame,
        *
    FROM fillstream.leaderboard_3d
    UNION ALL
    SELECT
        '7D' AS time_frame,
        *
    FROM fillstream.leaderboard_7d
    UNION ALL
    SELECT
        '30D' AS time_frame,
        *
    FROM fillstream.leaderboard_30d
) AS board;

CREATE VIEW analyst.market_stats
(
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `mark` Decimal(38, 6) COMMENT 'price of outcome 0 in the newest match with shares, or its payout once resolved',
    `mark_source` String COMMENT 'last_match or resolution; none if no match had shares',
    `marked_at` Nullable(DateTime('UTC')) COMMENT 'time of that match or resolution, UTC; NULL for none',
    `change_24h` Decimal(38, 6) COMMENT 'price of outcome 0 now less 24 hours before',
    `volume_24h` Decimal(38, 6) COMMENT 'USDC of the matches of the last 24 hours, each once',
    `volume` Decimal(38, 6) COMMENT 'USDC of all matches, each once',
    `matches` UInt64 COMMENT 'number of matches',
    `traders` UInt32 COMMENT 'traders with a fill or a settlement',
    `open_interest` Decimal(38, 6) COMMENT 'shares held of outcome 0, which equal those of outcome 1',
    `first_match_at` DateTime('UTC') COMMENT 'first match, UTC',
    `last_match_at` Nullable(DateTime('UTC')) COMMENT 'newest match with shares, UTC; NULL if none had shares',
    `end_at` Nullable(DateTime('UTC')) COMMENT 'planned end, UTC; NULL if unknown',
    `resolved_at` Nullable(DateTime('UTC')) COMMENT 'time of the resolution\'s block, UTC; NULL before it',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when these figures were computed, UTC'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'mark, volume, traders and open interest of each market'
AS SELECT
    concat('0x', lower(hex(s.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(s.condition_id)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(s.condition_id))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(s.condition_id)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(s.condition_id)), '') AS series,
    toDecimal128(if(s.mark_shares = 0, 0, least(1, greatest(0, round(toDecimal128(s.mark_usdc, 12) / greatest(s.mark_shares, 1), 6)))), 6) AS mark,
    multiIf(s.resolved_at > 0, 'resolution', s.mark_shares > 0, 'last_match', 'none') AS mark_source,
    nullIf(s.marked_at, toDateTime(0, 'UTC')) AS marked_at,
    toDecimal128(s.change_24h, 6) / 1000000 AS change_24h,
    toDecimal128(s.volume_24h, 6) / 1000000 AS volume_24h,
    toDecimal128(s.volume, 6) / 1000000 AS volume,
    s.matches AS matches,
    s.traders AS traders,
    toDecimal128(s.open_interest, 6) / 1000000 AS open_interest,
    s.first_match_at AS first_match_at,
    nullIf(newest.last_time, toDateTime(0, 'UTC')) AS last_match_at,
    nullIf(s.end_at, toDateTime(0, 'UTC')) AS end_at,
    nullIf(s.resolved_at, toDateTime(0, 'UTC')) AS resolved_at,
    s.refreshed_at AS refreshed_at
FROM fillstream.market_stats AS s
LEFT JOIN
(
    SELECT
        m.condition_id AS marked_condition,
        tupleElement(max(m.last), 'time') AS last_time
    FROM fillstream.market_marks AS m
    GROUP BY marked_condition
) AS newest ON newest.marked_condition = s.condition_id;

CREATE VIEW analyst.markets
(
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market',
    `question` String COMMENT 'what the market decides',
    `slug` String COMMENT 'name of the market in URLs',
    `event_slug` String COMMENT 'name of its event in URLs',
    `event_title` String COMMENT 'title of its event',
    `series` String COMMENT 'series of recurring events, or empty',
    `category` LowCardinality(String) COMMENT 'main tag of the market: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market',
    `outcomes` Array(String) COMMENT 'two labels; outcome_index 0 is outcomes[1]',
    `token_ids` Array(UInt256) COMMENT 'two ERC-1155 ids, in the order of outcomes',
    `neg_risk` Bool COMMENT 'one of the exclusive markets of a negative-risk event',
    `market_type` String COMMENT 'moneyline, spreads, totals …; empty outside sports',
    `group_item_title` String COMMENT 'label of the market inside its event, or empty',
    `start_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'start, UTC; NULL if unknown',
    `end_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'planned end, UTC; NULL if unknown',
    `is_resolved` Bool COMMENT 'true once the chain has the payouts',
    `resolved_at` Nullable(DateTime('UTC')) COMMENT 'time of the resolution\'s block, UTC; NULL before it',
    `winning_outcome` String COMMENT 'label of the winner, 50-50 for a split, empty before the resolution',
    `winning_outcome_index` Nullable(UInt8) COMMENT 'the winner, 0 or 1; NULL for a split and before the resolution; use it instead of the label, which both outcomes may share'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'listed markets with tags, outcomes and resolution'
AS SELECT
    concat('0x', lower(hex(listing_condition))) AS condition_id,
    listing_market_id AS market_id,
    listing_question AS question,
    listing_slug AS slug,
    listing_event_slug AS event_slug,
    listing_event_title AS event_title,
    listing_series_slug AS series,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(listing_condition))) AS category,
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
    multiIf(resolution_time = 0, '', resolution_payout_0 = resolution_payout_1, '50-50', resolution_payout_0 > resolution_payout_1, listing_outcomes[1], listing_outcomes[2]) AS winning_outcome,
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
    FROM fillstream.markets
    FINAL
) AS listing
LEFT JOIN
(
    SELECT
        condition_id AS resolution_condition,
        resolved_at AS resolution_time,
        payout_0 AS resolution_payout_0,
        payout_1 AS resolution_payout_1
    FROM fillstream.resolutions
    FINAL
) AS resolution ON resolution_condition = listing_condition;

CREATE VIEW analyst.movements
(
    `time` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the log',
    `log_index` UInt32 COMMENT 'log of the first transfer, or that closes the match during which it moved',
    `part` UInt32 COMMENT 'number among the movements of that log, from 0',
    `tx_hash` String COMMENT 'transaction of the log, 0x-hex',
    `reason` Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7) COMMENT 'why they moved; never none',
    `is_opening` Bool COMMENT 'shares that the wallet must have had before any block that was read',
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `counterparty` String COMMENT 'the other wallet of a transfer, or the contract of an unexplained movement, 0x-hex; else empty',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `outcome_index` UInt8 COMMENT 'outcome of the shares, 0 or 1',
    `shares` Decimal(38, 6) COMMENT 'outcome shares that came, or left if below 0',
    `usdc` Decimal(38, 6) COMMENT 'USDC paid for a split, merge, redemption or conversion, or what shares of a transfer had cost, fees included; of both outcomes in the first row',
    `is_mark` Bool COMMENT 'whether usdc is a value at the mark of the market',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised, net of fees'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'shares that moved without a fill: splits, merges, redemptions, conversions, transfers'
AS SELECT
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
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(m.condition_id)), 0) AS market_id,
    outcome_index,
    toDecimal128(if(side = 'BUY', m.shares, -m.shares), 6) / 1000000 AS shares,
    toDecimal128(m.usdc, 6) / 1000000 AS usdc,
    is_mark,
    toDecimal128(m.realised_pnl, 6) / 1000000 AS realised_pnl
FROM fillstream.movements AS m;

CREATE VIEW analyst.position_events
(
    `time` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the log',
    `log_index` UInt32 COMMENT 'log of the fill, of the first transfer or of the resolution',
    `type` String COMMENT 'opened, added, reduced, closed or settled; a trade that changes sides is closed and opened',
    `cause` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3) COMMENT 'a fill, the resolution of the market, or shares that moved without a fill; never opening',
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `outcome_index` UInt8 COMMENT 'outcome that is held, 0 or 1',
    `shares_before` Decimal(38, 6) COMMENT 'shares of the outcome held before',
    `shares_after` Decimal(38, 6) COMMENT 'shares of the outcome held after',
    `value` Decimal(38, 6) COMMENT 'USDC that the shares which came or left were worth at the price of the event, without fee; the payout',
    `cost_after` Decimal(38, 6) COMMENT 'what the shares held after have cost, USDC without fees',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised, net of fees',
    `is_taker` Bool COMMENT 'true for the taker of a match'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'what became of positions: opened, added to, reduced, closed, settled'
AS SELECT
    block_time AS time,
    block_number,
    log_index,
    event.1 AS type,
    kind AS cause,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    if((event.3) = 0, event.2, event.3) < 0 AS outcome_index,
    toDecimal128(abs(event.2), 6) / 1000000 AS shares_before,
    toDecimal128(abs(event.3), 6) / 1000000 AS shares_after,
    toDecimal128(event.4, 6) / 1000000 AS value,
    toDecimal128(if((event.3) = 0, 0, position_cost), 6) / 1000000 AS cost_after,
    toDecimal128(if(((event.1) = 'opened') AND (position_before != 0), 0, b.realised_pnl), 6) / 1000000 AS realised_pnl,
    is_taker
FROM
(
    SELECT
        *,
        if(position_outcome = 0, position_shares, -position_shares) AS net,
        if(outcome_index = (if(net = 0, position_before, net) < 0), usdc, shares - usdc) AS whole,
        toInt64(intDivOrZero(toInt128(usdc) * abs(position_before), shares)) AS closing_usdc,
        multiIf(kind = 'settlement', [('settled', position_before, toInt64(0), usdc)], position_before = 0, [('opened', position_before, net, whole)], net = 0, [('closed', position_before, net, whole)], sign(position_before) != sign(net), [('closed', position_before, toInt64(0), if(outcome_index = (position_before < 0), closing_usdc, abs(position_before) - closing_usdc)), ('opened', toInt64(0), net, if(outcome_index = (net < 0), usdc - closing_usdc, ((shares - abs(position_before)) - usdc) + closing_usdc))], abs(net) > abs(position_before), [('added', position_before, net, whole)], [('reduced', position_before, net, whole)]) AS events
    FROM fillstream.bookings_by_time
    WHERE (kind != 'opening') AND (position_before != net)
) AS b
ARRAY JOIN events AS event;

CREATE VIEW analyst.positions
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `question` String COMMENT 'what the market decides; empty while its listing is unknown',
    `outcome_index` UInt8 COMMENT 'outcome held, 0 or 1',
    `outcome` String COMMENT 'label of that outcome; empty while the listing is unknown',
    `shares` Decimal(38, 6) COMMENT 'outcome shares held; each pays 1 USDC if the outcome wins',
    `cost_basis` Decimal(38, 6) COMMENT 'USDC paid for these shares, without fees',
    `open_fees` Decimal(38, 6) COMMENT 'USDC of fees paid on these shares, realised when they are closed',
    `average_price` Decimal(38, 6) COMMENT 'cost basis a share, rounded to nearest',
    `mark` Decimal(38, 6) COMMENT 'price of the outcome in the newest match of the market, or its payout once resolved',
    `mark_source` String COMMENT 'last_match or resolution; none while the first match is being stored',
    `marked_at` Nullable(DateTime('UTC')) COMMENT 'time of that match or resolution, UTC; NULL for none',
    `value` Decimal(38, 6) COMMENT 'USDC that the shares are worth at the mark, rounded down',
    `unrealised_pnl` Decimal(38, 6) COMMENT 'value less cost_basis and open_fees',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised in the market so far, net of fees',
    `first_trade_at` DateTime('UTC') COMMENT 'first fill of the trader in the market, UTC',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in the market, UTC'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'open positions by trader, with their value at the mark'
AS SELECT
    concat('0x', lower(hex(position_trader))) AS trader,
    concat('0x', lower(hex(position_condition))) AS condition_id,
    listing_market_id AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(position_condition))) AS category,
    listing_question AS question,
    position_outcome AS outcome_index,
    listing_outcomes[position_outcome + 1] AS outcome,
    toDecimal128(position_shares, 6) / 1000000 AS shares,
    toDecimal128(position_cost, 6) / 1000000 AS cost_basis,
    toDecimal128(position_fees, 6) / 1000000 AS open_fees,
    toDecimal128(round(toDecimal128(position_cost, 12) / position_shares, 6), 6) AS average_price,
    multiIf(mark_whole = 0, toDecimal128(0, 6), position_outcome = 0, mark_price, 1 - mark_price) AS mark,
    multiIf(mark_version = 0, 'none', is_resolution, 'resolution', 'last_match') AS mark_source,
    nullIf(mark_time, toDateTime(0, 'UTC')) AS marked_at,
    toDecimal128(if(mark_version = 0, position_cost + position_fees, toInt64(position_worth)), 6) / 1000000 AS value,
    (value - cost_basis) - open_fees AS unrealised_pnl,
    toDecimal128(realised_sum, 6) / 1000000 AS realised_pnl,
    first_fill AS first_trade_at,
    last_fill AS last_trade_at
FROM
(
    SELECT
        *,
        toDecimal128(least(1, greatest(0, round(toDecimal128(mark_usdc, 12) / greatest(mark_whole, 1), 6))), 6) AS mark_price,
        toInt128(position_shares) * if(position_outcome = 0, mark_usdc, mark_whole - mark_usdc) AS product,
        intDivOrZero(product, mark_whole) - ((product < 0) AND (moduloOrZero(product, mark_whole) != 0)) AS position_worth
    FROM
    (
        SELECT
            p.trader AS position_trader,
            p.condition_id AS position_condition,
            max(p.position) AS newest_position,
            newest_position.outcome AS position_outcome,
            newest_position.shares AS position_shares,
            newest_position.cost_basis AS position_cost,
            newest_position.open_fees AS position_fees,
            sum(p.realised_pnl) AS realised_sum,
            min(p.first_trade_at) AS first_fill,
            max(p.last_trade_at) AS last_fill
        FROM fillstream.trader_markets AS p
        GROUP BY
            position_trader,
            position_condition
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
            FROM fillstream.market_marks AS m
            WHERE last.version > 0
            UNION ALL
            SELECT
                r.condition_id AS mark_condition,
                (true, r.block_number, toInt64(r.payout_0), toInt64(r.payout_0 + r.payout_1), r.resolved_at) AS candidate
            FROM fillstream.resolutions AS r
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
    FROM fillstream.markets
    FINAL
) AS listing ON listing_condition = position_condition;

CREATE VIEW analyst.prices_1m
(
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `minute` DateTime('UTC') COMMENT 'start of the minute, UTC',
    `open` Decimal(38, 6) COMMENT 'price of outcome 0 in the first match, rounded to nearest',
    `high` Decimal(38, 6) COMMENT 'highest price of outcome 0, less than a micro-USD away',
    `low` Decimal(38, 6) COMMENT 'lowest price of outcome 0, rounded down',
    `close` Decimal(38, 6) COMMENT 'price of outcome 0 in the last match',
    `vwap` Decimal(38, 6) COMMENT 'average price of outcome 0, weighted by shares, rounded to nearest',
    `volume` Decimal(38, 6) COMMENT 'USDC that the takers paid or received: each match once',
    `shares` Decimal(38, 6) COMMENT 'shares of these matches',
    `matches` UInt64 COMMENT 'number of matches'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'open, high, low, close and volume of each market and minute'
AS SELECT
    concat('0x', lower(hex(condition_bytes))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(condition_bytes)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(condition_bytes))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(condition_bytes)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(condition_bytes)), '') AS series,
    minute,
    toDecimal128(least(1, greatest(0, round(toDecimal128(first_match.usdc, 12) / first_match.shares, 6))), 6) AS open,
    greatest(toDecimal128(highest, 6) / 1000000, open, close) AS high,
    toDecimal128(lowest, 6) / 1000000 AS low,
    toDecimal128(least(1, greatest(0, round(toDecimal128(last_match.usdc, 12) / last_match.shares, 6))), 6) AS close,
    toDecimal128(least(1, greatest(0, round(toDecimal128(usdc_sum, 12) / shares_sum, 6))), 6) AS vwap,
    toDecimal128(volume_sum, 6) / 1000000 AS volume,
    toDecimal128(shares_sum, 6) / 1000000 AS shares,
    match_count AS matches
FROM
(
    SELECT
        m.condition_id AS condition_bytes,
        m.minute AS minute,
        min(m.open) AS first_match,
        max(m.high) AS highest,
        min(m.low) AS lowest,
        max(m.close) AS last_match,
        sum(m.usdc) AS usdc_sum,
        sum(m.volume) AS volume_sum,
        sum(m.shares) AS shares_sum,
        sum(m.matches) AS match_count
    FROM fillstream.market_minutes AS m
    GROUP BY
        condition_bytes,
        minute
);

CREATE VIEW analyst.settlements
(
    `time` DateTime('UTC') COMMENT 'time of the resolution\'s block, UTC',
    `block_number` UInt64 COMMENT 'block of the resolution',
    `log_index` UInt32 COMMENT 'log of the resolution inside its block',
    `tx_hash` String COMMENT 'transaction of the resolution, 0x-hex',
    `trader` String COMMENT 'wallet that held the position, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `outcome_index` UInt8 COMMENT 'outcome held, 0 or 1',
    `shares` Decimal(38, 6) COMMENT 'outcome shares held',
    `payout` Decimal(38, 6) COMMENT 'USDC that the shares were paid',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC: payout less what the shares and their fees had cost',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the shares had cost, the denominator of ROI'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'every open position that a resolution paid out'
AS SELECT
    block_time AS time,
    block_number,
    log_index,
    concat('0x', lower(hex(b.tx_hash))) AS tx_hash,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(b.condition_id))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(b.condition_id)), '') AS series,
    outcome_index,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS payout,
    toDecimal128(b.realised_pnl, 6) / 1000000 AS realised_pnl,
    toDecimal128(b.realised_cost, 6) / 1000000 AS realised_cost
FROM fillstream.bookings AS b
WHERE kind = 'settlement';

CREATE VIEW analyst.trader_days
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `day` Date COMMENT 'day, UTC',
    `category` LowCardinality(String) COMMENT 'main tag of the markets, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised on the day, net of fees',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    `fee` Decimal(38, 6) COMMENT 'USDC of fees paid',
    `maker_volume` Decimal(38, 6) COMMENT 'USDC of fills as maker',
    `taker_volume` Decimal(38, 6) COMMENT 'USDC of fills as taker',
    `fills` UInt64 COMMENT 'fills, as maker and as taker',
    `settlements` UInt64 COMMENT 'open positions that a resolution paid out'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'sums per trader, day and category'
AS SELECT
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
    FROM fillstream.trader_hours AS h
    LEFT JOIN
    (
        SELECT
            reinterpretAsFixedString(condition) AS market_condition,
            category AS market_category
        FROM fillstream.market_dictionary
    ) AS m ON m.market_condition = h.condition_id
    GROUP BY
        trader_bytes,
        day,
        category
);

CREATE VIEW analyst.trader_hours
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `hour` DateTime('UTC') COMMENT 'start of the hour, UTC',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `realised_pnl` Decimal(38, 6) COMMENT 'USDC realised in the hour, net of fees',
    `realised_cost` Decimal(38, 6) COMMENT 'USDC that the closed shares had cost, the denominator of ROI',
    `fee` Decimal(38, 6) COMMENT 'USDC of fees paid',
    `maker_volume` Decimal(38, 6) COMMENT 'USDC of fills as maker',
    `taker_volume` Decimal(38, 6) COMMENT 'USDC of fills as taker',
    `fills` UInt64 COMMENT 'fills, as maker and as taker',
    `settlements` UInt64 COMMENT 'open positions that a resolution paid out'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'sums per trader, hour and market'
AS SELECT
    concat('0x', lower(hex(trader_bytes))) AS trader,
    hour,
    concat('0x', lower(hex(condition_bytes))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(condition_bytes)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(condition_bytes))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(condition_bytes)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(condition_bytes)), '') AS series,
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
    FROM fillstream.trader_hours AS h
    GROUP BY
        trader_bytes,
        hour,
        condition_bytes
);

CREATE VIEW analyst.traders
(
    `trader` String COMMENT 'wallet, 0x-hex in lower case',
    `name` String COMMENT 'display name, or empty',
    `x_username` String COMMENT 'account on X, or empty',
    `profile_created_at` Nullable(DateTime64(3, 'UTC')) COMMENT 'creation of the profile, UTC; NULL if unknown',
    `taker_tier_name` String COMMENT 'fee tier, or empty',
    `balance` Nullable(Decimal(38, 6)) COMMENT 'pUSD in the wallet; NULL while it was never read',
    `balance_block` Nullable(UInt64) COMMENT 'block at whose end the balance was read; NULL while it was not',
    `fills` UInt64 COMMENT 'fills, as maker and as taker',
    `first_trade_at` DateTime('UTC') COMMENT 'first fill, UTC',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill, UTC'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'everybody who traded: profile, balance, first and newest fill'
AS SELECT
    concat('0x', lower(hex(activity_trader))) AS trader,
    profile_name AS name,
    profile_x_username AS x_username,
    parseDateTime64BestEffortOrNull(profile_created, 3, 'UTC') AS profile_created_at,
    profile_tier_name AS taker_tier_name,
    if(balance_at = 0, NULL, toDecimal128(balance_amount, 6) / 1000000) AS balance,
    nullIf(balance_at, 0) AS balance_block,
    activity_fills AS fills,
    activity_first AS first_trade_at,
    activity_last AS last_trade_at
FROM
(
    SELECT
        a.trader AS activity_trader,
        sum(a.fills) AS activity_fills,
        min(a.first_trade_at) AS activity_first,
        max(a.last_trade_at) AS activity_last
    FROM fillstream.trader_activity AS a
    GROUP BY activity_trader
) AS activity
LEFT JOIN
(
    SELECT
        trader AS profile_trader,
        name AS profile_name,
        x_username AS profile_x_username,
        traders.profile_created_at AS profile_created,
        traders.taker_tier_name AS profile_tier_name
    FROM fillstream.traders
    FINAL
) AS profile ON profile_trader = activity_trader
LEFT JOIN
(
    SELECT
        trader AS balance_trader,
        balances.balance AS balance_amount,
        block_number AS balance_at
    FROM fillstream.balances
    FINAL
) AS wallet ON balance_trader = activity_trader;

CREATE VIEW analyst.trades
(
    `time` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the match',
    `log_index` UInt32 COMMENT 'log of the taker\'s fill inside its block',
    `tx_hash` String COMMENT 'transaction, 0x-hex',
    `order_hash` String COMMENT 'order of the taker, 0x-hex',
    `trader` String COMMENT 'wallet of the taker, 0x-hex in lower case',
    `condition_id` String COMMENT 'market on chain, 0x-hex in lower case',
    `market_id` UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    `category` LowCardinality(String) COMMENT 'main tag of the market, as of now: geopolitics, sports, politics, finance, mentions, tech, economics, culture, weather, crypto or other',
    `tags` Array(String) COMMENT 'tags of the market, as of now',
    `series` String COMMENT 'series of the market, or empty',
    `outcome_index` UInt8 COMMENT 'outcome that the taker traded: 0 or 1, see markets.outcomes[outcome_index + 1]',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY or SELL of that outcome',
    `shares` Decimal(38, 6) COMMENT 'outcome shares',
    `usdc` Decimal(38, 6) COMMENT 'USDC that the taker paid or received, without fee',
    `price` Decimal(38, 6) COMMENT 'USDC a share, rounded to nearest; 0 for no shares',
    `price_yes` Nullable(Decimal(38, 6)) COMMENT 'price of outcome 0 in this match, rounded to nearest: for outcome 1, 1 less its price; NULL for no shares',
    `signed_shares` Decimal(38, 6) COMMENT 'shares of outcome 0 that the taker bought, or sold if negative; to buy outcome 1 is to sell outcome 0',
    `fee` Decimal(38, 6) COMMENT 'USDC of fee that the taker paid'
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'every match, once: the fill of its taker'
AS SELECT
    block_time AS time,
    block_number,
    log_index,
    concat('0x', lower(hex(b.tx_hash))) AS tx_hash,
    concat('0x', lower(hex(b.order_hash))) AS order_hash,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('fillstream.market_dictionary', 'market_id', tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGet('fillstream.market_dictionary', 'category', tuple(reinterpretAsUInt256(b.condition_id))) AS category,
    dictGetOrDefault('fillstream.market_dictionary', 'tags', tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    dictGetOrDefault('fillstream.market_dictionary', 'series_slug', tuple(reinterpretAsUInt256(b.condition_id)), '') AS series,
    outcome_index,
    side,
    toDecimal128(b.shares, 6) / 1000000 AS shares,
    toDecimal128(b.usdc, 6) / 1000000 AS usdc,
    toDecimal128(if(b.shares = 0, 0, round(toDecimal128(b.usdc, 12) / greatest(b.shares, 1), 6)), 6) AS price,
    if(b.shares = 0, NULL, toDecimal128(least(1, greatest(0, round(toDecimal128(if(outcome_index = 0, b.usdc, b.shares - b.usdc), 12) / greatest(b.shares, 1), 6))), 6)) AS price_yes,
    toDecimal128(if((side = 'BUY') = (outcome_index = 0), b.shares, -b.shares), 6) / 1000000 AS signed_shares,
    toDecimal128(b.fee, 6) / 1000000 AS fee
FROM fillstream.matches AS b;

CREATE TABLE fillstream.balances
(
    `trader` FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    `balance` Int64 COMMENT 'micro-pUSD',
    `block_number` UInt64 COMMENT 'block at whose end the balance was read',
    `stored_at` DateTime('UTC') DEFAULT now() COMMENT 'when it was stored, UTC; caches poll it for new rows',
    `trader_hex` String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(block_number)
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256, min_compress_block_size = 16384
COMMENT 'newest pUSD balance of each trader';

CREATE TABLE fillstream.bookings
(
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3) COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    `block_number` UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    `block_time` DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    `log_index` UInt32 COMMENT 'log of the fill or of the resolution' CODEC(T64, ZSTD(1)),
    `event_log_index` UInt32 COMMENT 'log that closes the match, or log_index' CODEC(T64, ZSTD(1)),
    `tx_hash` FixedString(32) DEFAULT unhex(tx_hash_hex) COMMENT 'transaction of the log, 32 bytes',
    `condition_id` FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    `trader` FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'wallet that owns the fill, 20 bytes',
    `order_hash` FixedString(32) DEFAULT unhex(order_hash_hex) COMMENT 'order of the fill, 32 bytes; zero bytes for a settlement',
    `is_taker` Bool COMMENT 'true for the taker of its match; false for a settlement',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'NONE for a settlement; BUY and SELL of a movement or an opening: shares that came or left',
    `outcome_index` UInt8 COMMENT 'outcome traded, or held at the settlement',
    `token_id` UInt256 COMMENT 'ERC-1155 id of the outcome share; 0 for a settlement',
    `shares` Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    `usdc` Int64 COMMENT 'micro-USDC without fee; payout for a settlement; paid for a split, merge, redemption or conversion; what shares of a transfer had cost, fees included' CODEC(T64, ZSTD(1)),
    `fee` Int64 COMMENT 'micro-USDC' CODEC(T64, ZSTD(1)),
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI' CODEC(T64, ZSTD(1)),
    `position_outcome` UInt8 COMMENT 'outcome held after this row',
    `position_shares` Int64 COMMENT 'micro-shares held after this row' CODEC(T64, ZSTD(1)),
    `position_cost` Int64 COMMENT 'cost basis after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    `position_fees` Int64 COMMENT 'open fees after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    `position_before` Int64 COMMENT 'micro-shares held before this row: of outcome 0, or of outcome 1 if below 0' CODEC(T64, ZSTD(1)),
    `partition` UInt8 COMMENT 'partition of the market',
    `leg` UInt32 COMMENT 'index of this row within its event, from 0' CODEC(T64, ZSTD(1)),
    `rank` UInt8 COMMENT 'order among the rows of the trader in this market and log, from 0, at most 31',
    `reason` Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7) COMMENT 'why shares moved without a fill',
    `counterparty` FixedString(20) DEFAULT unhex(counterparty_hex) COMMENT 'the other wallet of a transfer, or the contract of an unexplained movement, 20 bytes; else zero bytes',
    `is_mark` Bool COMMENT 'whether usdc is a value at the mark of the market',
    `is_covered` Bool COMMENT 'whether movements were read in this block, so that it counts in balances',
    `batch_id` UInt64 COMMENT 'insert batch: hash of its first and last event and its row count',
    `tx_hash_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    `condition_id_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    `trader_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    `order_hash_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    `counterparty_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (trader, condition_id, block_number, log_index, kind)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'every fill, settlement and movement: the source of all sums, and the checkpoint of the projector';

CREATE TABLE fillstream.bookings_by_time
(
    `block_time` DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    `block_number` UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    `log_index` UInt32 COMMENT 'log of the fill or of the resolution' CODEC(T64, ZSTD(1)),
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3) COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes' CODEC(ZSTD(1)),
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes' CODEC(ZSTD(1)),
    `is_taker` Bool COMMENT 'true for the taker of its match; false for a settlement',
    `outcome_index` UInt8 COMMENT 'outcome traded, or held at the settlement',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'NONE for a settlement; BUY and SELL of a movement or an opening: shares that came or left',
    `shares` Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    `usdc` Int64 COMMENT 'micro-USDC without fee; payout for a settlement' CODEC(T64, ZSTD(1)),
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI' CODEC(T64, ZSTD(1)),
    `position_outcome` UInt8 COMMENT 'outcome held after this row',
    `position_shares` Int64 COMMENT 'micro-shares held after this row' CODEC(T64, ZSTD(1)),
    `position_cost` Int64 COMMENT 'cost basis after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    `position_fees` Int64 COMMENT 'open fees after this row, micro-USDC' CODEC(T64, ZSTD(1)),
    `position_before` Int64 COMMENT 'micro-shares held before this row: of outcome 0, or of outcome 1 if below 0' CODEC(T64, ZSTD(1)),
    `rank` UInt8 COMMENT 'order among the rows of the trader in this market and log, from 0',
    `is_covered` Bool COMMENT 'whether movements were read in this block, so that it counts in balances'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (block_time, block_number, log_index)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'every fill, settlement and movement, by time';

CREATE MATERIALIZED VIEW fillstream.bookings_by_time_mv TO fillstream.bookings_by_time
(
    `block_time` DateTime('UTC'),
    `block_number` UInt64,
    `log_index` UInt32,
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3),
    `trader` FixedString(20),
    `condition_id` FixedString(32),
    `is_taker` Bool,
    `outcome_index` UInt8,
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2),
    `shares` Int64,
    `usdc` Int64,
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `position_outcome` UInt8,
    `position_shares` Int64,
    `position_cost` Int64,
    `position_fees` Int64,
    `position_before` Int64,
    `rank` UInt8,
    `is_covered` Bool
)
COMMENT 'feeds bookings_by_time'
AS SELECT
    block_time,
    block_number,
    log_index,
    kind,
    trader,
    condition_id,
    is_taker,
    outcome_index,
    side,
    shares,
    usdc,
    realised_pnl,
    realised_cost,
    position_outcome,
    position_shares,
    position_cost,
    position_fees,
    position_before,
    rank,
    is_covered
FROM fillstream.bookings;

CREATE TABLE fillstream.leaderboard_1d
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 1d by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_1d_mv
REFRESH EVERY 1 MINUTE TO fillstream.leaderboard_1d
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_1d'
AS SELECT *
FROM leaderboard_window(seconds = 86400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE TABLE fillstream.leaderboard_1h
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 1h by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_1h_mv
REFRESH EVERY 10 SECOND TO fillstream.leaderboard_1h
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_1h'
AS SELECT *
FROM leaderboard_window(seconds = 3600)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE TABLE fillstream.leaderboard_30d
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 30d by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_30d_mv
REFRESH EVERY 5 MINUTE TO fillstream.leaderboard_30d
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_30d'
AS SELECT *
FROM leaderboard_window(seconds = 2592000)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE TABLE fillstream.leaderboard_3d
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 3d by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_3d_mv
REFRESH EVERY 5 MINUTE TO fillstream.leaderboard_3d
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_3d'
AS SELECT *
FROM leaderboard_window(seconds = 259200)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE TABLE fillstream.leaderboard_4h
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 4h by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_4h_mv
REFRESH EVERY 10 SECOND TO fillstream.leaderboard_4h
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_4h'
AS SELECT *
FROM leaderboard_window(seconds = 14400)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE TABLE fillstream.leaderboard_7d
(
    `tag` LowCardinality(String) COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when the board was computed, UTC',
    `roi` Float64 MATERIALIZED if(realised_cost = 0, 0, (100 * realised_pnl) / realised_cost) COMMENT 'percent, 0 where nothing was closed',
    `win_rate` Float64 MATERIALIZED (100 * wins_count) / markets_count COMMENT 'percent'
)
ENGINE = MergeTree
ORDER BY (tag, -realised_pnl, -volume, trader)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'leaderboard of the last 7d by tag, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.leaderboard_7d_mv
REFRESH EVERY 5 MINUTE TO fillstream.leaderboard_7d
(
    `tag` String,
    `trader` FixedString(20),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `volume` Int64,
    `markets_count` UInt32,
    `wins_count` UInt32,
    `closed_count` UInt32,
    `closed_wins_count` UInt32,
    `last_trade_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes leaderboard_7d'
AS SELECT *
FROM leaderboard_window(seconds = 604800)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19, optimize_aggregation_in_order = 1;

CREATE VIEW fillstream.leaderboard_window
(
    `tag` String COMMENT 'all, or a tag of the market',
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees',
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI',
    `volume` Int64 COMMENT 'micro-USDC, maker and taker',
    `markets_count` UInt32 COMMENT 'markets with a fill or a settlement in the window',
    `wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `closed_count` UInt32 COMMENT 'markets in which shares were sold back or settled in the window',
    `closed_wins_count` UInt32 COMMENT 'of these, markets with a realised PnL above 0',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill of the trader in any market, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
COMMENT 'leaderboard of the last {seconds} for every tag'
AS WITH
    (
        SELECT now('UTC')
    ) AS window_end,
    window_end - {seconds:UInt32} AS window_start,
    {seconds:UInt32} > 86400 AS has_hours,
    toStartOfHour(window_end) AS last_hour,
    if(has_hours, toStartOfHour(window_start + 3599), last_hour) AS first_hour
SELECT
    ['all', 'sports', 'crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture', 'tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer', 'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'][bit + 1] AS tag,
    board.trader AS trader,
    board_pnl AS realised_pnl,
    board_cost AS realised_cost,
    board_volume AS volume,
    toUInt32(board_markets) AS markets_count,
    toUInt32(board_wins) AS wins_count,
    toUInt32(board_closed) AS closed_count,
    toUInt32(board_closed_wins) AS closed_wins_count,
    activity.newest AS last_trade_at,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        bit,
        trader,
        sum(boards_pnl) AS board_pnl,
        sum(boards_cost) AS board_cost,
        sum(boards_volume) AS board_volume,
        sum(boards_markets) AS board_markets,
        sum(boards_wins) AS board_wins,
        sum(boards_closed) AS board_closed,
        sum(boards_closed_wins) AS board_closed_wins
    FROM
    (
        SELECT
            trader,
            dictGetOrDefault('fillstream.market_dictionary', 'boards', tuple(reinterpretAsUInt256(condition_id)), toUInt32(1)) AS boards,
            sum(pnl) AS boards_pnl,
            sum(cost) AS boards_cost,
            sum(market_volume) AS boards_volume,
            count() AS boards_markets,
            countIf(pnl > 0) AS boards_wins,
            countIf(is_closed) AS boards_closed,
            countIf(is_closed AND (pnl > 0)) AS boards_closed_wins
        FROM
        (
            SELECT
                trader,
                condition_id,
                sum(part_pnl) AS pnl,
                sum(part_cost) AS cost,
                sum(part_volume) AS market_volume,
                max(part_closed) AS is_closed
            FROM
            (
                SELECT
                    trader,
                    condition_id,
                    realised_pnl AS part_pnl,
                    realised_cost AS part_cost,
                    maker_volume + taker_volume AS part_volume,
                    (realised_cost != 0) OR (settlements > 0) AS part_closed
                FROM fillstream.trader_hours
                WHERE (hour >= first_hour) AND (hour < last_hour)
                UNION ALL
                SELECT
                    trader,
                    condition_id,
                    realised_pnl,
                    realised_cost,
                    if(kind = 'fill', usdc, 0),
                    (realised_cost != 0) OR (kind = 'settlement')
                FROM fillstream.bookings_by_time
                WHERE (((block_time >= window_start) AND (block_time < first_hour)) OR ((block_time >= last_hour) AND (block_time <= window_end))) AND ((kind IN ('fill', 'settlement')) OR (realised_pnl != 0) OR (realised_cost != 0))
            )
            GROUP BY
                trader,
                condition_id
        )
        GROUP BY
            trader,
            boards
    )
    ARRAY JOIN bitPositionsToArray(boards) AS bit
    GROUP BY
        bit,
        trader
) AS board
LEFT JOIN
(
    SELECT
        trader,
        max(traded_at) AS newest
    FROM
    (
        SELECT
            trader,
            block_time AS traded_at
        FROM fillstream.bookings_by_time
        WHERE (NOT has_hours) AND (block_time >= window_start) AND (block_time <= window_end) AND (kind = 'fill')
        UNION ALL
        SELECT
            trader,
            last_trade_at
        FROM fillstream.trader_activity
        WHERE has_hours OR (trader IN (
            SELECT trader
            FROM fillstream.bookings_by_time
            WHERE (block_time >= window_start) AND (block_time <= window_end) AND (kind != 'fill')
        ))
    )
    GROUP BY trader
) AS activity ON activity.trader = board.trader;

CREATE TABLE fillstream.market_bookings
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `trader` FixedString(20) COMMENT 'wallet that owns the fill, 20 bytes',
    `block_number` UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    `log_index` UInt32 COMMENT 'log of the fill or of the resolution' CODEC(T64, ZSTD(1)),
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3) COMMENT 'fill, settlement of an open position by a resolution, shares that moved without a fill, or shares held before',
    `block_time` DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    `outcome_index` UInt8 COMMENT 'outcome traded, or held at the settlement',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'NONE for a settlement',
    `shares` Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    `usdc` Int64 COMMENT 'micro-USDC without fee; payout for a settlement' CODEC(T64, ZSTD(1)),
    `fee` Int64 COMMENT 'micro-USDC' CODEC(T64, ZSTD(1)),
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    `realised_cost` Int64 COMMENT 'micro-USDC, the denominator of ROI' CODEC(T64, ZSTD(1)),
    `order_hash` FixedString(32) COMMENT 'order of the fill, 32 bytes; zero bytes for a settlement',
    `is_taker` Bool COMMENT 'true for the taker of its match; false for a settlement',
    `token_id` UInt256 COMMENT 'ERC-1155 id of the outcome share; 0 for a settlement',
    `leg` UInt32 COMMENT 'index of the row within its event, from 0' CODEC(T64, ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toStartOfQuarter(block_time)
ORDER BY (condition_id, trader, block_number, log_index, kind, leg)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'fills, settlements and whatever else realised PnL, by market';

CREATE MATERIALIZED VIEW fillstream.market_bookings_mv TO fillstream.market_bookings
(
    `condition_id` FixedString(32),
    `trader` FixedString(20),
    `block_number` UInt64,
    `log_index` UInt32,
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3),
    `block_time` DateTime('UTC'),
    `outcome_index` UInt8,
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2),
    `shares` Int64,
    `usdc` Int64,
    `fee` Int64,
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `order_hash` FixedString(32),
    `is_taker` Bool,
    `token_id` UInt256,
    `leg` UInt32
)
COMMENT 'feeds market_bookings'
AS SELECT
    condition_id,
    trader,
    block_number,
    log_index,
    kind,
    block_time,
    outcome_index,
    side,
    shares,
    usdc,
    fee,
    realised_pnl,
    realised_cost,
    order_hash,
    is_taker,
    token_id,
    leg
FROM fillstream.bookings
WHERE (kind IN ('fill', 'settlement')) OR (bookings.realised_pnl != 0) OR (bookings.realised_cost != 0);

CREATE TABLE fillstream.market_counts
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `version` UInt64 COMMENT 'newest version of a position that was counted',
    `traders` UInt32 COMMENT 'traders with a fill or a settlement',
    `open_interest` Int64 COMMENT 'micro-shares held of outcome 0, which equal those of outcome 1'
)
ENGINE = MergeTree
ORDER BY condition_id
SETTINGS index_granularity = 8192
COMMENT 'traders and open interest of each market, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.market_counts_mv
REFRESH EVERY 5 MINUTE TO fillstream.market_counts
(
    `condition_id` FixedString(32),
    `version` UInt64,
    `traders` UInt32,
    `open_interest` Int64
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes market_counts'
AS SELECT
    condition_id,
    max(newest) AS version,
    toUInt32(countIf(is_counted)) AS traders,
    sum(held) AS open_interest
FROM
(
    SELECT
        condition_id,
        max(position.version) AS newest,
        argMax(if(position.outcome = 0, position.shares, 0), position.version) AS held,
        ((sum(fills) + sum(settlements)) > 0) OR (sum(realised_pnl) != 0) AS is_counted
    FROM fillstream.market_traders
    GROUP BY
        condition_id,
        trader
)
GROUP BY condition_id
SETTINGS optimize_aggregation_in_order = 1, max_threads = 1, min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;

CREATE TABLE fillstream.market_days
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `day` DateTime('UTC') COMMENT 'start of the day, UTC' CODEC(T64, ZSTD(1)),
    `close` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        usdc Int64,
        shares Int64)) COMMENT 'last match: micro-USDC of outcome 0 and micro-shares'
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, day)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'last match of each market and day';

CREATE MATERIALIZED VIEW fillstream.market_days_mv TO fillstream.market_days
(
    `condition_id` FixedString(32),
    `day` DateTime('UTC'),
    `close` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        usdc Int64,
        shares Int64))
)
COMMENT 'feeds market_days'
AS SELECT
    condition_id,
    toStartOfDay(minute) AS day,
    max(market_minutes.close) AS close
FROM fillstream.market_minutes
GROUP BY
    condition_id,
    day;

CREATE DICTIONARY fillstream.market_dictionary
(
    `condition` UInt256,
    `market_id` UInt64,
    `tags` Array(String),
    `series_slug` String,
    `category` String DEFAULT 'other',
    `boards` UInt32 DEFAULT 1
)
PRIMARY KEY condition
SOURCE(CLICKHOUSE(QUERY 'SELECT reinterpretAsUInt256(condition_id) AS condition, market_id, tags, series_slug, multiIf(\n    has(tags, \'geopolitics\'), \'geopolitics\',\n    has(tags, \'sports\'), \'sports\',\n    has(tags, \'politics\'), \'politics\',\n    has(tags, \'finance\'), \'finance\',\n    hasAny(tags, [\'mentions\', \'tweets-markets\']), \'mentions\',\n    has(tags, \'tech\'), \'tech\',\n    hasAny(tags, [\'economics\', \'economy\']), \'economics\',\n    hasAny(tags, [\'culture\', \'pop-culture\']), \'culture\',\n    has(tags, \'weather\'), \'weather\',\n    has(tags, \'crypto\'), \'crypto\',\n    \'other\') AS category,\n    toUInt32(1 + arraySum((name, bit) -> bitShiftLeft(toUInt32(\n        has(tags, name) AND NOT (name = \'sports\' AND has(tags, \'esports\'))), bit),\n        [\'sports\', \'crypto\', \'geopolitics\', \'politics\', \'finance\', \'esports\', \'pop-culture\', \'tech\', \'economy\',\n        \'weather\', \'elections\', \'tweets-markets\', \'basketball\', \'hockey\', \'soccer\', \'tennis\', \'counter-strike-2\',\n        \'dota-2\', \'league-of-legends\', \'5M\', \'15M\'], range(1, 22))) AS boards\nFROM fillstream.markets FINAL'))
LIFETIME(MIN 30 MAX 60)
LAYOUT(COMPLEX_KEY_HASHED())
COMMENT 'tags, series, number, category and boards of each market, by reinterpretAsUInt256(condition_id)';

CREATE TABLE fillstream.market_marks
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `last` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        usdc Int64,
        shares Int64,
        time DateTime('UTC'))) COMMENT 'last match with shares: micro-USDC of outcome 0, micro-shares, time of its block',
    `first_match_at` SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first match, UTC',
    `volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC that the takers paid or received',
    `matches` SimpleAggregateFunction(sum, UInt64) COMMENT 'number of matches'
)
ENGINE = AggregatingMergeTree
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384
COMMENT 'last match and sums of each market';

CREATE MATERIALIZED VIEW fillstream.market_marks_mv TO fillstream.market_marks
(
    `condition_id` FixedString(32),
    `last` Tuple(
        UInt64,
        Int64,
        Int64,
        DateTime('UTC')),
    `first_match_at` DateTime('UTC'),
    `volume` Int64,
    `matches` UInt64
)
COMMENT 'feeds market_marks'
AS SELECT
    condition_id,
    max(if(bookings.shares > 0, ((((block_number * 1048576) + log_index) * 32) + 1, if(outcome_index = 0, usdc, bookings.shares - usdc), bookings.shares, block_time), (toUInt64(0), toInt64(0), toInt64(0), toDateTime(0, 'UTC')))) AS last,
    min(block_time) AS first_match_at,
    sum(usdc) AS volume,
    count() AS matches
FROM fillstream.bookings
WHERE (kind = 'fill') AND is_taker
GROUP BY condition_id;

CREATE TABLE fillstream.market_minutes
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `minute` DateTime('UTC') COMMENT 'start of the minute, UTC' CODEC(T64, ZSTD(1)),
    `open` SimpleAggregateFunction(min, Tuple(
        version UInt64,
        usdc Int64,
        shares Int64)) COMMENT 'first match: micro-USDC of outcome 0 and micro-shares',
    `close` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        usdc Int64,
        shares Int64)) COMMENT 'last match: micro-USDC of outcome 0 and micro-shares',
    `low` SimpleAggregateFunction(min, UInt32) COMMENT 'lowest price of outcome 0, micro-USDC a share, rounded down, 0 to 1,000,000',
    `high` SimpleAggregateFunction(max, UInt32) COMMENT 'highest price of outcome 0, micro-USDC a share, rounded down',
    `volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC that the takers paid or received',
    `shares` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-shares',
    `usdc` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC at prices of outcome 0: usdc / shares is the average price',
    `matches` SimpleAggregateFunction(sum, UInt64) COMMENT 'number of matches',
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toStartOfQuarter(minute)
ORDER BY (condition_id, minute)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'candles of each market and minute';

CREATE MATERIALIZED VIEW fillstream.market_minutes_mv TO fillstream.market_minutes
(
    `condition_id` FixedString(32),
    `minute` DateTime('UTC'),
    `open` Tuple(
        UInt64,
        Int64,
        Int64),
    `close` Tuple(
        UInt64,
        Int64,
        Int64),
    `low` UInt32,
    `high` UInt32,
    `volume` Int64,
    `shares` Int64,
    `usdc` Int64,
    `matches` UInt64
)
COMMENT 'feeds market_minutes'
AS SELECT
    condition_id,
    toStartOfMinute(block_time) AS minute,
    min((version, first_usdc, match_shares)) AS open,
    max((version, first_usdc, match_shares)) AS close,
    min(price) AS low,
    max(price) AS high,
    sum(match_usdc) AS volume,
    sum(match_shares) AS shares,
    sum(first_usdc) AS usdc,
    count() AS matches
FROM
(
    SELECT
        condition_id,
        block_time,
        (((block_number * 1048576) + log_index) * 32) + 1 AS version,
        bookings.shares AS match_shares,
        bookings.usdc AS match_usdc,
        if(outcome_index = 0, match_usdc, match_shares - match_usdc) AS first_usdc,
        toUInt32(least(1000000, greatest(0, intDiv(toInt128(first_usdc) * 1000000, match_shares)))) AS price
    FROM fillstream.bookings
    WHERE (kind = 'fill') AND is_taker AND (bookings.shares > 0)
)
GROUP BY
    condition_id,
    minute;

CREATE TABLE fillstream.market_stats
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `market_id` UInt64 COMMENT 'number of the market; 0 without a listing',
    `mark_usdc` Int64 COMMENT 'mark of outcome 0: this over mark_shares; of a resolved market its payout',
    `mark_shares` Int64 COMMENT 'shares of the last match, or the sum of the payouts; 0 without a price',
    `marked_at` DateTime('UTC') COMMENT 'time of the last match with shares or of the resolution, UTC',
    `change_24h` Int32 COMMENT 'price now less the price 24 hours before, micro-USD of outcome 0',
    `volume_24h` Int64 COMMENT 'micro-USDC of matches of the last 24 hours, each once',
    `volume` Int64 COMMENT 'micro-USDC of all matches, each once',
    `matches` UInt64 COMMENT 'number of matches',
    `traders` UInt32 COMMENT 'traders with a fill or a settlement',
    `open_interest` Int64 COMMENT 'micro-shares held of outcome 0, which equal those of outcome 1',
    `first_match_at` DateTime('UTC') COMMENT 'first match, UTC',
    `end_at` DateTime('UTC') COMMENT 'end date of the listing, UTC; 1970 if there is none',
    `resolved_at` DateTime('UTC') COMMENT 'time of the resolution, UTC; 1970 while unresolved',
    `payout_0` UInt64 COMMENT 'payout numerator of outcome 0',
    `payout_1` UInt64 COMMENT 'payout numerator of outcome 1',
    `tags` Array(LowCardinality(String)) COMMENT 'tags in lower case; sports only without esports',
    `series` LowCardinality(String) COMMENT 'slug of the series in lower case, or empty',
    `event` String COMMENT 'slug of the event in lower case, or empty',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (-volume_24h, condition_id)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'price, volume and open interest of each market, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.market_stats_mv
REFRESH EVERY 30 SECOND TO fillstream.market_stats
(
    `condition_id` FixedString(32),
    `market_id` UInt64,
    `mark_usdc` Int64,
    `mark_shares` Int64,
    `marked_at` DateTime('UTC'),
    `change_24h` Int64,
    `volume_24h` Int64,
    `volume` Int64,
    `matches` UInt64,
    `traders` UInt32,
    `open_interest` Int64,
    `first_match_at` SimpleAggregateFunction(min, DateTime('UTC')),
    `end_at` DateTime('UTC'),
    `resolved_at` DateTime('UTC'),
    `payout_0` UInt64,
    `payout_1` UInt64,
    `tags` Array(String),
    `series` String,
    `event` String,
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes market_stats'
AS WITH
    toStartOfMinute(now('UTC') - 86400) AS since,
    (fraction -> toInt32(least(1000000, greatest(0, intDivOrZero((toInt128(fraction.1) * 2000000) + (fraction.2), 2 * toInt128(fraction.2)))))) AS price_of
SELECT
    marks.condition_id AS condition_id,
    listings.market_id AS market_id,
    if(is_resolved, toInt64(payouts.payout_0), marks.mark.usdc) AS mark_usdc,
    if(is_resolved, toInt64(payouts.payout_0 + payouts.payout_1), marks.mark.shares) AS mark_shares,
    if(is_resolved, payouts.resolved, marks.mark.time) AS marked_at,
    price_of((mark_usdc, mark_shares)) - multiIf(is_resolved AND (payouts.resolved < since), price_of((mark_usdc, mark_shares)), day.before.version > 0, price_of((day.before.usdc, day.before.shares)), day.first.version > 0, price_of((day.first.usdc, day.first.shares)), price_of((marks.mark.usdc, marks.mark.shares))) AS change_24h,
    day.traded AS volume_24h,
    marks.traded AS volume,
    marks.number AS matches,
    if(changed.version > 0, changed.traders, counts.traders) AS traders,
    multiIf(is_resolved, 0, changed.version > 0, changed.held, counts.open_interest) AS open_interest,
    marks.first_at AS first_match_at,
    listings.end_at AS end_at,
    payouts.resolved AS resolved_at,
    payouts.payout_0 AS payout_0,
    payouts.payout_1 AS payout_1,
    arrayFilter(tag -> ((tag != '') AND (NOT ((tag = 'sports') AND has(listings.tags, 'esports')))), arrayDistinct(arrayMap(tag -> lowerUTF8(tag), listings.tags))) AS tags,
    lowerUTF8(listings.series_slug) AS series,
    lowerUTF8(listings.event_slug) AS event,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        condition_id,
        max(last) AS mark,
        min(first_match_at) AS first_at,
        sum(market_marks.volume) AS traded,
        sum(market_marks.matches) AS number
    FROM fillstream.market_marks
    GROUP BY condition_id
) AS marks
LEFT JOIN
(
    SELECT
        condition_id,
        maxIf(close, minute < since) AS before,
        minIf(open, minute >= since) AS first,
        sumIf(market_minutes.volume, minute >= since) AS traded
    FROM fillstream.market_minutes
    WHERE condition_id GLOBAL IN (
        SELECT condition_id
        FROM fillstream.market_minutes
        WHERE minute >= since
    )
    GROUP BY condition_id
) AS day ON day.condition_id = marks.condition_id
LEFT JOIN fillstream.market_counts AS counts ON counts.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT
        condition_id,
        max(newest) AS version,
        toUInt32(countIf(is_counted)) AS traders,
        sum(shares_held) AS held
    FROM
    (
        SELECT
            condition_id,
            max(position.version) AS newest,
            argMax(if(position.outcome = 0, position.shares, 0), position.version) AS shares_held,
            ((sum(fills) + sum(settlements)) > 0) OR (sum(realised_pnl) != 0) AS is_counted
        FROM fillstream.market_traders
        WHERE condition_id GLOBAL IN (
            SELECT matched.condition_id
            FROM
            (
                SELECT
                    condition_id,
                    last.version AS version
                FROM fillstream.market_marks
            ) AS matched
            LEFT JOIN fillstream.market_counts AS counted ON counted.condition_id = matched.condition_id
            WHERE matched.version > counted.version
        )
        GROUP BY
            condition_id,
            trader
    )
    GROUP BY condition_id
) AS changed ON changed.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT
        condition_id,
        payout_0,
        payout_1,
        resolutions.resolved_at AS resolved,
        true AS is_resolved
    FROM fillstream.resolutions
    FINAL
) AS payouts ON payouts.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT
        condition_id,
        market_id,
        tags,
        series_slug,
        event_slug,
        parseDateTimeBestEffortOrZero(end_date, 'UTC') AS end_at
    FROM fillstream.markets
    FINAL
) AS listings ON listings.condition_id = marks.condition_id
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;

CREATE TABLE fillstream.market_traders
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `realised_pnl` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    `realised_cost` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, the denominator of ROI',
    `fee` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fees paid',
    `maker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as maker',
    `taker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as taker',
    `fills` SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    `settlements` SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    `first_trade_at` SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first fill, UTC',
    `last_trade_at` SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    `balance_0` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-shares of outcome 0 by fills and movements, in blocks whose movements were read',
    `balance_1` SimpleAggregateFunction(sum, Int64) COMMENT 'the same of outcome 1',
    `position` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        outcome UInt8,
        shares Int64,
        cost_basis Int64,
        open_fees Int64)) COMMENT 'what is held now; shares = 0 once closed',
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, trader)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'sums and newest position per trader and market, by market';

CREATE MATERIALIZED VIEW fillstream.market_traders_mv TO fillstream.market_traders
(
    `trader` FixedString(20),
    `condition_id` FixedString(32),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `fee` Int64,
    `maker_volume` Int64,
    `taker_volume` Int64,
    `fills` UInt64,
    `settlements` UInt64,
    `first_trade_at` DateTime('UTC'),
    `last_trade_at` DateTime('UTC'),
    `balance_0` Int64,
    `balance_1` Int64,
    `position` Tuple(
        UInt64,
        UInt8,
        Int64,
        Int64,
        Int64)
)
COMMENT 'feeds market_traders'
AS SELECT
    trader,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, (kind = 'fill') AND (NOT is_taker)) AS maker_volume,
    sumIf(usdc, (kind = 'fill') AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements,
    min(if(kind = 'fill', block_time, toDateTime(4294967295, 'UTC'))) AS first_trade_at,
    maxIf(block_time, kind = 'fill') AS last_trade_at,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND (side != 'NONE') AND (outcome_index = 0)) AS balance_0,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND (side != 'NONE') AND (outcome_index = 1)) AS balance_1,
    max(((((block_number * 1048576) + log_index) * 32) + rank, position_outcome, position_shares, position_cost, position_fees)) AS position
FROM fillstream.bookings
GROUP BY
    trader,
    condition_id;

CREATE MATERIALIZED VIEW fillstream.market_words_mv TO fillstream.search_words
(
    `kind` String,
    `word` String,
    `ids` AggregateFunction(groupBitmap, UInt64)
)
COMMENT 'feeds search_words with listings'
AS SELECT
    'market' AS kind,
    word,
    groupBitmapState(market_id) AS ids
FROM
(
    SELECT
        arrayJoin(extractAll(lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(concat(question, ' ', event_title, ' ', group_item_title, ' ', slug, ' ', event_slug)), '\\p{M}', '')), '[\\p{L}\\p{N}]+')) AS word,
        market_id
    FROM fillstream.markets
    WHERE market_id != 0
)
GROUP BY word;

CREATE TABLE fillstream.markets
(
    `condition_id` FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    `market_id` UInt64 COMMENT 'number of the market; 0 while the metadata API does not know it',
    `question` String COMMENT 'the question that the market decides',
    `slug` String COMMENT 'name in URLs',
    `start_date` String COMMENT 'ISO 8601 UTC, or empty',
    `end_date` String COMMENT 'ISO 8601 UTC, or empty',
    `icon` String COMMENT 'URL of an image',
    `neg_risk` Bool COMMENT 'one of the exclusive markets of a negative-risk event',
    `event_slug` String COMMENT 'name of the event in URLs',
    `event_title` String COMMENT 'title of the event',
    `event_icon` String COMMENT 'URL of the image of the event',
    `series_slug` String COMMENT 'series of recurring events, or empty',
    `tags` Array(String) COMMENT 'slugs of the tags of the event',
    `outcomes` Array(String) COMMENT 'two labels, by outcome index',
    `token_ids` Array(UInt256) COMMENT 'two ERC-1155 ids, by outcome index',
    `group_item_title` String COMMENT 'label of the market inside its event, or empty',
    `sports_market_type` String COMMENT 'moneyline, spreads, totals …; empty outside sports',
    `observed_at` DateTime64(3, 'UTC') COMMENT 'when ingest observed it, UTC; the newest row is valid',
    `stored_at` DateTime('UTC') DEFAULT now() COMMENT 'when it was stored, UTC; caches poll it for new rows',
    `condition_id_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    PROJECTION by_slug
    (
        SELECT
            slug,
            condition_id
        ORDER BY slug
    ),
    PROJECTION by_number
    (
        SELECT
            market_id,
            condition_id
        ORDER BY market_id
    )
)
ENGINE = ReplacingMergeTree(observed_at)
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256, min_compress_block_size = 4096, min_bytes_for_wide_part = 104857600, deduplicate_merge_projection_mode = 'rebuild'
COMMENT 'newest metadata of each market';

CREATE TABLE fillstream.matches
(
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `block_number` UInt64 COMMENT 'block of the match' CODEC(T64, ZSTD(1)),
    `log_index` UInt32 COMMENT 'log of the taker\'s fill' CODEC(T64, ZSTD(1)),
    `event_log_index` UInt32 COMMENT 'log that closes the match' CODEC(T64, ZSTD(1)),
    `block_time` DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    `tx_hash` FixedString(32) COMMENT 'transaction of the match, 32 bytes',
    `trader` FixedString(20) COMMENT 'wallet of the taker, 20 bytes',
    `order_hash` FixedString(32) COMMENT 'order of the taker, 32 bytes',
    `outcome_index` UInt8 COMMENT 'outcome traded by the taker',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY or SELL of that outcome',
    `shares` Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    `usdc` Int64 COMMENT 'micro-USDC without fee' CODEC(T64, ZSTD(1)),
    `fee` Int64 COMMENT 'micro-USDC, of the taker' CODEC(T64, ZSTD(1)),
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1,
    PROJECTION by_time
    (
        SELECT
            block_time,
            usdc,
            condition_id,
            block_number,
            log_index
        ORDER BY block_time
    )
)
ENGINE = ReplacingMergeTree
PARTITION BY toStartOfQuarter(block_time)
ORDER BY (condition_id, block_number, log_index)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600, deduplicate_merge_projection_mode = 'rebuild'
COMMENT 'every match, by market: the fill of its taker';

CREATE MATERIALIZED VIEW fillstream.matches_mv TO fillstream.matches
(
    `condition_id` FixedString(32),
    `block_number` UInt64,
    `log_index` UInt32,
    `event_log_index` UInt32,
    `block_time` DateTime('UTC'),
    `tx_hash` FixedString(32),
    `trader` FixedString(20),
    `order_hash` FixedString(32),
    `outcome_index` UInt8,
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2),
    `shares` Int64,
    `usdc` Int64,
    `fee` Int64
)
COMMENT 'feeds matches'
AS SELECT
    condition_id,
    block_number,
    log_index,
    event_log_index,
    block_time,
    tx_hash,
    trader,
    order_hash,
    outcome_index,
    side,
    shares,
    usdc,
    fee
FROM fillstream.bookings
WHERE (kind = 'fill') AND is_taker;

CREATE TABLE fillstream.migrations
(
    `name` String COMMENT 'file in sql/migrations',
    `sha256` String COMMENT 'of its text',
    `applied_at` DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was applied, UTC'
)
ENGINE = ReplacingMergeTree
ORDER BY name
SETTINGS index_granularity = 8192
COMMENT 'migrations that were applied';

CREATE TABLE fillstream.movements
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `block_number` UInt64 COMMENT 'block of the log' CODEC(T64, ZSTD(1)),
    `log_index` UInt32 COMMENT 'log of the first transfer, or that closes the match during which it moved' CODEC(T64, ZSTD(1)),
    `part` UInt32 COMMENT 'number among the movements of that log, from 0' CODEC(T64, ZSTD(1)),
    `leg` UInt32 COMMENT 'index of the row' CODEC(T64, ZSTD(1)),
    `kind` Enum8('movement' = 2, 'opening' = 3) COMMENT 'opening: shares that the wallet must have had before',
    `reason` Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7) COMMENT 'why they moved',
    `block_time` DateTime('UTC') COMMENT 'time of the block, UTC' CODEC(T64, ZSTD(1)),
    `tx_hash` FixedString(32) COMMENT 'transaction of the log, 32 bytes',
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `counterparty` FixedString(20) COMMENT 'the other wallet of a transfer, or the contract of an unexplained movement, 20 bytes; else zero bytes',
    `outcome_index` UInt8 COMMENT 'outcome of the shares',
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2) COMMENT 'BUY: they came; SELL: they left',
    `shares` Int64 COMMENT 'micro-shares' CODEC(T64, ZSTD(1)),
    `usdc` Int64 COMMENT 'micro-USDC paid for a split, merge, redemption or conversion, or what shares of a transfer had cost, fees included' CODEC(T64, ZSTD(1)),
    `is_mark` Bool COMMENT 'whether usdc is a value at the mark of the market',
    `realised_pnl` Int64 COMMENT 'micro-USDC, net of fees' CODEC(T64, ZSTD(1)),
    INDEX reason_range reason TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(block_time)
ORDER BY (trader, block_number, log_index, part, leg)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'shares that moved without a fill, by trader';

CREATE MATERIALIZED VIEW fillstream.movements_mv TO fillstream.movements
(
    `trader` FixedString(20),
    `block_number` UInt64,
    `log_index` UInt32,
    `part` UInt32,
    `leg` UInt32,
    `kind` Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3),
    `reason` Enum8('none' = 0, 'split' = 1, 'merge' = 2, 'redeem' = 3, 'convert' = 4, 'transfer' = 5, 'refund' = 6, 'unexplained' = 7),
    `block_time` DateTime('UTC'),
    `tx_hash` FixedString(32),
    `condition_id` FixedString(32),
    `counterparty` FixedString(20),
    `outcome_index` UInt8,
    `side` Enum8('NONE' = 0, 'BUY' = 1, 'SELL' = 2),
    `shares` Int64,
    `usdc` Int64,
    `is_mark` Bool,
    `realised_pnl` Int64
)
COMMENT 'feeds movements'
AS SELECT
    trader,
    block_number,
    log_index,
    intDiv(leg, 8) AS part,
    leg,
    kind,
    reason,
    block_time,
    tx_hash,
    condition_id,
    counterparty,
    outcome_index,
    side,
    shares,
    usdc,
    is_mark,
    realised_pnl
FROM fillstream.bookings
WHERE (kind IN ('movement', 'opening')) AND (reason != 'none');

CREATE TABLE fillstream.projector_checkpoints
(
    `partition` UInt8 COMMENT 'partition of markets',
    `block_number` UInt64 COMMENT 'block of the newest stored row',
    `block_hash` String COMMENT 'its hash, to prove that LEDGER holds the same block',
    `log_index` UInt32 COMMENT 'event_log_index of the newest stored row'
)
ENGINE = ReplacingMergeTree
ORDER BY partition
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 8192
COMMENT 'how far LEDGER is stored, by partition';

CREATE TABLE fillstream.refused_events
(
    `block_number` UInt64 COMMENT 'block of the log or call',
    `log_index` UInt32 COMMENT 'log that could not be decoded',
    `tx_hash` FixedString(32) DEFAULT unhex(tx_hash_hex) COMMENT 'transaction, 32 bytes',
    `reason` LowCardinality(String) COMMENT 'class of the error',
    `detail` String COMMENT 'the raw logs or call as JSON, or what ingest does not know',
    `tx_hash_hex` String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree
ORDER BY (block_number, tx_hash, log_index, reason)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 8192
COMMENT 'logs and calls that could not be decoded, and what ingest does not know';

CREATE TABLE fillstream.resolutions
(
    `condition_id` FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    `payout_0` UInt64 COMMENT 'payout numerator of outcome 0',
    `payout_1` UInt64 COMMENT 'payout numerator of outcome 1',
    `parts_0` UInt128 COMMENT 'exact payout of outcome 0 in parts of 10^36, if the numerators of a combo are rounded; else 0',
    `parts_1` UInt128 COMMENT 'exact payout of outcome 1 in parts of 10^36, if the numerators of a combo are rounded; else 0',
    `resolved_at` DateTime('UTC') COMMENT 'time of the block, UTC',
    `block_number` UInt64 COMMENT 'block of the resolution',
    `log_index` UInt32 COMMENT 'log of the resolution',
    `condition_id_hex` String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(block_number)
ORDER BY condition_id
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256, min_compress_block_size = 16384
COMMENT 'payouts of each resolved condition';

CREATE TABLE fillstream.search_markets
(
    `level` UInt8 COMMENT '0: the first 5,000 in the order of the search, 1: the others',
    `id` UInt64 COMMENT 'number of the market',
    `key` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `rank` Int64 COMMENT 'micro-USDC of all matches, each once',
    `ended_at` DateTime('UTC') COMMENT 'time of the resolution, or the end date if that is past, UTC; 1970 while open',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (level, id)
SETTINGS index_granularity = 256, min_compress_block_size = 16384
COMMENT 'listed markets with their volume and end, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.search_markets_mv
REFRESH EVERY 1 MINUTE TO fillstream.search_markets
(
    `level` UInt8,
    `id` UInt64,
    `key` FixedString(32),
    `rank` Int64,
    `ended_at` DateTime('UTC'),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes search_markets'
AS SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    max(listed_id) AS id,
    condition_id AS key,
    sum(traded) AS rank,
    multiIf(max(resolved) > 0, max(resolved), ((max(listed_end)).2) > now('UTC'), toDateTime(0, 'UTC'), (max(listed_end)).2) AS ended_at,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        condition_id,
        market_id AS listed_id,
        (observed_at, parseDateTimeBestEffortOrZero(end_date, 'UTC')) AS listed_end,
        toInt64(0) AS traded,
        toDateTime(0, 'UTC') AS resolved
    FROM fillstream.markets
    UNION ALL
    SELECT
        condition_id,
        toUInt64(0) AS listed_id,
        (toDateTime64(0, 3, 'UTC'), toDateTime(0, 'UTC')) AS listed_end,
        market_marks.volume AS traded,
        toDateTime(0, 'UTC') AS resolved
    FROM fillstream.market_marks
    UNION ALL
    SELECT
        condition_id,
        toUInt64(0) AS listed_id,
        (toDateTime64(0, 3, 'UTC'), toDateTime(0, 'UTC')) AS listed_end,
        toInt64(0) AS traded,
        resolutions.resolved_at AS resolved
    FROM fillstream.resolutions
)
GROUP BY condition_id
HAVING id != 0
WINDOW ranked AS (ORDER BY toUnixTimestamp(ended_at) > 0 ASC, ended_at DESC, rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;

CREATE TABLE fillstream.search_traders
(
    `level` UInt8 COMMENT '0: the first 5,000 by fills, 1: the others',
    `id` UInt64 COMMENT 'last 26 bits of the address, as in search_words',
    `key` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `rank` Int64 COMMENT 'fills, as maker and as taker',
    `last_trade_at` DateTime('UTC') COMMENT 'newest fill, UTC',
    `refreshed_at` DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (level, id)
SETTINGS index_granularity = 256, min_compress_block_size = 16384
COMMENT 'traders with their number of fills, replaced at each refresh';

CREATE MATERIALIZED VIEW fillstream.search_traders_mv
REFRESH EVERY 1 MINUTE TO fillstream.search_traders
(
    `level` UInt8,
    `id` UInt64,
    `key` FixedString(20),
    `rank` Int64,
    `last_trade_at` SimpleAggregateFunction(max, DateTime('UTC')),
    `refreshed_at` DateTime64(3, 'UTC')
)
DEFINER = default SQL SECURITY DEFINER
COMMENT 'refreshes search_traders'
AS SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    bitAnd(reinterpretAsUInt64(reverse(substring(trader, 17))), 67108863) AS id,
    trader AS key,
    toInt64(sum(fills)) AS rank,
    max(trader_activity.last_trade_at) AS last_trade_at,
    now64(3, 'UTC') AS refreshed_at
FROM fillstream.trader_activity
GROUP BY trader
WINDOW ranked AS (ORDER BY rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;

CREATE TABLE fillstream.search_variants
(
    `variant` String COMMENT 'the word, or the word without one of its characters',
    `kind` Enum8('market' = 1, 'trader' = 2) COMMENT 'what has the word',
    `word` String COMMENT 'word of search_words',
    `uses` SimpleAggregateFunction(sum, UInt64) COMMENT 'listings or profiles with the word that were stored, again for each observation'
)
ENGINE = AggregatingMergeTree
ORDER BY (variant, kind, word)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400
COMMENT 'words of listings and profiles, by the variants that one typo leaves';

CREATE MATERIALIZED VIEW fillstream.search_variants_mv TO fillstream.search_variants
(
    `variant` String,
    `kind` Enum8('market' = 1, 'trader' = 2),
    `word` String,
    `uses` UInt64
)
COMMENT 'feeds search_variants'
AS SELECT
    arrayJoin(arrayDistinct(arrayMap(at -> concat(substringUTF8(word, 1, at), substringUTF8(word, at + 2)), range(lengthUTF8(word) + 1)))) AS variant,
    kind,
    word,
    bitmapCardinality(ids) AS uses
FROM fillstream.search_words
WHERE (countMatches(word, '\\p{L}') >= 4) AND (lengthUTF8(word) <= 24) AND (NOT (startsWith(word, '=') OR startsWith(word, '@')));

CREATE TABLE fillstream.search_words
(
    `kind` Enum8('market' = 1, 'trader' = 2) COMMENT 'what has the word',
    `word` String COMMENT 'letters and digits, lower case, without accents; with = or @ before all of a name or account',
    `ids` AggregateFunction(groupBitmap, UInt64) COMMENT 'numbers of the markets, or of the traders as in search_traders'
)
ENGINE = AggregatingMergeTree
ORDER BY (kind, word)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 128, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400
COMMENT 'markets and traders by word';

CREATE TABLE fillstream.share_balances
(
    `trader` FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    `condition_id` FixedString(32) DEFAULT unhex(condition_id_hex) COMMENT 'condition id of the market, 32 bytes',
    `partition` UInt8 COMMENT 'partition of the market',
    `block_number` UInt64 COMMENT 'block at whose end the balances were read',
    `covered_from` UInt64 COMMENT 'the movements of all blocks from here to block_number were read',
    `balance_0` Int64 COMMENT 'micro-shares of outcome 0 on the chain',
    `balance_1` Int64 COMMENT 'the same of outcome 1',
    `booked_0` Int64 COMMENT 'micro-shares of outcome 0 by bookings up to block_number, once they are compared',
    `booked_1` Int64 COMMENT 'the same of outcome 1',
    `result` Enum8('waiting' = 0, 'equal' = 1, 'less' = 2, 'more' = 3, 'left_out' = 4) COMMENT 'less: fewer shares were booked than the wallet has on the chain; more: more were, of either outcome; left_out: the trader has bookings before covered_from',
    `observed_at` DateTime('UTC') COMMENT 'when ingest read the balances, UTC',
    `is_compared` UInt8 DEFAULT result != 'waiting' COMMENT 'a compared row replaces the one that waited',
    `trader_hex` String EPHEMERAL COMMENT 'input as hex text, not stored',
    `condition_id_hex` String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(is_compared)
ORDER BY (block_number, trader, condition_id)
TTL observed_at + toIntervalDay(1)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 8192
COMMENT 'sampled balances of shares on the chain, compared with bookings';

CREATE TABLE fillstream.trader_activity
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `first_trade_at` SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first fill, UTC',
    `last_trade_at` SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    `fills` SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 256, min_compress_block_size = 16384
COMMENT 'first and newest fill of each trader';

CREATE MATERIALIZED VIEW fillstream.trader_activity_mv TO fillstream.trader_activity
(
    `trader` FixedString(20),
    `first_trade_at` DateTime('UTC'),
    `last_trade_at` DateTime('UTC'),
    `fills` UInt64
)
COMMENT 'feeds trader_activity'
AS SELECT
    trader,
    min(block_time) AS first_trade_at,
    max(block_time) AS last_trade_at,
    count() AS fills
FROM fillstream.bookings
WHERE kind = 'fill'
GROUP BY trader;

CREATE TABLE fillstream.trader_hours
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `hour` DateTime('UTC') COMMENT 'start of the hour, UTC',
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `realised_pnl` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    `realised_cost` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, the denominator of ROI',
    `fee` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fees paid',
    `maker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as maker',
    `taker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as taker',
    `fills` SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    `settlements` SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (trader, hour, condition_id)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'sums per trader, hour and market';

CREATE MATERIALIZED VIEW fillstream.trader_hours_mv TO fillstream.trader_hours
(
    `trader` FixedString(20),
    `hour` DateTime('UTC'),
    `condition_id` FixedString(32),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `fee` Int64,
    `maker_volume` Int64,
    `taker_volume` Int64,
    `fills` UInt64,
    `settlements` UInt64
)
COMMENT 'feeds trader_hours'
AS SELECT
    trader,
    toStartOfHour(block_time) AS hour,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, (kind = 'fill') AND (NOT is_taker)) AS maker_volume,
    sumIf(usdc, (kind = 'fill') AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements
FROM fillstream.bookings
WHERE (kind IN ('fill', 'settlement')) OR (bookings.realised_pnl != 0) OR (bookings.realised_cost != 0)
GROUP BY
    trader,
    hour,
    condition_id;

CREATE TABLE fillstream.trader_market_hours
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `hour` DateTime('UTC') COMMENT 'start of the hour, UTC' CODEC(T64, ZSTD(1)),
    `position` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        outcome UInt8,
        shares Int64,
        cost_basis Int64,
        open_fees Int64)) COMMENT 'what was held at the end of the hour; shares = 0 once closed' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (trader, condition_id, hour)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'position of each trader and market at the end of each hour';

CREATE MATERIALIZED VIEW fillstream.trader_market_hours_mv TO fillstream.trader_market_hours
(
    `trader` FixedString(20),
    `condition_id` FixedString(32),
    `hour` DateTime('UTC'),
    `position` Tuple(
        UInt64,
        UInt8,
        Int64,
        Int64,
        Int64)
)
COMMENT 'feeds trader_market_hours'
AS SELECT
    trader,
    condition_id,
    toStartOfHour(block_time) AS hour,
    max(((((block_number * 1048576) + log_index) * 32) + rank, position_outcome, position_shares, position_cost, position_fees)) AS position
FROM fillstream.bookings
GROUP BY
    trader,
    condition_id,
    hour;

CREATE TABLE fillstream.trader_markets
(
    `trader` FixedString(20) COMMENT 'address of the trader, 20 bytes',
    `condition_id` FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    `realised_pnl` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    `realised_cost` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, the denominator of ROI',
    `fee` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fees paid',
    `maker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as maker',
    `taker_volume` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as taker',
    `fills` SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    `settlements` SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    `first_trade_at` SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first fill, UTC',
    `last_trade_at` SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    `balance_0` SimpleAggregateFunction(sum, Int64) COMMENT 'micro-shares of outcome 0 by fills and movements, in blocks whose movements were read',
    `balance_1` SimpleAggregateFunction(sum, Int64) COMMENT 'the same of outcome 1',
    `position` SimpleAggregateFunction(max, Tuple(
        version UInt64,
        outcome UInt8,
        shares Int64,
        cost_basis Int64,
        open_fees Int64)) COMMENT 'what is held now; shares = 0 once closed',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY (trader, condition_id)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024, min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400, min_bytes_for_wide_part = 104857600
COMMENT 'sums and newest position per trader and market, by trader';

CREATE MATERIALIZED VIEW fillstream.trader_markets_mv TO fillstream.trader_markets
(
    `trader` FixedString(20),
    `condition_id` FixedString(32),
    `realised_pnl` Int64,
    `realised_cost` Int64,
    `fee` Int64,
    `maker_volume` Int64,
    `taker_volume` Int64,
    `fills` UInt64,
    `settlements` UInt64,
    `first_trade_at` DateTime('UTC'),
    `last_trade_at` DateTime('UTC'),
    `balance_0` Int64,
    `balance_1` Int64,
    `position` Tuple(
        UInt64,
        UInt8,
        Int64,
        Int64,
        Int64)
)
COMMENT 'feeds trader_markets'
AS SELECT
    trader,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, (kind = 'fill') AND (NOT is_taker)) AS maker_volume,
    sumIf(usdc, (kind = 'fill') AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements,
    min(if(kind = 'fill', block_time, toDateTime(4294967295, 'UTC'))) AS first_trade_at,
    maxIf(block_time, kind = 'fill') AS last_trade_at,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND (side != 'NONE') AND (outcome_index = 0)) AS balance_0,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND (side != 'NONE') AND (outcome_index = 1)) AS balance_1,
    max(((((block_number * 1048576) + log_index) * 32) + rank, position_outcome, position_shares, position_cost, position_fees)) AS position
FROM fillstream.bookings
GROUP BY
    trader,
    condition_id;

CREATE MATERIALIZED VIEW fillstream.trader_words_mv TO fillstream.search_words
(
    `kind` String,
    `word` String,
    `ids` AggregateFunction(groupBitmap, UInt64)
)
COMMENT 'feeds search_words with profiles'
AS WITH
    x -> lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(x), '\\p{M}', '')) AS folded,
    (x -> replaceRegexpAll(folded(x), '[^\\p{L}\\p{N}]+', '')) AS joined
SELECT
    'trader' AS kind,
    word,
    groupBitmapState(id) AS ids
FROM
(
    SELECT
        arrayJoin(arrayConcat(extractAll(folded(concat(name, ' ', x_username)), '[\\p{L}\\p{N}]+'), if(joined(name) = '', [], [concat('=', joined(name))]), if(joined(x_username) = '', [], [concat('@', joined(x_username))]))) AS word,
        bitAnd(reinterpretAsUInt64(reverse(substring(trader, 17))), 67108863) AS id
    FROM fillstream.traders
)
GROUP BY word;

CREATE TABLE fillstream.traders
(
    `trader` FixedString(20) DEFAULT unhex(trader_hex) COMMENT 'address of the trader, 20 bytes',
    `name` String COMMENT 'display name',
    `profile_image` String COMMENT 'URL of an image, or empty',
    `x_username` String COMMENT 'account on X, or empty',
    `profile_created_at` String COMMENT 'ISO 8601 UTC, or empty',
    `taker_tier` UInt8 COMMENT '0 to 6',
    `taker_tier_name` String COMMENT 'name of the tier',
    `weighted_volume_usd` Float64 COMMENT '30-day weighted volume in USD, from the public profile',
    `has_weighted_volume` Bool COMMENT 'false until the public profile had one',
    `observed_at` DateTime64(3, 'UTC') COMMENT 'when ingest observed it, UTC; the newest row is valid',
    `stored_at` DateTime('UTC') DEFAULT now() COMMENT 'when it was stored, UTC; caches poll it for new rows',
    `trader_hex` String EPHEMERAL COMMENT 'input as hex text, not stored'
)
ENGINE = ReplacingMergeTree(observed_at)
ORDER BY trader
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256, min_compress_block_size = 4096, min_bytes_for_wide_part = 104857600
COMMENT 'newest public profile of each trader';
