-- What does a trader hold, at what price, and what is it worth now? The WITH clause picks the trader with the most volume of the last
-- 7 days; replace it for another one.
WITH (SELECT argMax(trader, volume) FROM analyst.leaderboards WHERE time_frame = '7D' AND tag = 'all') AS somebody
SELECT question, outcome, shares, average_price, mark, marked_at, value, unrealised_pnl, realised_pnl
FROM analyst.positions
WHERE trader = somebody
ORDER BY value DESC, condition_id
LIMIT 100
