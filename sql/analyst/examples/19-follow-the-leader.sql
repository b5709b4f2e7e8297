-- Who follows the leader? Counts taker trades of the last 7 days in the same market and direction as a trade of one of
-- the 20 traders with the highest PnL, within an hour after it.
SELECT
    l.trader AS leader,
    t.trader AS follower,
    count() AS follows,
    uniqExact(t.condition_id) AS markets,
    sum(t.usdc) AS volume,
    round(avg(dateDiff('second', l.time, t.time))) AS seconds_after
FROM
(
    SELECT trader, condition_id, time, usdc, signed_shares > 0 AS is_up
    FROM analyst.trades
    WHERE time >= now('UTC') - INTERVAL 7 DAY
) AS t
ASOF INNER JOIN
(
    SELECT trader, condition_id, time, signed_shares > 0 AS is_up
    FROM analyst.trades
    WHERE time >= now('UTC') - INTERVAL 7 DAY AND trader IN
    (
        SELECT trader
        FROM analyst.leaderboards
        WHERE time_frame = '7D' AND tag = 'all'
        ORDER BY realised_pnl DESC, trader
        LIMIT 20
    )
) AS l ON l.condition_id = t.condition_id AND l.is_up = t.is_up AND l.time < t.time
WHERE t.trader != l.trader AND t.time <= l.time + INTERVAL 1 HOUR
GROUP BY leader, follower
ORDER BY follows DESC, volume DESC, leader, follower
LIMIT 50
