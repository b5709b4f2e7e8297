-- The position of each trader in each market at the end of each hour with a fill or settlement, filled by every insert into
-- bookings.
-- Serves: PnL over time, without reading all fills of a wallet. ORDER BY trader, condition_id, hour: one trader is one range.
-- `position` as in trader_markets; read it with max(). Rows: as trader_hours. Retention: unlimited.
CREATE TABLE IF NOT EXISTS trader_market_hours
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    hour DateTime('UTC') COMMENT 'start of the hour, UTC' CODEC(T64, ZSTD(1)),
    position SimpleAggregateFunction(max, Tuple(version UInt64, outcome UInt8, shares Int64, cost_basis Int64, open_fees Int64))
        COMMENT 'what was held at the end of the hour; shares = 0 once closed' CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
ORDER BY (trader, condition_id, hour)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'position of each trader and market at the end of each hour';

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_market_hours_mv TO trader_market_hours
COMMENT 'feeds trader_market_hours'
AS
SELECT
    trader,
    condition_id,
    toStartOfHour(block_time) AS hour,
    max(((block_number * 1048576 + log_index) * 32 + rank,
        position_outcome, position_shares, position_cost, position_fees)) AS position
FROM bookings
GROUP BY trader, condition_id, hour;
