-- Sums per trader, hour and market. Serves: hourly statistics of a trader, with and without a tag;
-- whole hours of long windows. ORDER BY trader, hour: one trader's hours are one range.
-- Rows: below one per fill. Retention: unlimited.
-- trader_text: the view's 0x-text sorts as the bytes do, so its minima and maxima prune like the key.
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
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 1024,
    min_compress_block_size = 16384
COMMENT 'sums per trader, hour and market'
