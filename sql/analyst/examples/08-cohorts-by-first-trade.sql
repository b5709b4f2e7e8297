-- Do traders come back? Groups the traders who first traded in the last 7 days by day, and counts how many traded 0,
-- 1, 2 … days later: on day 0 the whole cohort.
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
