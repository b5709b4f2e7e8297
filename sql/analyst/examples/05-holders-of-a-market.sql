-- Who holds a market, and at what average price? The WITH clause picks the open market with the most fills
-- in the last 7 days; for another market use its condition id or
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
SELECT p.question, p.outcome, p.trader, t.name, p.shares, p.cost_basis, p.average_price
FROM analyst.positions AS p
LEFT JOIN analyst.traders AS t ON t.trader = p.trader
WHERE p.condition_id = market
ORDER BY p.outcome_index, p.shares DESC, p.trader
LIMIT 50
