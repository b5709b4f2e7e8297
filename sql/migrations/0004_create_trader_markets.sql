-- Sums per trader and market over all time.
-- Serves: a trader's history of markets, newest first. ORDER BY trader: one trader is one range.
-- Rows: one per trader and market, about a tenth of the fills. Retention: unlimited.
CREATE TABLE IF NOT EXISTS trader_markets
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
ORDER BY (trader, condition_id)
SETTINGS non_replicated_deduplication_window = 1000
