-- How good a forecast is the price an hour before the resolution? Groups the markets that were resolved in the last 30
-- days, without those split 50-50, by the price of their first outcome. If prices are fair, won_percent is close to the
-- average price. A Brier score of 0 is perfect; 0.25 is that of a coin toss.
SELECT
    least(floor(toFloat64(p.close) * 10) / 10, 0.9) AS price_from,
    count() AS markets,
    round(avg(toFloat64(p.close)), 3) AS average_price,
    round(100 * avg(m.winner = 0), 1) AS won_percent,
    round(avg(pow(toFloat64(p.close) - (m.winner = 0), 2)), 4) AS brier_score
FROM
(
    SELECT condition_id, assumeNotNull(winning_outcome_index) AS winner, assumeNotNull(resolved_at) AS resolved
    FROM analyst.markets
    WHERE winning_outcome_index IS NOT NULL AND resolved_at >= now('UTC') - INTERVAL 30 DAY
) AS m
ASOF INNER JOIN
(
    SELECT condition_id, minute, close
    FROM analyst.prices_1m
    WHERE condition_id IN (SELECT condition_id FROM analyst.markets WHERE resolved_at >= now('UTC') - INTERVAL 30 DAY)
) AS p ON p.condition_id = m.condition_id AND p.minute <= m.resolved - INTERVAL 61 MINUTE
GROUP BY price_from
ORDER BY price_from
