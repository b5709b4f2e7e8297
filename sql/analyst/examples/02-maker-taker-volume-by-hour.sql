-- How much did makers and takers trade in each hour of the last 7 days, and how many traders were active?
SELECT
    hour,
    sum(maker_volume) AS maker_usdc,
    sum(taker_volume) AS taker_usdc,
    sum(fee) AS fees,
    uniqExactIf(trader, fills > 0) AS traders
FROM analyst.trader_hours
WHERE hour >= toStartOfHour(now('UTC') - INTERVAL 7 DAY)
GROUP BY hour
ORDER BY hour
