/** The parts of `npm run bench:peers` that compare our analytics with PostgreSQL on one data set. */
import { isDeepStrictEqual } from 'node:util';
import { Random } from '../../../local/devnet/random.ts';
import { start } from '../../support/service.ts';
import type { Parts } from '../../support/stack.ts';
import { at } from './endpoint-calls.ts';
import type { Dataset } from './fills.ts';
import { reportStored, WARM_UP_SECONDS, zipf } from './hot.ts';
import { getRequest, type Load, load, medianOf, startApi } from './load.ts';
import { installPg, openPool, type Pool, type Postgres } from './peer-postgres.ts';
import { BOARD_TOTALS, READ_BOARD, refreshBoard } from './peer-postgres-data.ts';
import { oursAt, QUESTIONS, requireEqual } from './peer-questions.ts';
import { asked } from './projector-queries.ts';
import { median, readable } from './report.ts';
import { refresh, withoutRefreshes } from './views.ts';

type How = { readonly data: Dataset; readonly postgres: Postgres; readonly rounds: number };

const BOARD_VIEW = 'leaderboard_30d_mv';
/** Of the board, for each round. */
const READS = 10;
const COMPARED_TRADERS = 50;
const CONNECTIONS = 16;
/** Traders that get requests at all. */
const REQUESTED_MAX = 10_000;

const OUR_TOTALS = `
SELECT tag, count(), sum(realised_pnl), sum(realised_cost), sum(volume), sum(markets_count), sum(wins_count)
FROM leaderboard_30d GROUP BY tag ORDER BY tag`;
const OUR_READ = `
SELECT lower(hex(trader)) AS address, realised_pnl, realised_cost, volume, markets_count, wins_count, last_trade_at
FROM leaderboard_30d WHERE tag = 'all' ORDER BY -realised_pnl, -volume, trader LIMIT 50`;

/** Medians in milliseconds, by turns. */
async function byTurns(
  rounds: number,
  ours: () => Promise<unknown>,
  theirs: () => Promise<unknown>,
) {
  const times: [number[], number[]] = [[], []];
  for (let round = 0; round < rounds; round++) {
    for (const [side, run] of [ours, theirs].entries()) {
      const startedAt = performance.now();
      await run();
      times[side]?.push(performance.now() - startedAt);
    }
  }
  const [own, other] = [median(times[0]), median(times[1])];
  return { ours: readable(own), PostgreSQL: readable(other), ratio: readable(other / own) };
}

async function withPool<T>(postgres: Postgres, work: (pool: Pool) => Promise<T>): Promise<T> {
  const pool = openPool(await installPg(), postgres.connection, 1);
  try {
    return await work(pool);
  } finally {
    await pool.end();
  }
}

/** Stops all refreshes while `work` runs. Only the 30-day board can still be refreshed, on demand. */
export async function withoutSchedule<T>({ query }: Parts, work: () => Promise<T>): Promise<T> {
  const [board] = await query<{ schedule: string }>(
    `SELECT extract(create_table_query, 'REFRESH ((?:AFTER|EVERY) \\d+ \\w+)') AS schedule
     FROM system.tables WHERE database = 'fillstream' AND name = '${BOARD_VIEW}'`,
  );
  // A view that is stopped is not refreshed by SYSTEM REFRESH either.
  await query(`ALTER TABLE ${BOARD_VIEW} MODIFY REFRESH EVERY 1 YEAR`);
  try {
    return await withoutRefreshes(query, work, BOARD_VIEW);
  } finally {
    await query(`ALTER TABLE ${BOARD_VIEW} MODIFY REFRESH ${board?.schedule}`);
  }
}

/** Refreshes both boards as of one second. Throws unless they have the same sums. */
async function refreshBoth({ data, postgres }: How): Promise<void> {
  const { query } = data.parts;
  await refresh(query, BOARD_VIEW);
  const ours = (await query<Readonly<Record<string, string>>>(OUR_TOTALS)).map(Object.values);
  const [row] = await query<{ at: number }>(
    'SELECT toUnixTimestamp(any(refreshed_at)) AS at FROM leaderboard_30d',
  );
  const now = Number(row?.at);
  const theirsAt = (seconds: number) =>
    withPool(postgres, async (pool) => {
      await pool.query({ text: refreshBoard(seconds) });
      return (await pool.query({ text: BOARD_TOTALS, rowMode: 'array' })).rows;
    });
  const theirs = await theirsAt(now);
  if (isDeepStrictEqual(ours.flat().map(String), theirs.flat())) return;
  // The view reads the clock twice: the second may have changed in between.
  requireEqual('leaderboard', ours, await theirsAt(now - 1));
}

/** Milliseconds of a refresh of the board, and of reading its first fifty rows. */
export async function measureBoard(how: How) {
  const { data, postgres, rounds } = how;
  await refreshBoth(how);
  return withPool(postgres, async (pool) => {
    const refreshTheirs = () => pool.query({ text: refreshBoard(Math.floor(Date.now() / 1_000)) });
    const refreshOurs = () => refresh(data.parts.query, BOARD_VIEW);
    const refreshes = await byTurns(rounds, refreshOurs, refreshTheirs);
    const readOurs = () => data.parts.query(OUR_READ);
    const reads = await byTurns(READS * rounds, readOurs, () => pool.query({ text: READ_BOARD }));
    return [
      { 'milliseconds of': 'a refresh', ...refreshes },
      { 'milliseconds of': 'the statement for its first 50 rows', ...reads },
    ];
  });
}

