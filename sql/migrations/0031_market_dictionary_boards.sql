-- The dictionary of markets with one more number: the leaderboards that count the market. Bit 0 is "all", bit n the nth of
-- the tags below; "sports" excludes markets that are also tagged "esports".
-- Serves: what 0008 serves, and leaderboard_window, because to group by a number is cheaper than by an array of texts.
-- ORDER BY: none, a hash table. Rows: one per market, all in memory. Retention: as markets.
CREATE OR REPLACE DICTIONARY market_dictionary
(
    condition UInt256,
    market_id UInt64,
    tags Array(String),
    series_slug String,
    category String DEFAULT 'other',
    boards UInt32 DEFAULT 1
)
PRIMARY KEY condition
SOURCE(CLICKHOUSE(QUERY 'SELECT reinterpretAsUInt256(condition_id) AS condition, market_id, tags, series_slug, multiIf(
    has(tags, ''geopolitics''), ''geopolitics'',
    has(tags, ''sports''), ''sports'',
    has(tags, ''politics''), ''politics'',
    has(tags, ''finance''), ''finance'',
    hasAny(tags, [''mentions'', ''tweets-markets'']), ''mentions'',
    has(tags, ''tech''), ''tech'',
    hasAny(tags, [''economics'', ''economy'']), ''economics'',
    hasAny(tags, [''culture'', ''pop-culture'']), ''culture'',
    has(tags, ''weather''), ''weather'',
    has(tags, ''crypto''), ''crypto'',
    ''other'') AS category,
    toUInt32(1 + arraySum((name, bit) -> bitShiftLeft(toUInt32(
        has(tags, name) AND NOT (name = ''sports'' AND has(tags, ''esports''))), bit),
        [''sports'', ''crypto'', ''geopolitics'', ''politics'', ''finance'', ''esports'', ''pop-culture'', ''tech'', ''economy'',
        ''weather'', ''elections'', ''tweets-markets'', ''basketball'', ''hockey'', ''soccer'', ''tennis'', ''counter-strike-2'',
        ''dota-2'', ''league-of-legends'', ''5M'', ''15M''], range(1, 22))) AS boards
FROM {database}.markets FINAL'))
LIFETIME(MIN 30 MAX 60)
LAYOUT(COMPLEX_KEY_HASHED())
COMMENT 'tags, series, number, category and boards of each market, by reinterpretAsUInt256(condition_id)';
