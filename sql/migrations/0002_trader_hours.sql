-- Sums per trader, hour and market, filled by every insert into bookings.
-- Serves: hourly statistics of a trader, with and without a tag; whole hours of long windows.
-- ORDER BY trader, hour: the hours of one trader are one range. Rows: fewer than one per fill.
-- Retention: unlimited.
-- The trader_text index lets the 0x-text of an analyst's view prune like the key, because it sorts as the bytes do.
CREATE TABLE IF NOT EXISTS trader_hours
(
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes',
    hour DateTime('UTC') COMMENT 'start of the hour, UTC',
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    realised_pnl SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    realised_cost SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, the denominator of ROI',
    fee SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fees paid',
    maker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as maker',
    taker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC of fills as taker',
    fills SimpleAggregateFunction(sum, UInt64) COMMENT 'fills, as maker and as taker',
    settlements SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    INDEX trader_text concat('0x', lower(hex(trader))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (trader, hour, condition_id)
SETTINGS non_replicated_deduplication_window = 10000, index_granularity = 1024,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400,
    min_bytes_for_wide_part = 104857600
COMMENT 'sums per trader, hour and market';

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_hours_mv TO trader_hours
COMMENT 'feeds trader_hours'
AS
SELECT
    trader,
    toStartOfHour(block_time) AS hour,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker_volume,
    sumIf(usdc, kind = 'fill' AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements
FROM bookings
WHERE kind IN ('fill', 'settlement') OR bookings.realised_pnl != 0 OR bookings.realised_cost != 0
GROUP BY trader, hour, condition_id;
