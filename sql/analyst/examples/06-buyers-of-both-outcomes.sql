-- Who bought both outcomes of the same market in the last 7 days, and what did they earn? A share of each
-- outcome pays 1 USDC together, so if the two prices add up to less than 1, each such pair is a certain profit before fees.
SELECT
    trader,
    condition_id,
    sumIf(usdc, side = 'BUY') AS bought_usdc,
    sumIf(usdc, side = 'BUY' AND outcome_index = 0)
        / sumIf(shares, side = 'BUY' AND outcome_index = 0) AS price_0,
    sumIf(usdc, side = 'BUY' AND outcome_index = 1)
        / sumIf(shares, side = 'BUY' AND outcome_index = 1) AS price_1,
    sum(realised_pnl) AS realised_by_fills
FROM analyst.fills
WHERE time >= now('UTC') - INTERVAL 7 DAY
GROUP BY trader, condition_id
HAVING sumIf(shares, side = 'BUY' AND outcome_index = 0) > 0
    AND sumIf(shares, side = 'BUY' AND outcome_index = 1) > 0
ORDER BY bought_usdc DESC, trader, condition_id
LIMIT 50
