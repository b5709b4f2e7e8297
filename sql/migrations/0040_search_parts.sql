-- Parts of the searched words that are older than a day are merged into one, because a search opens the columns of every
-- part.
-- Serves: search. ORDER BY: as before. Rows: as before. Retention: as before.
ALTER TABLE search_words MODIFY SETTING min_age_to_force_merge_seconds = 86400;

ALTER TABLE search_variants MODIFY SETTING min_age_to_force_merge_seconds = 86400;
