-- Every market with a match: price, change, volume, traders, open interest and the columns that lists filter by,
-- replaced as a whole by each refresh. Serves: the list of markets. ORDER BY: its default order.
-- A refresh groups market_marks, joins the listings, and reads minutes only of markets that were matched in the last 24
-- hours and their traders only of those matched since market_counts. The window begins at a whole minute.
-- Prices are rounded to nearest, like those in the API. price_24h is the last price before the window, or the first one of a
-- younger market. GLOBAL, because on a cluster each shard has the matches of its takers; there, each node computes the rows
-- of all shards.
-- Rows: one per matched market. Retention: until the next refresh.
CREATE TABLE IF NOT EXISTS market_stats
(
    condition_id FixedString(32) COMMENT 'condition id of the market, 32 bytes',
    market_id UInt64 COMMENT 'number of the market; 0 without a listing',
    mark_usdc Int64 COMMENT 'mark of outcome 0: this over mark_shares; of a resolved market its payout',
    mark_shares Int64 COMMENT 'shares of the last match, or the sum of the payouts; 0 without a price',
    marked_at DateTime('UTC') COMMENT 'time of the last match with shares or of the resolution, UTC',
    change_24h Int32 COMMENT 'price now less the price 24 hours before, micro-USD of outcome 0',
    volume_24h Int64 COMMENT 'micro-USDC of matches of the last 24 hours, each once',
    volume Int64 COMMENT 'micro-USDC of all matches, each once',
    matches UInt64 COMMENT 'number of matches',
    traders UInt32 COMMENT 'traders with a fill or a settlement',
    open_interest Int64 COMMENT 'micro-shares held of outcome 0, which equal those of outcome 1',
    first_match_at DateTime('UTC') COMMENT 'first match, UTC',
    end_at DateTime('UTC') COMMENT 'end date of the listing, UTC; 1970 if there is none',
    resolved_at DateTime('UTC') COMMENT 'time of the resolution, UTC; 1970 while unresolved',
    payout_0 UInt64 COMMENT 'payout numerator of outcome 0',
    payout_1 UInt64 COMMENT 'payout numerator of outcome 1',
    tags Array(LowCardinality(String)) COMMENT 'tags in lower case; sports only without esports',
    series LowCardinality(String) COMMENT 'slug of the series in lower case, or empty',
    event String COMMENT 'slug of the event in lower case, or empty',
    refreshed_at DateTime64(3, 'UTC') COMMENT 'when it was computed, UTC'
)
ENGINE = MergeTree
ORDER BY (-volume_24h, condition_id)
SETTINGS index_granularity = 1024, min_compress_block_size = 16384
COMMENT 'price, volume and open interest of each market, replaced at each refresh';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_stats_mv
REFRESH EVERY 30 SECOND TO market_stats
COMMENT 'refreshes market_stats'
AS
WITH
    toStartOfMinute(now('UTC') - 86400) AS since,
    (fraction) -> toInt32(least(1000000, greatest(0,
        intDivOrZero(toInt128(fraction.1) * 2000000 + fraction.2, 2 * toInt128(fraction.2))))) AS price_of
SELECT
    marks.condition_id AS condition_id,
    listings.market_id AS market_id,
    is_resolved ? toInt64(payouts.payout_0) : marks.mark.usdc AS mark_usdc,
    is_resolved ? toInt64(payouts.payout_0 + payouts.payout_1) : marks.mark.shares AS mark_shares,
    is_resolved ? payouts.resolved : marks.mark.time AS marked_at,
    price_of((mark_usdc, mark_shares)) - multiIf(
        is_resolved AND payouts.resolved < since, price_of((mark_usdc, mark_shares)),
        day.before.version > 0, price_of((day.before.usdc, day.before.shares)),
        day.first.version > 0, price_of((day.first.usdc, day.first.shares)),
        price_of((marks.mark.usdc, marks.mark.shares))) AS change_24h,
    day.traded AS volume_24h,
    marks.traded AS volume,
    marks.number AS matches,
    changed.version > 0 ? changed.traders : counts.traders AS traders,
    -- A resolution settles all positions, but is no match that would trigger a recount.
    multiIf(is_resolved, 0, changed.version > 0, changed.held, counts.open_interest) AS open_interest,
    marks.first_at AS first_match_at,
    listings.end_at AS end_at,
    payouts.resolved AS resolved_at,
    payouts.payout_0 AS payout_0,
    payouts.payout_1 AS payout_1,
    arrayFilter(tag -> tag != '' AND NOT (tag = 'sports' AND has(listings.tags, 'esports')),
        arrayDistinct(arrayMap(tag -> lowerUTF8(tag), listings.tags))) AS tags,
    lowerUTF8(listings.series_slug) AS series,
    lowerUTF8(listings.event_slug) AS event,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        condition_id,
        max(last) AS mark,
        min(first_match_at) AS first_at,
        sum(market_marks.volume) AS traded,
        sum(market_marks.matches) AS number
    FROM market_marks
    GROUP BY condition_id
) AS marks
LEFT JOIN
(
    SELECT
        condition_id,
        maxIf(close, minute < since) AS before,
        minIf(open, minute >= since) AS first,
        sumIf(market_minutes.volume, minute >= since) AS traded
    FROM market_minutes
    WHERE condition_id GLOBAL IN (SELECT condition_id FROM market_minutes WHERE minute >= since)
    GROUP BY condition_id
) AS day ON day.condition_id = marks.condition_id
LEFT JOIN market_counts AS counts ON counts.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT
        condition_id,
        max(newest) AS version,
        toUInt32(countIf(is_counted)) AS traders,
        sum(shares_held) AS held
    FROM
    (
        SELECT
            condition_id,
            max(position.version) AS newest,
            argMax(if(position.outcome = 0, position.shares, 0), position.version) AS shares_held,
            sum(fills) + sum(settlements) > 0 OR sum(realised_pnl) != 0 AS is_counted
        FROM market_traders
        WHERE condition_id GLOBAL IN
        (
            SELECT matched.condition_id
            FROM (SELECT condition_id, last.version AS version FROM market_marks) AS matched
            LEFT JOIN market_counts AS counted ON counted.condition_id = matched.condition_id
            WHERE matched.version > counted.version
        )
        GROUP BY condition_id, trader
    )
    GROUP BY condition_id
) AS changed ON changed.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT condition_id, payout_0, payout_1, resolutions.resolved_at AS resolved, true AS is_resolved
    FROM resolutions FINAL
) AS payouts ON payouts.condition_id = marks.condition_id
LEFT JOIN
(
    SELECT condition_id, market_id, tags, series_slug, event_slug, parseDateTimeBestEffortOrZero(end_date, 'UTC') AS end_at
    FROM markets FINAL
) AS listings ON listings.condition_id = marks.condition_id
SETTINGS min_insert_block_size_rows = 0, os_threads_nice_value_query = 19;
