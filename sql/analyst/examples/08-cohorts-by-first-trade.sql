-- Do traders come back? Of the traders whose first trade was in the last 7 days, by day: how many trade again
-- after each number of days.
SELECT
    toDate(t.first_trade_at) AS cohort,
    dateDiff('day', cohort, toDate(h.hour)) AS days_later,
    uniqExact(h.trader) AS traders,
    sum(h.maker_volume + h.taker_volume) AS volume
FROM analyst.trader_hours AS h
INNER JOIN analyst.traders AS t ON t.trader = h.trader
WHERE h.fills > 0
    AND h.hour >= toStartOfHour(now('UTC') - INTERVAL 7 DAY)
    AND t.first_trade_at >= toStartOfHour(now('UTC') - INTERVAL 7 DAY)
GROUP BY cohort, days_later
ORDER BY cohort, days_later