/** Milliseconds of each question, asked by the analysts' user and by a client of PostgreSQL. */
export async function measureQuestions({ data, postgres, rounds }: How) {
  const now = data.exchange.to;
  return withPool(postgres, async (pool) => {
    const rows = [];
    for (const [name, sqlAt] of Object.entries(QUESTIONS)) {
      const askOurs = () => asked(data, oursAt(name, now));
      const askTheirs = async () => (await pool.query({ text: sqlAt(now), rowMode: 'array' })).rows;
      const ours = (await askOurs()).map((line) => JSON.parse(line));
      requireEqual(name, ours, await askTheirs());
      const figures = await byTurns(rounds, askOurs, askTheirs);
      rows.push({ 'milliseconds of': name, rows: ours.length, ...figures });
    }
    return rows;
  });
}

type Board = {
  readonly traders: readonly { readonly total_pnl: string; readonly total_volume: string }[];
};
type Profile = { readonly profile: object; readonly stats: object; readonly top_tags: object };

/** Requests a second at 16 connections, traders by Zipf's law: our api, and node:http with a pool. */
export async function measureProfiles(how: How & { readonly seconds: number }) {
  const { data, postgres, rounds, seconds } = how;
  await refreshBoth(how);
  const stopReporting = await reportStored(data);
  const api = await startApi(data.parts);
  const { port: ours, headers } = api;
  const args = [await installPg(), JSON.stringify(postgres.connection)];
  const peer = start('test/release/bench/peer-postgres-http.ts', args);
  try {
    const theirs = Number((await peer.event('listening')).port);
    for (let i = 0; i < COMPARED_TRADERS; i++) {
      // Busy ones more often.
      const place = Math.floor(data.traders.length * (i / COMPARED_TRADERS) ** 2);
      await compareProfiles(at(data.traders, place), ours, theirs, headers(i));
    }
    await compareBoards(ours, theirs, headers(0));
    const profile = (trader: string) => `/v1/traders/${trader}`;
    const board = () => '/v1/analytics/leaderboard';
    const row = (trader: string) => `/row/${trader}`;
    const cases = {
      'profile with six windows to the second, Zipf 1': [profile, profile, zipf],
      'the same, always one trader': [profile, profile, () => 0],
      'the same, Zipf 1; PostgreSQL: only the row of the 30-day board, by key': [
        profile,
        row,
        zipf,
      ],
      'first page of the 30-day board': [board, board, zipf],
    } as const;
    const rows = [];
    // As in a service that runs, popular traders were asked for before.
    const popular = new Random('popular');
    const asked = (i: number) =>
      getRequest(profile(at(data.traders, zipf(REQUESTED_MAX, popular))), headers(i));
    const warmUp = { connections: CONNECTIONS, seconds: WARM_UP_SECONDS };
    await load({ port: ours, ...warmUp, request: asked });
    for (const [what, [ourPath, theirPath, rankOf]] of Object.entries(cases)) {
      const loads: [Load[], Load[]] = [[], []];
      for (let round = 0; round < rounds; round++) {
        for (const [side, port] of [ours, theirs].entries()) {
          const random = new Random(`${what} ${round}`);
          const path = side === 0 ? ourPath : theirPath;
          const request = (i: number) => {
            const rank = rankOf(Math.min(REQUESTED_MAX, data.traders.length), random);
            return getRequest(path(at(data.traders, rank)), headers(i));
          };
          loads[side]?.push(await load({ port, connections: CONNECTIONS, seconds, request }));
        }
      }
      const [own, other] = [medianOf(loads[0]), medianOf(loads[1])];
      rows.push({
        request: what,
        ...{ 'ours, a second': readable(own.perSecond), 'p50, ms': readable(own.p50) },
        ...{ 'p99, ms': readable(own.p99), PostgreSQL: readable(other.perSecond) },
        ...{ 'its p50': readable(other.p50), 'its p99': readable(other.p99) },
        ratio: readable(own.perSecond / other.perSecond),
      });
    }
    return rows;
  } finally {
    await api.stop();
    await peer.stop();
    stopReporting();
  }
}

/** Throws if the two profiles differ. We do not know in which second our window ends, so the peer computes each one. */
async function compareProfiles(
  trader: string,
  ours: number,
  theirs: number,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const url = (port: number) => `http://127.0.0.1:${port}/v1/traders/${trader}`;
  const before = Math.floor(Date.now() / 1_000);
  const own = (await (await fetch(url(ours), { headers })).json()) as Profile;
  const after = Math.floor(Date.now() / 1_000);
  let other: Profile | undefined;
  // A response may be shared for a second.
  for (let now = after; now >= before - 1; now--) {
    other = (await (await fetch(`${url(theirs)}?now=${now}`)).json()) as Profile;
    if (isDeepStrictEqual(own, other)) return;
  }
  throw new Error(`profile of ${trader}:\n${JSON.stringify(own)}\n${JSON.stringify(other)}`);
}

async function compareBoards(
  ours: number,
  theirs: number,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const [own, other] = await Promise.all(
    [ours, theirs].map(async (port) => {
      const url = `http://127.0.0.1:${port}/v1/analytics/leaderboard`;
      const { traders } = (await (await fetch(url, { headers })).json()) as Board;
      return traders.map((one) => [one.total_pnl, one.total_volume]);
    }),
  );
  requireEqual('page of the leaderboard', own ?? [], other ?? []);
}
