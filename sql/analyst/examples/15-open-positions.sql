-- What does a trader hold, at what price, and what is it worth now? The WITH clause picks the largest holder of the
-- market with the most open interest; replace it for another trader.
WITH
  (SELECT argMax(condition_id, (open_interest, condition_id)) FROM analyst.market_stats) AS market,
  (SELECT argMax(trader, (shares, trader)) FROM analyst.holders WHERE condition_id = market) AS somebody
SELECT question, outcome, shares, average_price, mark, marked_at, value, unrealised_pnl, realised_pnl
FROM analyst.positions
WHERE trader = somebody
ORDER BY value DESC, condition_id
LIMIT 100
