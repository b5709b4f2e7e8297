/**
 * The bookings of a benchmark's data set in PostgreSQL, with the indexes and sums that a competent user would keep, and its
 * 30-day leaderboard. The tables omit hashes, order ids and the position after each booking, which none of the compared
 * questions needs: that is to its advantage. They are copied once to the system's temporary directory, from where they can be
 * removed at any time.
 */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { TAGS } from '../../../api/analytics/leaderboard.ts';
import type { Dataset } from './fills.ts';
import { type Postgres, startPostgres } from './peer-postgres.ts';

/** Increase it whenever the tables change. */
const VERSION = 1;
const LEADERBOARD_SECONDS = 30 * 86_400;
const DAY_SECONDS = 86_400;

/** PostgreSQL with this data, which is copied the first time. */
export async function openPostgres(data: Dataset): Promise<Postgres> {
  const name = `fillstream-bench-postgres-${VERSION}-${data.fills}-${data.exchange.to}`;
  const directory = join(tmpdir(), name);
  const done = join(directory, 'copied');
  if (!existsSync(done)) rmSync(directory, { recursive: true, force: true });
  const postgres = await startPostgres(directory);
  if (existsSync(done)) return postgres;
  try {
    const startedAt = performance.now();
    await postgres.run(TABLES);
    const copy = async (table: string, select: string) =>
      postgres.copy(table, await exported(data.parts.env.CLICKHOUSE_URL, select));
    for (const [table, select] of Object.entries(COPIES)) await copy(table, select);
    const { from, to } = data.exchange;
    // By day, because the engine may not use enough memory to sort them all.
    for (let day = from; day <= to; day += DAY_SECONDS) {
      await copy('bookings', bookingsOfDay(day));
    }
    await postgres.run(AGGREGATES);
    const seconds = Math.round((performance.now() - startedAt) / 1_000);
    console.log(`copied to PostgreSQL, with indexes and aggregates, in ${seconds} s`);
  } catch (error) {
    await postgres.stop();
    throw error;
  }
  writeFileSync(done, '');
  return postgres;
}

async function exported(url: string, select: string): Promise<ReadableStream<Uint8Array>> {
  const { origin, username, password } = new URL(url);
  const user = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`;
  const response = await fetch(`${origin}/?database=fillstream`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from(user).toString('base64')}` },
    body: `${select} FORMAT TSV`,
  });
  if (response.status !== 200 || response.body === null) throw new Error(await response.text());
  return response.body as ReadableStream<Uint8Array>;
}

/** Rows name traders and markets by number: small and quick to join. */
const TABLES = `
CREATE TABLE boards (id smallint PRIMARY KEY, tag text NOT NULL);
INSERT INTO boards VALUES ${TAGS.map((tag, i) => `(${i}, '${tag}')`).join(', ')};
CREATE TABLE traders (id int PRIMARY KEY, address bytea NOT NULL UNIQUE, last_trade_at timestamp NOT NULL,
  name text NOT NULL, profile_image text NOT NULL, x_username text NOT NULL, profile_created_at text NOT NULL);
CREATE TABLE markets (id int PRIMARY KEY, condition_id bytea NOT NULL UNIQUE, tags text[] NOT NULL, category text NOT NULL,
  winner smallint, is_split boolean NOT NULL);
CREATE TABLE market_boards (market int, board smallint, PRIMARY KEY (market, board));
CREATE TABLE bookings (block_time timestamp NOT NULL, shares int8 NOT NULL, usdc int8 NOT NULL, fee int8 NOT NULL,
  realised_pnl int8 NOT NULL, realised_cost int8 NOT NULL, trader int NOT NULL, market int NOT NULL,
  outcome smallint NOT NULL, is_fill boolean NOT NULL, is_taker boolean NOT NULL, is_buy boolean NOT NULL);
`;

const TRADERS = `SELECT trader, row_number() OVER (ORDER BY trader) AS trader_number, max(last_trade_at) AS newest
  FROM trader_activity GROUP BY trader`;
const MARKETS = `SELECT condition_id, tags, row_number() OVER (ORDER BY condition_id) AS market_number,
    dictGet('market_dictionary', ('category', 'boards'), tuple(reinterpretAsUInt256(condition_id))) AS listed
  FROM markets FINAL`;

const COPIES = {
  traders: `SELECT trader_number, concat('\\\\x', hex(t.trader)), newest, name, profile_image, x_username, profile_created_at
    FROM (${TRADERS}) AS t LEFT JOIN (SELECT * FROM traders FINAL) AS p ON p.trader = t.trader`,
  markets: `SELECT market_number, concat('\\\\x', hex(m.condition_id)),
      concat('{', arrayStringConcat(arrayMap(tag -> concat('"', tag, '"'), tags), ','), '}'), listed.1,
      if(r.payout_0 = r.payout_1, NULL, r.payout_0 < r.payout_1), r.block_number > 0 AND r.payout_0 = r.payout_1
    FROM (${MARKETS}) AS m LEFT JOIN (SELECT * FROM resolutions FINAL) AS r ON r.condition_id = m.condition_id`,
  market_boards: `SELECT market_number, arrayJoin(bitPositionsToArray(listed.2)) FROM (${MARKETS})`,
};

