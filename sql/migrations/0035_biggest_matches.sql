-- The matches by time, with only what finds the largest of them, because the table is sorted by market. Replaces the index by
-- time, whose blocks are all over the table: at 20 million fills, the statement takes a third of the time.
-- Serves: the biggest trades of the last hours. ORDER BY: the projection by time. Rows: as before; 20 bytes more a match.
-- Retention: as before.
ALTER TABLE matches DROP INDEX IF EXISTS block_time_index;

ALTER TABLE matches MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild';

ALTER TABLE matches ADD PROJECTION IF NOT EXISTS by_time (
  SELECT block_time, usdc, condition_id, block_number, log_index ORDER BY block_time
);

ALTER TABLE matches MATERIALIZE PROJECTION by_time;
