-- Every listed market with its volume and its end, replaced as a whole by each refresh. Serves: search, which ranks open
-- markets by volume, then the others by their end.
-- ORDER BY: the level, then the numbers of search_words, so that only the first entries of a frequent word are ranked.
-- Level 0 is so small that each search can read all of it. Rows: one per listed market. Retention: until the next refresh.
CREATE TABLE IF NOT EXISTS search_markets
(
    level UInt8 COMMENT '0: the first 5,000 in the order of the search, 1: the others',
    id UInt64 COMMENT 'number of the market',
    key FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    rank Int64 COMMENT 'micro-USDC of all matches, each once',
    ended_at DateTime('UTC') COMMENT 'time of the resolution, or the end date if that is past, UTC; 1970 while open',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (level, id)
SETTINGS index_granularity = 256, min_compress_block_size = 16384
COMMENT 'listed markets with their volume and end, replaced at each refresh';

CREATE MATERIALIZED VIEW IF NOT EXISTS search_markets_mv
REFRESH EVERY 1 MINUTE TO search_markets
COMMENT 'refreshes search_markets'
AS
SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    max(listed_id) AS id,
    condition_id AS key,
    sum(traded) AS rank,
    multiIf(max(resolved) > 0, max(resolved), max(listed_end).2 > now('UTC'), toDateTime(0, 'UTC'), max(listed_end).2) AS ended_at,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        condition_id,
        market_id AS listed_id,
        (observed_at, parseDateTimeBestEffortOrZero(end_date, 'UTC')) AS listed_end,
        toInt64(0) AS traded,
        toDateTime(0, 'UTC') AS resolved
    FROM markets
    UNION ALL
    SELECT
        condition_id,
        toUInt64(0) AS listed_id,
        (toDateTime64(0, 3, 'UTC'), toDateTime(0, 'UTC')) AS listed_end,
        market_marks.volume AS traded,
        toDateTime(0, 'UTC') AS resolved
    FROM market_marks
    UNION ALL
    SELECT
        condition_id,
        toUInt64(0) AS listed_id,
        (toDateTime64(0, 3, 'UTC'), toDateTime(0, 'UTC')) AS listed_end,
        toInt64(0) AS traded,
        resolutions.resolved_at AS resolved
    FROM resolutions
)
GROUP BY condition_id
HAVING id != 0
WINDOW ranked AS (ORDER BY toUnixTimestamp(ended_at) > 0, ended_at DESC, rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;
