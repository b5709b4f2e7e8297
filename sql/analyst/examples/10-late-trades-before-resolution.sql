-- Who bought the winner in the last hour before a resolution, and how far below the 1 USDC that it paid?
-- Covers resolutions of the last 7 days, without markets that were split 50-50.
SELECT
    f.trader,
    m.question,
    m.winning_outcome,
    dateDiff('second', f.time, m.resolved_at) AS seconds_before,
    f.is_taker,
    f.shares,
    f.price,
    f.shares - f.usdc - f.fee AS gain
FROM analyst.fills AS f
INNER JOIN analyst.markets AS m ON m.condition_id = f.condition_id
WHERE m.resolved_at >= now('UTC') - INTERVAL 7 DAY
    AND f.time >= now('UTC') - INTERVAL 8 DAY
    AND f.side = 'BUY'
    AND f.outcome_index = m.winning_outcome_index
    AND f.shares > 0
    AND f.time < m.resolved_at
    AND f.time > m.resolved_at - INTERVAL 1 HOUR
ORDER BY gain DESC, f.trader, f.block_number, f.log_index
LIMIT 50
