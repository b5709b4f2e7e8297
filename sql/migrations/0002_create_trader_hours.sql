-- Sums per trader, hour and market. Serves: hourly statistics of a trader, with and without a tag;
-- whole hours of long windows. ORDER BY trader, hour: one trader's hours are one range.
-- Rows: below one per fill (measured later at volume). Retention: unlimited.
CREATE TABLE IF NOT EXISTS trader_hours
(
    trader FixedString(20),
    hour DateTime('UTC') COMMENT 'start of the hour, UTC',
    condition_id FixedString(32),
    realised_pnl SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    realised_cost SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    fee SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    maker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    taker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    fills SimpleAggregateFunction(sum, UInt64),
    settlements SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled'
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (trader, hour, condition_id)
SETTINGS non_replicated_deduplication_window = 1000
