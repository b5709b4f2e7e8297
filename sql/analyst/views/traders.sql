-- Every trader with a fill, with public profile and balance if known.
CREATE OR REPLACE VIEW analyst.traders
(
    trader String COMMENT 'wallet, 0x-hex in lower case',
    name String COMMENT 'display name, or empty',
    x_username String COMMENT 'account on X, or empty',
    profile_created_at Nullable(DateTime64(3, 'UTC')) COMMENT 'creation of the profile, UTC; NULL if unknown',
    taker_tier_name String COMMENT 'fee tier, or empty',
    balance Nullable(Decimal(38, 6)) COMMENT 'pUSD in the wallet; NULL while it was never read',
    balance_block Nullable(UInt64) COMMENT 'block at whose end the balance was read; NULL while it was not',
    fills UInt64 COMMENT 'fills, as maker and as taker',
    first_trade_at DateTime('UTC') COMMENT 'first fill, UTC',
    last_trade_at DateTime('UTC') COMMENT 'newest fill, UTC'
)
SQL SECURITY DEFINER
COMMENT 'everybody who traded: profile, balance, first and newest fill'
AS
SELECT
    concat('0x', lower(hex(activity_trader))) AS trader,
    profile_name AS name,
    profile_x_username AS x_username,
    parseDateTime64BestEffortOrNull(profile_created, 3, 'UTC') AS profile_created_at,
    profile_tier_name AS taker_tier_name,
    if(balance_at = 0, NULL, toDecimal128(balance_amount, 6) / 1000000) AS balance,
    nullIf(balance_at, 0) AS balance_block,
    activity_fills AS fills,
    activity_first AS first_trade_at,
    activity_last AS last_trade_at
FROM
(
    SELECT
        a.trader AS activity_trader,
        sum(a.fills) AS activity_fills,
        min(a.first_trade_at) AS activity_first,
        max(a.last_trade_at) AS activity_last
    FROM {database}.trader_activity AS a
    GROUP BY activity_trader
) AS activity
LEFT JOIN
(
    SELECT
        trader AS profile_trader,
        name AS profile_name,
        x_username AS profile_x_username,
        traders.profile_created_at AS profile_created,
        traders.taker_tier_name AS profile_tier_name
    FROM {database}.traders FINAL
) AS profile ON profile_trader = activity_trader
LEFT JOIN
(
    SELECT trader AS balance_trader, balances.balance AS balance_amount, block_number AS balance_at
    FROM {database}.balances FINAL
) AS wallet ON balance_trader = activity_trader
