-- Which series of recurring markets earned the most fees in the last 7 days, in USDC and as a share of taker volume?
SELECT
    if(series = '', '(none)', series) AS series_name,
    sum(fee) AS fees,
    sum(taker_volume) AS taker_usdc,
    round(100 * toFloat64(fees) / nullIf(toFloat64(taker_usdc), 0), 3) AS fee_percent
FROM analyst.trader_hours
WHERE hour >= toStartOfHour(now('UTC') - INTERVAL 7 DAY)
GROUP BY series_name
ORDER BY fees DESC, series_name
