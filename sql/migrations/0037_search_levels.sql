-- Two levels instead of three, the first with 5,000 entries: cheap enough for each search to read all of it.
-- Serves: search. ORDER BY: as before. Rows: as before. Retention: until the next refresh.
ALTER TABLE search_markets COMMENT COLUMN level '0: the first 5,000 by volume, 1: the others';

ALTER TABLE search_markets_mv MODIFY QUERY
SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    max(listed_id) AS id,
    condition_id AS key,
    sum(traded) AS rank,
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
HAVING id != 0
WINDOW ranked AS (ORDER BY rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;

ALTER TABLE search_traders COMMENT COLUMN level '0: the first 5,000 by fills, 1: the others';

ALTER TABLE search_traders_mv MODIFY QUERY
SELECT
    if(row_number() OVER ranked <= 5000, 0, 1) AS level,
    bitAnd(reinterpretAsUInt64(reverse(substring(trader, 17))), 67108863) AS id,
    trader AS key,
    toInt64(sum(fills)) AS rank,
    now64(3, 'UTC') AS refreshed_at
FROM trader_activity
GROUP BY trader
WINDOW ranked AS (ORDER BY rank DESC)
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;
