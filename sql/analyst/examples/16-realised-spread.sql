-- What do makers earn, and when? Shows the realised spread of the last day's fills by category: their gain 5 seconds,
-- 1 minute, 5 minutes and 1 hour later, at the last price by then, in basis points of volume. If the spread shrinks
-- with time, makers lose to better-informed takers. An ASOF JOIN takes any of several prices of one second, so the
-- subquery keeps the last.
SELECT
    f.category,
    f.after AS seconds_after,
    sum(f.usdc) AS volume,
    round(10000 * toFloat64(sum(f.signed_shares * (t.price_after - f.price_yes))) / nullIf(toFloat64(volume), 0), 1) AS basis_points
FROM
(
    SELECT category, condition_id, time, usdc, signed_shares, price_yes, after
    FROM analyst.fills
    ARRAY JOIN [5, 60, 300, 3600] AS after
    WHERE NOT is_taker AND shares > 0 AND time >= now('UTC') - INTERVAL 1 DAY AND time <= now('UTC') - after
) AS f
ASOF INNER JOIN
(
    SELECT condition_id, time, argMax(price_yes, (block_number, log_index)) AS price_after
    FROM analyst.trades
    WHERE time >= now('UTC') - INTERVAL 1 DAY AND shares > 0
    GROUP BY condition_id, time
) AS t ON t.condition_id = f.condition_id AND t.time <= f.time + f.after
GROUP BY f.category, seconds_after
ORDER BY f.category, seconds_after
