-- Who has the best Sharpe ratio in politics? Divides the mean of the daily realised PnL of the last 14 days by its
-- standard deviation, annualised; a day without realised PnL counts as 0.
SELECT
    trader, sum(realised_pnl) AS pnl, toFloat64(pnl) / 14 AS mean,
    sqrt(toFloat64(14 * sum(realised_pnl * realised_pnl) - pnl * pnl) / (14 * 13)) AS deviation,
    round(sqrt(365) * mean / deviation, 2) AS sharpe
FROM analyst.trader_days
WHERE category = 'politics' AND day > toDate(now('UTC')) - 14
GROUP BY trader HAVING deviation > 0
ORDER BY sharpe DESC, trader LIMIT 20
