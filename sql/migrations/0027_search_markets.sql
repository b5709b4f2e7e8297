-- Every listed market with its volume, replaced as a whole by each refresh. Serves: search, which ranks by volume.
-- ORDER BY market_id: the numbers that market_words finds. Rows: one per listed market. Retention: until the next
-- refresh.
CREATE TABLE IF NOT EXISTS search_markets
(
    market_id UInt64 COMMENT 'number of the market',
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    volume Int64 COMMENT 'micro-USDC of all matches, each once',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY market_id
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'listed markets with their volume, replaced at each refresh';

CREATE MATERIALIZED VIEW IF NOT EXISTS search_markets_mv
REFRESH EVERY 1 MINUTE TO search_markets
COMMENT 'refreshes search_markets'
AS
SELECT
    max(listed_id) AS market_id,
    condition_id,
    sum(traded) AS volume,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT condition_id, market_id AS listed_id, toInt64(0) AS traded
    FROM markets
    UNION ALL
    SELECT condition_id, toUInt64(0) AS listed_id, market_marks.volume AS traded
    FROM market_marks
)
GROUP BY condition_id
HAVING market_id != 0
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;
