-- Who buys before the price moves ten points? Counts how often the outcome that a taker bought in the last day was 0.10
-- or more above the purchase price nine to ten minutes later. Selling one outcome counts as buying the other.
SELECT
    t.trader AS trader, count() AS trades, sum(usdc) AS volume,
    countIf(sign(signed_shares) * (close - price_yes) >= 0.1) AS before_moves
FROM (SELECT trader, condition_id, time, usdc, signed_shares, price_yes FROM analyst.trades
    WHERE time >= now('UTC') - INTERVAL 1 DAY AND time <= now('UTC') - INTERVAL 10 MINUTE AND shares > 0) AS t
ASOF INNER JOIN (SELECT condition_id, minute, close FROM analyst.prices_1m
    WHERE minute >= now('UTC') - INTERVAL 1 DAY - INTERVAL 1 MINUTE) AS p
ON p.condition_id = t.condition_id AND p.minute <= t.time + INTERVAL 9 MINUTE
GROUP BY trader ORDER BY before_moves DESC, trades, trader LIMIT 20
