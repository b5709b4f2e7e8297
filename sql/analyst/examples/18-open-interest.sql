-- Where is the money? Shows open interest and volume of the unresolved markets by category. One share of each outcome
-- is together worth 1 USDC, so open interest is also the USDC that holders of both sides have at stake.
SELECT
    category,
    count() AS markets,
    sum(open_interest) AS open_interest,
    sum(volume) AS volume,
    sum(volume_24h) AS volume_24h,
    round(toFloat64(volume_24h) / nullIf(toFloat64(open_interest), 0), 3) AS turnover_24h
FROM analyst.market_stats
WHERE mark_source != 'resolution'
GROUP BY category
ORDER BY open_interest DESC, category
