-- Who follows the leader? A taker's trade follows the last trade of a leader before it in the same market and direction,
-- by another trader, in an earlier second and at most an hour before. Leaders are the 20 traders with the highest PnL of
-- the last 7 days. The last trade of a leader may be the taker's own: `other` is the last one by another leader.
SELECT
    if(t.trader = l.last.1, l.last.2, l.last.1) AS leader,
    t.trader AS follower,
    count() AS follows,
    uniqExact(t.condition_id) AS markets,
    sum(t.usdc) AS volume,
    round(avg(dateDiff('second', if(t.trader = l.last.1, l.last.3, l.time) AS led_at, t.time))) AS seconds_after
FROM
(
    SELECT trader, condition_id, time, usdc, signed_shares > 0 AS is_up
    FROM analyst.trades
    WHERE time >= now('UTC') - INTERVAL 7 DAY AND shares > 0
) AS t
ASOF INNER JOIN
(
    SELECT condition_id, is_up, time, argMax((trader, other.1, other.2), place) AS last
    FROM
    (
        SELECT *, argMaxIf((previous, previous_time), place, previous != trader)
            OVER (PARTITION BY condition_id, is_up ORDER BY place ROWS UNBOUNDED PRECEDING) AS other
        FROM
        (
            SELECT trader, condition_id, time, signed_shares > 0 AS is_up, (block_number, log_index) AS place,
                lagInFrame(trader) OVER market AS previous, lagInFrame(time) OVER market AS previous_time
            FROM analyst.trades
            WHERE time >= now('UTC') - INTERVAL 7 DAY AND shares > 0 AND trader IN
            (
                SELECT trader
                FROM analyst.leaderboards
                WHERE time_frame = '7D' AND tag = 'all'
                ORDER BY realised_pnl DESC, trader
                LIMIT 20
            )
            WINDOW market AS (PARTITION BY condition_id, is_up ORDER BY place)
        )
    )
    GROUP BY condition_id, is_up, time
) AS l ON l.condition_id = t.condition_id AND l.is_up = t.is_up AND l.time < t.time
WHERE t.time <= led_at + INTERVAL 1 HOUR
GROUP BY leader, follower
ORDER BY follows DESC, volume DESC, leader, follower
LIMIT 50
