-- The position of a trader in a market at the end of each hour with a fill or a settlement.
-- Serves: equity, which otherwise reads every booking of the trader. ORDER BY: as before. Rows: as before.
-- Retention: as before.
ALTER TABLE trader_hours ADD COLUMN IF NOT EXISTS
    position SimpleAggregateFunction(max, Tuple(version UInt64, outcome UInt8, shares Int64, cost_basis Int64, open_fees Int64))
    COMMENT 'what was held at the end of the hour; shares = 0 once closed'
    AFTER settlements;

ALTER TABLE trader_hours_mv MODIFY QUERY
SELECT
    trader,
    toStartOfHour(block_time) AS hour,
    condition_id,
    sum(realised_pnl) AS realised_pnl,
    sum(realised_cost) AS realised_cost,
    sum(fee) AS fee,
    sumIf(usdc, kind = 'fill' AND NOT is_taker) AS maker_volume,
    sumIf(usdc, kind = 'fill' AND is_taker) AS taker_volume,
    countIf(kind = 'fill') AS fills,
    countIf(kind = 'settlement') AS settlements,
    max(((block_number * 1048576 + log_index) * 2 + (kind = 'settlement'),
        position_outcome, position_shares, position_cost, position_fees)) AS position
FROM bookings
GROUP BY trader, hour, condition_id;

-- In the order of the key, so that it takes little memory.
INSERT INTO trader_hours (trader, condition_id, hour, position)
SELECT
    trader,
    condition_id,
    toStartOfHour(block_time) AS hour,
    max(((block_number * 1048576 + log_index) * 2 + (kind = 'settlement'),
        position_outcome, position_shares, position_cost, position_fees)) AS position
FROM bookings
GROUP BY trader, condition_id, hour
SETTINGS optimize_aggregation_in_order = 1;
