-- Who makes the 5-minute crypto markets, and what is their realised spread? The spread is the gain of their fills of
-- the last day at the price at the end of the same minute, also in basis points of their volume.
SELECT
    f.trader AS trader, sum(usdc) AS volume, sum(signed_shares * (close - price_yes)) AS spread,
    round(10000 * toFloat64(spread) / nullIf(toFloat64(volume), 0), 1) AS basis_points
FROM (SELECT trader, condition_id, time, usdc, signed_shares, price_yes FROM analyst.fills
    WHERE hasAll(tags, ['crypto', '5M']) AND NOT is_taker AND shares > 0 AND time >= now('UTC') - INTERVAL 1 DAY) AS f
ASOF INNER JOIN (SELECT condition_id, minute, close FROM analyst.prices_1m
    WHERE hasAll(tags, ['crypto', '5M']) AND minute >= now('UTC') - INTERVAL 1 DAY - INTERVAL 1 MINUTE) AS p
ON p.condition_id = f.condition_id AND p.minute <= f.time
GROUP BY trader ORDER BY volume DESC, trader LIMIT 20
