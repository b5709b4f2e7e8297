-- Sums per trader and market over all time.
-- Serves: a market's earners, traders and volume. ORDER BY condition_id: one market is one range.
-- Rows: one per trader and market, about a tenth of the fills. Retention: unlimited.
CREATE TABLE IF NOT EXISTS market_traders
(
    trader FixedString(20),
    condition_id FixedString(32),
    realised_pnl SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC, net of fees',
    realised_cost SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    fee SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    maker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    taker_volume SimpleAggregateFunction(sum, Int64) COMMENT 'micro-USDC',
    fills SimpleAggregateFunction(sum, UInt64),
    settlements SimpleAggregateFunction(sum, UInt64) COMMENT 'open positions settled',
    last_trade_at SimpleAggregateFunction(max, DateTime('UTC')) COMMENT 'newest fill'
)
ENGINE = AggregatingMergeTree
ORDER BY (condition_id, trader)
SETTINGS non_replicated_deduplication_window = 1000
