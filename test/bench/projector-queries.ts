/**
 * Leaderboards and the api's queries on a benchmark's data: every analytics path over HTTP, one call at
 * a time, each with other parameters than the one before, so that no answer comes from a cache; idle,
 * and while LEDGER is written to and projected at INSERT_FILLS_PER_SECOND.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { connectNats } from '../../infra/nats.ts';
import { OrderedPublisher } from '../../infra/nats-publisher.ts';
import { SMALL_YOUNG_SPACE } from '../../infra/service.ts';
import { LEDGER_STREAM } from '../../ingest/contract.ts';
import { publishEvent } from '../../ingest/follow-ledger.ts';
import { answerOf, start } from '../e2e/service.ts';
import {
  conditionId,
  ledgerEvents,
  MATCHES_PER_BLOCK,
  traderAddress,
} from '../ledger-generator.ts';
import { type Dataset, FILLS_PER_MATCH } from './fills.ts';
import { percentile, readable } from './report.ts';

const FRAMES = ['1h', '4h', '1d', '3d', '7d', '30d'] as const;
const CALLS = Number(process.env.CALLS || 200);
const WARM_CALLS = 30;
const INSERT_FILLS_PER_SECOND = 10_000;
const INSERT_SECONDS_MAX = 180;
/** More than the tier's 100 requests a second would only be refused. */
const CALL_MS_MIN = 10;

export async function refreshBoards({ parts }: Dataset) {
  const rows: { frame: string; 'refresh, ms': string; rows: string }[] = [];
  for (const frame of FRAMES) {
    await parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
    const startedAt = performance.now();
    await parts.query(`SYSTEM REFRESH VIEW leaderboard_${frame}_mv`);
    await parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
    const ms = readable(performance.now() - startedAt);
    const [row] = await parts.query<{ n: string }>(
      `SELECT toString(count()) AS n FROM leaderboard_${frame}`,
    );
    rows.push({ frame, 'refresh, ms': ms, rows: readable(Number(row?.n)) });
  }
  return rows;
}

export async function measureQueries(data: Dataset) {
  const api = start('api/main.ts', [], { ...data.parts.env, NODE_OPTIONS: SMALL_YOUNG_SPACE });
  const { port } = await api.event('listening');
  const url = `http://127.0.0.1:${port}`;
  try {
    const idle = await times(url, data);
    const inserting = await whileInserting(data, () => times(url, data));
    return [...idle].map(([query, calls]) => {
      const busy = inserting.get(query) ?? [];
      return {
        query,
        'p50 idle': readable(percentile(calls, 0.5)),
        'p99 idle': readable(percentile(calls, 0.99)),
        'p50 inserting': readable(percentile(busy, 0.5)),
        'p99 inserting': readable(percentile(busy, 0.99)),
      };
    });
  } finally {
    await api.stop();
  }
}

/** Milliseconds of each call, by path. */
async function times(url: string, { options, parts }: Dataset) {
  const trader = (i: number) => traderAddress(((i * 7_919) % options.traders) >> (i % 12));
  const market = (i: number) => ((i * 104_729) % options.markets) >> (i % 8);
  const orders = (i: number) => `${trader(i)}/markets/${1_000_000 + market(i)}/orders`;
  const paths: Readonly<Record<string, (i: number) => string>> = {
    'v1 leaderboard 30D': (i) => `/v1/analytics/leaderboard?offset=${i}`,
    'v1 leaderboard 1D, crypto, by roi': (i) =>
      `/v1/analytics/leaderboard?time_frame=1D&tag=crypto&sort_by=roi&offset=${i}`,
    'v1 leaderboard 7D, filters': (i) =>
      `/v1/analytics/leaderboard?time_frame=7D&min_roi=1&min_market_count=2&last_active_hours=24&offset=${i}`,
    'v1 trader': (i) => `/v1/traders/${trader(i)}`,
    'v1 trader, markets': (i) => `/v1/traders/${trader(i)}/markets`,
    'v1 trader, markets with orders': (i) => `/v1/traders/${trader(i)}/markets?include_orders=true`,
    'v1 trader, orders of a market': (i) => `/v1/traders/${orders(i)}`,
    'v1 trader, hours': (i) => `/v1/traders/${trader(i)}/hourly_stats`,
    'v1 market': (i) => `/v1/markets/${1_000_000 + market(i)}`,
    'v2 leaderboard 30D': (i) => `/v2/analytics/leaderboard?offset=${i}`,
    'v2 trader': (i) => `/v2/traders/${trader(i)}`,
    'v2 trader of a tag': (i) => `/v2/traders/${trader(i)}?tag=crypto`,
    'v2 trader, markets': (i) => `/v2/traders/${trader(i)}/markets?is_active=true`,
    'v2 trader, orders of a market': (i) => `/v2/traders/${orders(i)}`,
    'v2 trader, hours of a tag': (i) => `/v2/traders/${trader(i)}/hourly_stats?tag=crypto`,
    'v2 market by slug': (i) => `/v2/markets/question-${market(i)}`,
    'v2 market by condition': (i) => `/v2/markets/${conditionId(market(i))}`,
  };
  const measured = new Map<string, number[]>();
  for (const [name, path] of Object.entries(paths)) {
    const calls: number[] = [];
    for (let i = 0; i < CALLS + WARM_CALLS; i++) {
      const startedAt = performance.now();
      await answerOf(url, parts.key, path(i)).catch((error: Error) => {
        if (!error.message.includes(': 404 ')) throw error;
      });
      const ms = performance.now() - startedAt;
      if (i >= WARM_CALLS) calls.push(ms);
      if (ms < CALL_MS_MIN) await delay(CALL_MS_MIN - ms);
    }
    measured.set(name, calls);
  }
  return measured;
}

/** Runs `work` while a projector stores what is published at the rate, behind what is there. */
async function whileInserting<T>({ options, parts }: Dataset, work: () => Promise<T>): Promise<T> {
  const nats = await connectNats({ url: parts.env.NATS_URL, name: 'bench' });
  const ledger = new OrderedPublisher(nats, { stream: LEDGER_STREAM });
  const projector = start('projector/main.ts', [], parts.env);
  await projector.event('projecting');
  const [row] = await parts.query<{ block: string }>(
    'SELECT toString(max(block_number)) AS block FROM bookings',
  );
  const now = Math.floor(Date.now() / 1_000);
  const events = ledgerEvents({
    ...options,
    seed: now,
    from: now,
    to: now + INSERT_SECONDS_MAX,
    firstMatch: (Number(row?.block) + 1) * MATCHES_PER_BLOCK,
    matches: Math.round((INSERT_FILLS_PER_SECOND * INSERT_SECONDS_MAX) / FILLS_PER_MATCH),
  });
  let done = false;
  const publishing = (async () => {
    const startedAt = performance.now();
    let fills = 0;
    for (const event of events) {
      if (done) break;
      await publishEvent(ledger, event);
      if (event.kind === 'match') fills += event.fills.length;
      const aheadMs = (fills / INSERT_FILLS_PER_SECOND) * 1_000 - (performance.now() - startedAt);
      if (aheadMs > 20) await delay(aheadMs);
    }
    await ledger.flush();
  })();
  try {
    return await work();
  } finally {
    done = true;
    await publishing;
    ledger.close();
    await nats.close();
    await projector.stop();
  }
}
