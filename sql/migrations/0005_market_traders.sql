-- A second copy of trader_markets, by market.
-- Serves: the traders and holders of a market, its totals and its open interest, and the open positions that the projector
-- reads when LEDGER first names their market. ORDER BY condition_id: one market is one range.
-- Rows: one per trader and market. Retention: unlimited.
-- The condition_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS market_traders
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
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, trader)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'sums and newest position per trader and market, by market';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_traders_mv TO market_traders
COMMENT 'feeds market_traders'
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
