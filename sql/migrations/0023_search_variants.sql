-- Each word of a listing or profile, once unchanged and, if it has four letters or more, once without each of its
-- characters. Two words that differ by one typo share such a variant.
-- Serves: search; finds the words that are one typo away from the given one, and which of them are frequent.
-- ORDER BY variant: point reads. Rows: about 8 per different word. Retention: unlimited.
-- Words of more than 24 characters, such as addresses used as names, have no variants.
-- Parts older than a day merge into one, because a search opens the columns of every part.
CREATE TABLE IF NOT EXISTS search_variants
(
    variant String COMMENT 'the word, or the word without one of its characters',
    kind Enum8('market' = 1, 'trader' = 2) COMMENT 'what has the word',
    word String COMMENT 'word of search_words',
    uses SimpleAggregateFunction(sum, UInt64) COMMENT 'listings or profiles with the word that were stored, again for each observation'
)
ENGINE = AggregatingMergeTree
ORDER BY (variant, kind, word)
SETTINGS non_replicated_deduplication_window = 1000, index_granularity = 256,
    min_compress_block_size = 16384, min_age_to_force_merge_seconds = 86400
COMMENT 'words of listings and profiles, by the variants that one typo leaves';

CREATE MATERIALIZED VIEW IF NOT EXISTS search_variants_mv TO search_variants
COMMENT 'feeds search_variants'
AS
SELECT
    arrayJoin(arrayDistinct(arrayMap(at -> concat(substringUTF8(word, 1, at), substringUTF8(word, at + 2)),
        range(lengthUTF8(word) + 1)))) AS variant,
    kind,
    word,
    bitmapCardinality(ids) AS uses
FROM search_words
WHERE countMatches(word, '\\p{L}') >= 4 AND lengthUTF8(word) <= 24 AND NOT (startsWith(word, '=') OR startsWith(word, '@'));
