-- Sums per trader and market over all time.
-- Serves: a market's earners, traders and volume. ORDER BY condition_id: one market is one range.
-- Rows: one per trader and market, about a tenth of the fills. Retention: unlimited.
-- condition_text: the view's 0x-text sorts as the bytes do, so its minima and maxima prune like the
-- key.
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
    last_trade_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill, UTC',
    INDEX condition_text concat('0x', lower(hex(condition_id))) TYPE minmax GRANULARITY 1
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, trader)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 1024,
    min_compress_block_size = 16384
COMMENT 'sums per trader and market, by market'
