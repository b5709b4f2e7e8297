-- When traders opened, added to, reduced and closed positions, and when those were settled. Fast by `time`.
-- The same events as in api/analytics/position-events.ts.
CREATE OR REPLACE VIEW analyst.position_events
(
    time DateTime('UTC') COMMENT 'time of the block, UTC',
    block_number UInt64 COMMENT 'block of the log',
    log_index UInt32 COMMENT 'log of the fill, of the first transfer or of the resolution',
    type String COMMENT 'opened, added, reduced, closed or settled; a trade that changes sides is closed and opened',
    cause Enum8('fill' = 0, 'settlement' = 1, 'movement' = 2, 'opening' = 3)
        COMMENT 'a fill, the resolution of the market, or shares that moved without a fill; never opening',
    trader String COMMENT 'wallet, 0x-hex in lower case',
    condition_id String COMMENT 'market on chain, 0x-hex in lower case',
    market_id UInt64 COMMENT 'number of the market; 0 while its listing is unknown',
    tags Array(String) COMMENT 'tags of the market, as of now',
    outcome_index UInt8 COMMENT 'outcome that is held, 0 or 1',
    shares_before Decimal(38, 6) COMMENT 'shares of the outcome held before',
    shares_after Decimal(38, 6) COMMENT 'shares of the outcome held after',
    value Decimal(38, 6) COMMENT 'USDC that the shares which came or left were worth at the price of the event, without fee; the payout',
    cost_after Decimal(38, 6) COMMENT 'what the shares held after have cost, USDC without fees',
    realised_pnl Decimal(38, 6) COMMENT 'USDC realised, net of fees',
    is_taker Bool COMMENT 'true for the taker of a match'
)
SQL SECURITY DEFINER
COMMENT 'what became of positions: opened, added to, reduced, closed, settled'
AS
SELECT
    block_time AS time,
    block_number,
    log_index,
    event.1 AS type,
    kind AS cause,
    concat('0x', lower(hex(b.trader))) AS trader,
    concat('0x', lower(hex(b.condition_id))) AS condition_id,
    dictGetOrDefault('{database}.market_dictionary', 'market_id',
        tuple(reinterpretAsUInt256(b.condition_id)), 0) AS market_id,
    dictGetOrDefault('{database}.market_dictionary', 'tags',
        tuple(reinterpretAsUInt256(b.condition_id)), []) AS tags,
    if(event.3 = 0, event.2, event.3) < 0 AS outcome_index,
    toDecimal128(abs(event.2), 6) / 1000000 AS shares_before,
    toDecimal128(abs(event.3), 6) / 1000000 AS shares_after,
    toDecimal128(event.4, 6) / 1000000 AS value,
    toDecimal128(if(event.3 = 0, 0, position_cost), 6) / 1000000 AS cost_after,
    -- Of a trade that changes sides, closing realises.
    toDecimal128(if(event.1 = 'opened' AND position_before != 0, 0, b.realised_pnl), 6) / 1000000 AS realised_pnl,
    is_taker
FROM
(
    SELECT
        *,
        if(position_outcome = 0, position_shares, -position_shares) AS net,
        if(outcome_index = (if(net = 0, position_before, net) < 0), usdc, shares - usdc) AS whole,
        toInt64(intDivOrZero(toInt128(usdc) * abs(position_before), shares)) AS closing_usdc,
        multiIf(
            kind = 'settlement', [('settled', position_before, toInt64(0), usdc)],
            position_before = 0, [('opened', position_before, net, whole)],
            net = 0, [('closed', position_before, net, whole)],
            sign(position_before) != sign(net), [
                ('closed', position_before, toInt64(0),
                    if(outcome_index = (position_before < 0), closing_usdc, abs(position_before) - closing_usdc)),
                ('opened', toInt64(0), net,
                    if(outcome_index = (net < 0), usdc - closing_usdc, shares - abs(position_before) - usdc + closing_usdc))],
            abs(net) > abs(position_before), [('added', position_before, net, whole)],
            [('reduced', position_before, net, whole)]) AS events
    FROM {database}.bookings_by_time
    WHERE kind != 'opening' AND position_before != net
) AS b
ARRAY JOIN events AS event
