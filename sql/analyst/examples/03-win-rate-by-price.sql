-- Are prices good predictions? Shows which share of purchases at 0.00-0.10, 0.10-0.20 … bought the winner. If prices
-- are fair, won_percent is close to the price. Covers fills of the last 7 days, without markets that were split 50-50.
SELECT
    least(floor(toFloat64(f.price) * 10) / 10, 0.9) AS price_from,
    count() AS fills,
    sum(f.shares) AS shares_bought,
    sumIf(f.shares, f.outcome_index = m.winning_outcome_index) AS shares_won,
    round(100 * toFloat64(shares_won) / toFloat64(shares_bought), 1) AS won_percent
FROM analyst.fills AS f
INNER JOIN analyst.markets AS m ON m.condition_id = f.condition_id
WHERE f.time >= now('UTC') - INTERVAL 7 DAY
    AND f.side = 'BUY' AND f.shares > 0 AND m.winning_outcome_index IS NOT NULL
GROUP BY price_from
ORDER BY price_from
