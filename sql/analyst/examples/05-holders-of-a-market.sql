-- Who holds a market, and at what average price? Shows the 25 largest holders of each outcome. The WITH clause picks the
-- open market with the most fills in the last 7 days; for another market use its condition id or
-- `SELECT condition_id FROM analyst.markets WHERE market_id = …`.
WITH
    (
        SELECT condition_id
        FROM analyst.fills
        WHERE time >= now('UTC') - INTERVAL 7 DAY
            AND condition_id IN (SELECT condition_id FROM analyst.markets WHERE NOT is_resolved)
        GROUP BY condition_id
        ORDER BY count() DESC, condition_id
        LIMIT 1
    ) AS market
SELECT h.question, h.outcome, h.trader, t.name, h.shares, h.average_price, h.mark, h.value, h.unrealised_pnl
FROM analyst.holders AS h
LEFT JOIN analyst.traders AS t ON t.trader = h.trader
WHERE h.condition_id = market
ORDER BY h.outcome_index, h.shares DESC, h.trader
LIMIT 25 BY h.outcome_index