/** In the order of their arrival. `day` is unix seconds. */
function bookingsOfDay(day: number): string {
  return `SELECT block_time, shares, usdc, fee, realised_pnl, realised_cost, trader_number, market_number, outcome_index,
      kind = 'fill', is_taker, side = 'BUY'
    FROM bookings AS b JOIN (${TRADERS}) AS t ON t.trader = b.trader JOIN (${MARKETS}) AS m ON m.condition_id = b.condition_id
    WHERE block_time >= ${day} AND block_time < ${day + DAY_SECONDS}
    ORDER BY block_number, log_index`;
}

/** Sums per trader, hour and market, written in the order in which they are read. */
const AGGREGATES = `
CREATE INDEX ON bookings USING brin (block_time) WITH (pages_per_range = 32);
CREATE INDEX ON bookings (trader, block_time);
CREATE TABLE trader_hours AS
  SELECT sum(realised_pnl)::int8 AS realised_pnl, sum(realised_cost)::int8 AS realised_cost, sum(fee)::int8 AS fee,
    coalesce(sum(usdc) FILTER (WHERE is_fill AND NOT is_taker), 0)::int8 AS maker_volume,
    coalesce(sum(usdc) FILTER (WHERE is_taker), 0)::int8 AS taker_volume,
    date_trunc('hour', block_time) AS hour, trader, market, (count(*) FILTER (WHERE is_fill))::int AS fills
  FROM bookings GROUP BY trader, date_trunc('hour', block_time), market
  ORDER BY trader, date_trunc('hour', block_time), market;
ALTER TABLE trader_hours ADD PRIMARY KEY (trader, hour, market);
CREATE INDEX ON trader_hours (hour);
CREATE TABLE leaderboard_30d (realised_pnl int8);
VACUUM (ANALYZE, FREEZE);
CHECKPOINT;
`;

/**
 * Replaces the leaderboard of the thirty days before `now` in one transaction, without blocking its readers. Complete hours
 * come from the sums, the first partial hour from the bookings.
 */
export function refreshBoard(now: number): string {
  const since = now - LEADERBOARD_SECONDS;
  const time = (seconds: number) =>
    `'${new Date(seconds * 1_000).toISOString().slice(0, 19)}'::timestamp`;
  const firstHour = time(Math.ceil(since / 3_600) * 3_600);
  return `
BEGIN;
CREATE TABLE leaderboard_30d_next AS
  SELECT sum(s.pnl)::int8 AS realised_pnl, sum(s.cost)::int8 AS realised_cost, sum(s.volume)::int8 AS volume,
    max(t.last_trade_at) AS last_trade_at, s.trader, count(*)::int AS markets_count,
    (count(*) FILTER (WHERE s.pnl > 0))::int AS wins_count, b.board
  FROM (
    SELECT trader, market, sum(pnl)::int8 AS pnl, sum(cost)::int8 AS cost, sum(volume)::int8 AS volume
    FROM (
      SELECT trader, market, realised_pnl AS pnl, realised_cost AS cost, maker_volume + taker_volume AS volume
      FROM trader_hours WHERE hour >= ${firstHour}
      UNION ALL
      SELECT trader, market, realised_pnl, realised_cost, CASE WHEN is_fill THEN usdc ELSE 0 END
      FROM bookings WHERE block_time >= ${time(since)} AND block_time < ${firstHour}
    ) AS parts GROUP BY trader, market
  ) AS s
  JOIN market_boards AS b ON b.market = s.market JOIN traders AS t ON t.id = s.trader
  GROUP BY b.board, s.trader;
CREATE UNIQUE INDEX ON leaderboard_30d_next (trader, board);
CREATE INDEX ON leaderboard_30d_next (board, realised_pnl DESC, volume DESC, trader);
DROP TABLE leaderboard_30d;
ALTER TABLE leaderboard_30d_next RENAME TO leaderboard_30d;
COMMIT;
ANALYZE leaderboard_30d;
`;
}

/** The first entries with their profiles, as for a page of ours. */
export const READ_BOARD = `
SELECT '0x' || encode(t.address, 'hex'), b.realised_pnl, b.realised_cost, b.volume, b.markets_count, b.wins_count,
  b.last_trade_at, t.name, t.profile_image, t.x_username, t.profile_created_at
FROM leaderboard_30d AS b JOIN traders AS t ON t.id = b.trader
WHERE b.board = 0 ORDER BY b.realised_pnl DESC, b.volume DESC, b.trader LIMIT 50`;

/** Sums over the whole board, for the comparison with ours. */
export const BOARD_TOTALS = `
SELECT b.tag, count(*), sum(realised_pnl), sum(realised_cost), sum(volume), sum(markets_count), sum(wins_count)
FROM leaderboard_30d JOIN boards AS b ON b.id = board GROUP BY b.tag ORDER BY b.tag`;
