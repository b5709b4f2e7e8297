-- Which types of markets were traded in the last 7 days: moneylines, spreads, totals or others? The volume is that
-- of takers only, so that each match counts once; fills and traders include makers.
SELECT
    if(m.market_type = '', '(no sports)', m.market_type) AS type,
    uniqExact(h.condition_id) AS markets,
    sum(h.taker_volume) AS taker_usdc,
    sum(h.fills) AS fills,
    uniqExact(h.trader) AS traders
FROM analyst.trader_hours AS h
INNER JOIN analyst.markets AS m ON m.condition_id = h.condition_id
WHERE h.hour >= toStartOfHour(now('UTC') - INTERVAL 7 DAY) AND h.fills > 0
GROUP BY type
ORDER BY taker_usdc DESC, type
