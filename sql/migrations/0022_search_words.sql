-- The listings and public profiles that contain each word, as bitmaps: words in lower case and without accents.
-- Listings: words of the question, the titles and the slugs of market and event, with the numbers of the markets.
-- Profiles: words of the name and of the account on X, and the whole account after @ and the whole name after =, both
-- reduced to letters and digits. A trader's number is the last 26 bits of the address, which few traders share;
-- bitmaps of longer numbers would be sparse and slow.
-- Serves: search; several words are intersected in memory. ORDER BY (kind, word): the words with a prefix are one
-- range.
-- Words that a market or trader lost stay; search compares its hits with the listings and profiles.
-- Rows: one per different word. Retention: unlimited. Granules are small because a frequent word has a large bitmap.
-- Parts older than a day merge into one, because a search opens the columns of every part.
CREATE TABLE IF NOT EXISTS search_words
(
    kind Enum8('market' = 1, 'trader' = 2) COMMENT 'what has the word',
    word String COMMENT 'letters and digits, lower case, without accents; with = or @ before all of a name or account',
    ids AggregateFunction(groupBitmap, UInt64) COMMENT 'numbers of the markets, or of the traders as in search_traders'
)
ENGINE = AggregatingMergeTree
ORDER BY (kind, word)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 128,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400
COMMENT 'markets and traders by word';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_words_mv TO search_words
COMMENT 'feeds search_words with listings'
AS
SELECT 'market' AS kind, word, groupBitmapState(market_id) AS ids
FROM
(
    SELECT
        arrayJoin(extractAll(lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(
            concat(question, ' ', event_title, ' ', group_item_title, ' ', slug, ' ', event_slug)),
            '\\p{M}', '')), '[\\p{L}\\p{N}]+')) AS word,
        market_id
    FROM markets
    WHERE market_id != 0
)
GROUP BY word;

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_words_mv TO search_words
COMMENT 'feeds search_words with profiles'
AS
WITH
    x -> lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(x), '\\p{M}', '')) AS folded,
    x -> replaceRegexpAll(folded(x), '[^\\p{L}\\p{N}]+', '') AS joined
SELECT 'trader' AS kind, word, groupBitmapState(id) AS ids
FROM
(
    SELECT
        arrayJoin(arrayConcat(
            extractAll(folded(concat(name, ' ', x_username)), '[\\p{L}\\p{N}]+'),
            if(joined(name) = '', [], [concat('=', joined(name))]),
            if(joined(x_username) = '', [], [concat('@', joined(x_username))]))) AS word,
        bitAnd(reinterpretAsUInt64(reverse(substring(trader, 17))), 67108863) AS id
    FROM traders
)
GROUP BY word;
