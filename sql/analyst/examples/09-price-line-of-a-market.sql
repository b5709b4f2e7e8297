-- How did the price of a market's first outcome move over the last 7 days? The WITH clause picks
-- the market with the most fills; replace it for another market. A trade of the second outcome at p counts as one of
-- the first at 1 − p.
WITH
    (
        SELECT condition_id
        FROM analyst.fills
        WHERE time >= now('UTC') - INTERVAL 7 DAY
        GROUP BY condition_id
        ORDER BY count() DESC, condition_id
        LIMIT 1
    ) AS market
SELECT
    toStartOfFifteenMinutes(time) AS quarter,
    sum(if(outcome_index = 0, usdc, shares - usdc)) / sum(shares) AS average_price,
    argMax(price_yes, (block_number, log_index)) AS last_price,
    sum(shares) AS shares_traded
FROM analyst.trades
WHERE time >= now('UTC') - INTERVAL 7 DAY AND condition_id = market AND shares > 0
GROUP BY quarter
ORDER BY quarter
