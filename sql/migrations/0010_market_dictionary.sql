-- Tags, series, number, category and boards of each market, in memory.
-- Serves: every filter by tag or series, joined at read time, so that a changed tag applies to all history at once;
-- leaderboard_window. The category is the main tag: of the market's tags, the first in the order below, which has the least
-- weight in a trader's weighted volume. `boards` has a bit for each leaderboard that counts the market, because grouping by
-- a number is cheaper than by an array of texts: bit 0 is "all", bit n the nth of the tags below; "sports" excludes markets
-- that are also tagged "esports". The key is the condition id's bytes reinterpreted as a number. The projector reloads it
-- when listings change (the embedded engine ignores LIFETIME; other nodes of a cluster follow within a minute).
-- ORDER BY: none, a hash table. Rows: one per market, all in memory. Retention: as markets.
-- The engine has no comments on attributes of a dictionary.
CREATE DICTIONARY IF NOT EXISTS market_dictionary
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
