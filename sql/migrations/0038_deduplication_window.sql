-- Each table remembers its last 10,000 inserts instead of 1,000, because several projectors share the memory: one that was
-- killed inserts its newest batch again, however many batches the others have stored meanwhile. The projector refuses to
-- start beyond that.
-- Serves: exactly-once inserts. ORDER BY: as before. Rows: as before. Retention: as before.
ALTER TABLE bookings MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE trader_hours MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE trader_markets MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE market_traders MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE market_bookings MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE trader_activity MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE matches MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE market_minutes MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE market_days MODIFY SETTING non_replicated_deduplication_window = 10000;

ALTER TABLE market_marks MODIFY SETTING non_replicated_deduplication_window = 10000;
