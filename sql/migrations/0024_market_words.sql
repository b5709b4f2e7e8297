-- The words of each listing, by word: of the question, the titles and the slugs of market and event, in lower case
-- and without accents. Serves: search. ORDER BY word: the markets of a word, or of all words with a beginning, are
-- one range, by number because it takes a tenth of the room of a condition id and of the time to intersect.
-- Words that a market lost stay; search compares its hits with the listings.
-- Rows: about 13 per market. Retention: unlimited.
CREATE TABLE IF NOT EXISTS market_words
(
    word String COMMENT 'letters and digits, lower case, without accents',
    market_id UInt64 COMMENT 'number of the market'
)
ENGINE = ReplacingMergeTree
ORDER BY (word, market_id)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 1024,
    min_compress_block_size = 16384
COMMENT 'words of listings, by word';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_words_mv TO market_words
COMMENT 'feeds market_words'
AS
SELECT
    arrayJoin(arrayDistinct(extractAll(lowerUTF8(replaceRegexpAll(normalizeUTF8NFKD(
        concat(question, ' ', event_title, ' ', group_item_title, ' ', slug, ' ', event_slug)),
        '\\p{M}', '')), '[\\p{L}\\p{N}]+'))) AS word,
    market_id
FROM markets
WHERE market_id != 0;
