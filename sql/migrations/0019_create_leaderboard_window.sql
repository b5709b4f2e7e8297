-- The leaderboard of the last {seconds} for every tag, computed from raw rows, so that the window
-- is exact to the second. Serves: the refreshable views below; not meant for a request.
-- 'sports' leaves out what carries 'esports' (specification 4.3, rule 1). A market is won when its
-- realised PnL inside the window is above 0; it counts when it has a fill or a settlement there.
CREATE VIEW IF NOT EXISTS leaderboard_window AS
SELECT
    tag,
    trader,
    sum(pnl) AS realised_pnl,
    sum(cost) AS realised_cost,
    sum(volume) AS volume,
    toUInt32(count()) AS markets_count,
    toUInt32(countIf(pnl > 0)) AS wins_count,
    now64(3, 'UTC') AS refreshed_at
FROM
(
    SELECT
        trader,
        condition_id,
        sum(realised_pnl) AS pnl,
        sum(realised_cost) AS cost,
        sumIf(usdc, kind = 'fill') AS volume,
        dictGetOrDefault('market_dictionary', 'tags', tuple(reinterpretAsUInt256(condition_id)), []) AS tags
    FROM bookings
    WHERE block_time >= now('UTC') - {seconds:UInt32} AND block_time <= now('UTC')
    GROUP BY trader, condition_id
)
ARRAY JOIN arrayConcat(
    ['all'],
    if(has(tags, 'sports') AND NOT has(tags, 'esports'), ['sports'], []),
    arrayIntersect(tags, ['crypto', 'geopolitics', 'politics', 'finance', 'esports', 'pop-culture',
        'tech', 'economy', 'weather', 'elections', 'tweets-markets', 'basketball', 'hockey', 'soccer',
        'tennis', 'counter-strike-2', 'dota-2', 'league-of-legends', '5M', '15M'])) AS tag
GROUP BY tag, trader
