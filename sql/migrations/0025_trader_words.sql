-- The words of each public profile, by word: of the name and of the account on X, as in market_words; the whole
-- account after @, and the whole name after =, without what is neither letter nor digit.
-- Serves: search. ORDER BY word as in market_words. Words that a trader lost stay.
-- Rows: about 3 per trader. Retention: unlimited.
CREATE TABLE IF NOT EXISTS trader_words
(
    word String COMMENT 'letters and digits, lower case, without accents; with = or @ before all of a name or account',
    trader FixedString(20) COMMENT 'address of the trader, 20 bytes'
)
ENGINE = ReplacingMergeTree
ORDER BY (word, trader)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 1024,
    min_compress_block_size = 16384
COMMENT 'words of public profiles, by word';

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_words_mv TO trader_words
COMMENT 'feeds trader_words'
AS
WITH
    x -> lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(x), '\\p{M}', '')) AS folded,
    x -> replaceRegexpAll(folded(x), '[^\\p{L}\\p{N}]+', '') AS joined
SELECT
    arrayJoin(arrayDistinct(arrayConcat(
        extractAll(folded(concat(name, ' ', x_username)), '[\\p{L}\\p{N}]+'),
        if(joined(name) = '', [], [concat('=', joined(name))]),
        if(joined(x_username) = '', [], [concat('@', joined(x_username))])))) AS word,
    trader
FROM traders;
