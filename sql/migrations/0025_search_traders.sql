-- Every trader with the number of fills, replaced as a whole by each refresh. Serves: search, which ranks by it.
-- ORDER BY as in search_markets. Rows: one per trader. Retention: until the next refresh.
CREATE TABLE IF NOT EXISTS search_traders
(
    level UInt8 COMMENT '0: the first 5,000 by fills, 1: the others',
    id UInt64 COMMENT 'last 26 bits of the address, as in search_words',
    key FixedString(20) COMMENT 'address of the trader, 20 bytes',
    rank Int64 COMMENT 'fills, as maker and as taker',
    last_trade_at DateTime('UTC') COMMENT 'newest fill, UTC',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (level, id)
SETTINGS index_granularity = 256, min_compress_block_size = 16384
COMMENT 'traders with their number of fills, replaced at each refresh';

CREATE MATERIALIZED VIEW IF NOT EXISTS search_traders_mv
REFRESH EVERY 1 MINUTE TO search_traders
COMMENT 'refreshes search_traders'
AS
SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    bitAnd(reinterpretAsUInt64(reverse(substring(trader, 17))), 67108863) AS id,
    trader AS key,
    toInt64(sum(fills)) AS rank,
    max(trader_activity.last_trade_at) AS last_trade_at,
    now64(3, 'UTC') AS refreshed_at
FROM trader_activity
GROUP BY trader
WINDOW ranked AS (ORDER BY rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;
