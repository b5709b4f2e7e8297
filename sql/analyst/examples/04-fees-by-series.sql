-- Which series of recurring markets bring in the fees, and how much is that of what takers trade?
SELECT
    if(series = '', '(none)', series) AS series_name,
    sum(fee) AS fees,
    sum(taker_volume) AS taker_usdc,
    round(100 * toFloat64(fees) / greatest(toFloat64(taker_usdc), 0.000001), 3) AS fee_percent
FROM analyst.trader_hours
GROUP BY series_name
ORDER BY fees DESC, series_name
