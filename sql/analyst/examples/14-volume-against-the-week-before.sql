-- How does the daily volume of each category compare with the same day a week earlier? Covers the last seven whole days;
-- change_percent is NULL where nothing was traded a week earlier.
WITH toDate(now('UTC')) AS today
SELECT
    traded + age AS day, category, sumIf(usdc, age = 0) AS volume, sumIf(usdc, age = 7) AS week_before,
    round(100 * (toFloat64(volume) / nullIf(toFloat64(week_before), 0) - 1), 1) AS change_percent
FROM (SELECT toDate(time) AS traded, category, sum(usdc) AS usdc FROM analyst.trades
    WHERE time >= today - 14 GROUP BY traded, category) ARRAY JOIN [0, 7] AS age
WHERE day BETWEEN today - 7 AND today - 1
GROUP BY day, category
ORDER BY day DESC, volume DESC, category
