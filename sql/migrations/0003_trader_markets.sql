-- Sums per trader and market over all time with the newest position, filled by every insert into bookings.
-- Serves: a trader's history of markets, newest first, and positions. ORDER BY trader: one trader is one range.
-- Elements of `position`: version is the order of the chain, (block · 2^20 + log) · 32 + rank; outcome is
-- the outcome held; amounts are micro-shares and micro-USDC. Read it with max(): with FINAL, the engine takes its elements
-- from different rows.
-- Rows: one per trader and market, about a tenth of the fills. Retention: unlimited.
-- The trader_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS trader_markets
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    realised_pnl SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    realised_cost SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, the denominator of ROI',
    fee SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fees paid',
    maker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as maker',
    taker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as taker',
    fills SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    settlements SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    first_trade_at SimpleAggregateFunction(min, DateTime('UTC')) COMMENT 'first fill, UTC',
    last_trade_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    balance_0 SimpleAggregateFunction(sum, Int64) COMMENT 'micro-shares of outcome 0 by fills and movements, in blocks whose movements were read',
    balance_1 SimpleAggregateFunction(sum, Int64) COMMENT 'the same of outcome 1',
    position SimpleAggregateFunction(max, Tuple(version UInt64, outcome UInt8, shares Int64, cost_basis Int64, open_fees Int64))
        COMMENT 'what is held now; shares = 0 once closed',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY (trader, condition_id)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'sums and newest position per trader and market, by trader';

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_markets_mv TO trader_markets
COMMENT 'feeds trader_markets'
AS
SELECT
    trader,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker_volume,
    sumIf(usdc, kind = 'fill' AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements,
    min(if(kind = 'fill', block_time, toDateTime(4294967295, 'UTC'))) AS first_trade_at,
    maxIf(block_time, kind = 'fill') AS last_trade_at,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND side != 'NONE' AND outcome_index = 0) AS balance_0,
    sumIf(if(side = 'BUY', bookings.shares, -bookings.shares), is_covered AND side != 'NONE' AND outcome_index = 1) AS balance_1,
    max(((block_number * 1048576 + log_index) * 32 + rank,
        position_outcome, position_shares, position_cost, position_fees)) AS position
FROM bookings
GROUP BY trader, condition_id;
