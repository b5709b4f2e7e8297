-- The newest trade of each trader beside the ranks, so that a search need not read trader_activity.
-- Serves: search. ORDER BY: as before. Rows: as before. Retention: as before.
ALTER TABLE search_traders ADD COLUMN IF NOT EXISTS last_trade_at DateTime('UTC') COMMENT 'newest fill, UTC' AFTER rank;

ALTER TABLE search_traders_mv MODIFY QUERY
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
