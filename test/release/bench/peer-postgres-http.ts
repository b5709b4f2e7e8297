/**
 * A trader's profile from PostgreSQL over node:http and a pool of the package pg, without anything else: no keys, limits,
 * validation, caches or log. `/v1/traders/ADDRESS` has the same profile, windows and tags as ours, computed with the api's
 * code from sums by hour and the bookings of the six hours in which a window begins. `/row/ADDRESS` is the trader's row of
 * the 30-day leaderboard, by primary key, and `/v1/analytics/leaderboard` the first page; both are as old as the last
 * refresh. With `?now=SECONDS` the windows end then.
 * Arguments: the directory where pg is installed, and the connection as JSON. Prints a JSON line when it listens.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { isoSecond, spaced } from '../../../api/analytics/format.ts';
import { eachWindow, WINDOW_LENGTHS } from '../../../api/analytics/time-frames.ts';
import { topTags, total, windowV1 } from '../../../api/analytics/trader-windows.ts';
import { openPool } from './peer-postgres.ts';
import { READ_BOARD } from './peer-postgres-data.ts';

const CONNECTIONS = 8;
const TAGS_MAX = 20;
const HOUR = 3_600;

const PROFILE = `
SELECT name, profile_image, x_username, profile_created_at, extract(epoch FROM last_trade_at)::int8
FROM traders WHERE address = $1`;

/** How many windows, of which the last is the longest, begin after a time: the number of the shortest that contains it. */
const shortest = (column: string) =>
  [1, 2, 3, 4, 5].map((window) => `(${column} < ($2::timestamp[])[${window}])::int`).join(' + ');

/**
 * $2: the begins of the windows, shortest first; $3: the hours in which they begin; $4: the begin of the longest. OFFSET
 * keeps the lookup of each hour: the plan for all traders would read every booking of a busy one.
 */
const WINDOWS_SQL = `
WITH parts AS (
  SELECT ${shortest('hour')} AS shortest, market,
    realised_pnl AS pnl, realised_cost AS cost, maker_volume AS maker, taker_volume AS taker
  FROM trader_hours
  WHERE trader = (SELECT id FROM traders WHERE address = $1) AND hour >= $4::timestamp AND hour <> ALL ($3::timestamp[])
  UNION ALL
  SELECT ${shortest('block_time')}, market, realised_pnl, realised_cost,
    CASE WHEN is_fill AND NOT is_taker THEN usdc ELSE 0 END, CASE WHEN is_taker THEN usdc ELSE 0 END
  FROM unnest($3::timestamp[]) AS edge CROSS JOIN LATERAL (
    SELECT * FROM bookings
    WHERE trader = (SELECT id FROM traders WHERE address = $1)
      AND block_time >= edge AND block_time < edge + interval '1 hour'
    OFFSET 0
  ) AS partial WHERE block_time >= $4::timestamp
), by_market AS (
  SELECT shortest, market, sum(pnl) AS pnl, sum(cost) AS cost, sum(maker) AS maker, sum(taker) AS taker
  FROM parts GROUP BY shortest, market
), windows AS (
  SELECT number, market, sum(pnl) AS pnl, sum(cost) AS cost, sum(maker) AS maker, sum(taker) AS taker
  FROM by_market JOIN generate_series(0, 5) AS number ON number >= shortest GROUP BY number, market
)
SELECT number, array_to_string(m.tags, ','), sum(pnl), sum(cost), sum(maker), sum(taker), count(*),
  count(*) FILTER (WHERE pnl > 0)
FROM windows JOIN markets AS m ON m.id = market GROUP BY number, m.tags`;

const ROW = `
SELECT b.realised_pnl, b.realised_cost, b.volume, b.markets_count, b.wins_count, b.last_trade_at
FROM leaderboard_30d AS b WHERE b.board = 0 AND b.trader = (SELECT id FROM traders WHERE address = $1)`;

const [directory = '', connection = '{}'] = process.argv.slice(2);
// Parallel workers help one long query, not many short ones.
const options = '-c max_parallel_workers_per_gather=0';
const pool = openPool(directory, { ...JSON.parse(connection), options }, CONNECTIONS);

async function query(name: string, text: string, values: readonly unknown[]) {
  return (await pool.query({ name, text, values, rowMode: 'array' })).rows;
}

async function profile(address: string, now: number) {
  const key = Buffer.from(address.slice(2), 'hex');
  const begins = WINDOW_LENGTHS.map((length) => now - length);
  const times = (all: readonly number[]) => `{${all.map((one) => isoSecond(one)).join()}}`;
  const hours = begins.map((begin) => Math.floor(begin / HOUR) * HOUR);
  const [[identity], rows] = await Promise.all([
    query('profile', PROFILE, [key]),
    query('windows', WINDOWS_SQL, [
      key,
      times(begins),
      times(hours),
      isoSecond(begins.at(-1) ?? 0),
    ]),
  ]);
  const sums = rows.map(([window, tags, pnl, cost, maker, taker, markets, wins]) => ({
    window: Number(window),
    tags: tags === '' ? [] : (tags ?? '').split(','),
    ...{ pnl: BigInt(pnl ?? 0), cost: BigInt(cost ?? 0) },
    ...{ makerVolume: BigInt(maker ?? 0), takerVolume: BigInt(taker ?? 0) },
    ...{ markets: Number(markets), wins: Number(wins) },
  }));
  const at = (window: number) => sums.filter((one) => one.window === window);
  const [name, profile_image, x_username, created, newest] = identity ?? [];
  return {
    profile: {
      ...{ address, name, profile_image, x_username, profile_created_at: spaced(created ?? '') },
      last_trade_at: spaced(isoSecond(Number(newest))),
    },
    top_tags: topTags(at(5), TAGS_MAX).map((one) => ({ slug: one.tag, ...windowV1(one) })),
    stats: eachWindow((window) => windowV1(total(at(window)))),
  };
}

async function board() {
  const rows = await query('board', READ_BOARD, []);
  const traders = rows.map(([address, pnl, cost, volume, markets, wins, newest, ...rest], i) => {
    const [name, profile_image, x_username, profile_created_at] = rest;
    return {
      profile: {
        address,
        name,
        profile_image,
        x_username,
        profile_created_at,
        last_trade_at: newest,
      },
      ...{ total_pnl: pnl, total_volume: volume, roi: (100 * Number(pnl)) / (Number(cost) || 1) },
      ...{ win_rate: (100 * Number(wins)) / Number(markets), rank: i + 1 },
      ...{ markets_count: Number(markets), wins_count: Number(wins) },
    };
  });
  return { traders };
}

async function found(path: string, now: number): Promise<unknown> {
  if (path === '/v1/analytics/leaderboard') return await board();
  const address = path.slice(path.lastIndexOf('/') + 1);
  if (!path.startsWith('/row/')) return await profile(address, now);
  return (await query('row', ROW, [Buffer.from(address.slice(2), 'hex')]))[0] ?? null;
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname, searchParams } = new URL(request.url ?? '', 'http://localhost');
  const now = Number(searchParams.get('now') ?? Math.floor(Date.now() / 1_000));
  const body = Buffer.from(JSON.stringify(await found(pathname, now)));
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': body.length });
  response.end(body);
}

const server = createServer((request, response) => {
  answer(request, response).catch((error: Error) => {
    response.writeHead(500, { 'Content-Length': Buffer.byteLength(error.message) });
    response.end(error.message);
  });
});
server.listen(0, '127.0.0.1');
await once(server, 'listening');
const { port } = server.address() as AddressInfo;
process.stdout.write(`${JSON.stringify({ event: 'listening', port })}\n`);
