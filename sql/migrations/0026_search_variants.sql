-- Each word of a listing or profile once as it is and, where it has four letters or more, once without each of its
-- characters. Two words that differ by one typo share such a variant.
-- Serves: search; names the words that one typo may have become the given one, and which of them are frequent.
-- ORDER BY variant: point reads. Rows: about 8 per different word. Retention: unlimited.
-- Words of more than 24 characters, such as addresses used as names, have no variants.
CREATE TABLE IF NOT EXISTS search_variants
(
    variant String COMMENT 'the word, or the word without one of its characters',
    word String COMMENT 'word of market_words or trader_words',
    markets SimpleAggregateFunction(sum, UInt64) COMMENT 'listings with the word that were stored, again for each observation',
    traders SimpleAggregateFunction(sum, UInt64) COMMENT 'profiles with the word that were stored, again for each observation'
)
ENGINE = AggregatingMergeTree
ORDER BY (variant, word)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384
COMMENT 'words of listings and profiles by what one typo leaves of them';

CREATE MATERIALIZED VIEW IF NOT EXISTS market_variants_mv TO search_variants
COMMENT 'feeds search_variants with words of listings'
AS
SELECT
    arrayJoin(if(countMatches(word, '\\p{L}') >= 4 AND lengthUTF8(word) <= 24,
        arrayDistinct(arrayMap(at -> concat(substringUTF8(word, 1, at), substringUTF8(word, at + 2)),
            range(lengthUTF8(word) + 1))), [word])) AS variant,
    word,
    uses AS markets,
    0 AS traders
FROM
(
    SELECT word, count() AS uses
    FROM market_words
    GROUP BY word
);

CREATE MATERIALIZED VIEW IF NOT EXISTS trader_variants_mv TO search_variants
COMMENT 'feeds search_variants with words of profiles'
AS
SELECT
    arrayJoin(if(countMatches(word, '\\p{L}') >= 4 AND lengthUTF8(word) <= 24,
        arrayDistinct(arrayMap(at -> concat(substringUTF8(word, 1, at), substringUTF8(word, at + 2)),
            range(lengthUTF8(word) + 1))), [word])) AS variant,
    word,
    0 AS markets,
    uses AS traders
FROM
(
    SELECT word, count() AS uses
    FROM trader_words
    WHERE NOT (startsWith(word, '=') OR startsWith(word, '@'))
    GROUP BY word
);
