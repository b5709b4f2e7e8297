/**
 * Stores the feed in SQLite: `node feed-to-sqlite.ts feed.db`, with Node 24. Each event is stored in one transaction with
 * its cursor, so after a crash the program resumes without losing or repeating a match. A `gap` is stored as well.
 */
import { DatabaseSync } from 'node:sqlite';
import { Fillstream } from '@fillstream/client';

const { FILLSTREAM_URL: url = 'http://127.0.0.1:8080', FILLSTREAM_KEY: key = '' } = process.env;
const database = new DatabaseSync(process.argv[2] ?? 'feed.db');
database.exec(`
  PRAGMA journal_mode = WAL;
  CREATE TABLE IF NOT EXISTS matches (
    match_id TEXT PRIMARY KEY, seen_at TEXT, market TEXT, trader TEXT, side TEXT, outcome TEXT,
    usdc INTEGER, shares INTEGER, state TEXT);
  CREATE TABLE IF NOT EXISTS gaps (requested INTEGER, first_available INTEGER);
  CREATE TABLE IF NOT EXISTS place (id INTEGER PRIMARY KEY CHECK (id = 1), cursor TEXT)`);
// After the service was restored from a backup, matches may be sent again.
const insert = database.prepare(`
  INSERT OR IGNORE INTO matches VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'shown')`);
const change = database.prepare('UPDATE matches SET state = ? WHERE match_id = ?');
const gap = database.prepare('INSERT INTO gaps VALUES (?, ?)');
const move = database.prepare('INSERT OR REPLACE INTO place VALUES (1, ?)');

const fillstream = new Fillstream({ url, key });
const place = database.prepare('SELECT cursor FROM place').get();
const from = place === undefined ? {} : { from: String(place.cursor) };
for await (const event of fillstream.feed({ finality: true }, from)) {
  database.exec('BEGIN');
  if (event.type === 'order') {
    const { market, match_id, taker_order: order, timestamp } = event.data;
    const what = [market.slug, order.trader.address, order.side, order.outcome];
    insert.run(match_id, timestamp, ...what, Number(order.usdc), Number(order.shares));
  }
  if (event.type === 'final' || event.type === 'void' || event.type === 'restored') {
    change.run(event.type, event.data.match_id);
  }
  if (event.type === 'gap') gap.run(event.data.requested, event.data.first_available);
  if (event.cursor !== '') move.run(event.cursor);
  database.exec('COMMIT');
}
