/**
 * `npm run bench:api`: requests per second and latency of every analytics endpoint on FILLS generated fills
 * (20,000,000 by default; fills.ts keeps them), at 1, 16 and 64 connections: the leaderboard from the
 * cache beside a bare express handler that sends the same bytes, everything uncached beside the bare
 * ClickHouse client that runs the same statements. Medians of ROUNDS (3) rounds of SECONDS (3).
 * Parts: `-- cached uncached`.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { ANALYTICS_ENDPOINTS } from '../../api/analytics/endpoints.ts';
import { createMemories } from '../../api/analytics/memory.ts';
import { createPages } from '../../api/analytics/pages.ts';
import type { Call } from '../../api/analytics/query.ts';
import { generateKey, storeKey } from '../../api/keys.ts';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { Bytes, type ClickHouseReader } from '../../infra/clickhouse-reader.ts';
import { connectNats } from '../../infra/nats.ts';
import { openKv } from '../../infra/nats-kv.ts';
import { SMALL_YOUNG_SPACE } from '../../infra/service.ts';
import { KEYS_BUCKET } from '../../infra/streams.ts';
import { start } from '../e2e/service.ts';
import { conditionId, traderAddress } from '../ledger-generator.ts';
import { type Dataset, openDataset } from './fills.ts';
import { getRequest, type Load, load, medianLoad, medianOf } from './load.ts';
import { machine, percent, percentile, printTable, readable } from './report.ts';

const FILLS = Number(process.env.FILLS || 20_000_000);
const ROUNDS = Number(process.env.ROUNDS || 3);
const SECONDS = Number(process.env.SECONDS || 3);
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ['cached', 'uncached'];
const CONNECTIONS = [1, 16, 64];
/** A pro account has 100 requests a second: so many together are no limit here. */
const KEYS = 1_000;
const WARM_CALLS = 20;
const FRAMES = ['1h', '4h', '1d', '3d', '7d', '30d'];

type Case = {
  readonly name: string;
  readonly path: string;
  /** Path and query of the i-th request, each another one. */
  readonly ask: (i: number) => string;
};

/** One case an endpoint and, where the statement differs, more. Popular traders and markets more often. */
function casesOf({ options }: Dataset): readonly Case[] {
  const trader = (i: number) => traderAddress(((i * 7_919) % options.traders) >> (i % 12));
  const market = (i: number) => ((i * 104_729) % options.markets) >> (i % 8);
  const id = (i: number) => 1_000_000 + market(i);
  const orders = (i: number) => `${trader(i)}/markets/${id(i)}/orders`;
  const one = (name: string, path: string, ask: (i: number) => string) => ({ name, path, ask });
  const leaderboard = '/v1/analytics/leaderboard';
  const traders = '/v1/traders/:address';
  return [
    one('v1 leaderboard 30D', leaderboard, (i) => `${leaderboard}?offset=${i}`),
    one('v1 leaderboard 1D crypto by roi', leaderboard, (i) => {
      return `${leaderboard}?time_frame=1D&tag=crypto&sort_by=roi&offset=${i}`;
    }),
    one('v1 trader', traders, (i) => `/v1/traders/${trader(i)}`),
    one('v1 markets of a trader', `${traders}/markets`, (i) => `/v1/traders/${trader(i)}/markets`),
    one('v1 the same with orders', `${traders}/markets`, (i) => {
      return `/v1/traders/${trader(i)}/markets?include_orders=true`;
    }),
    one(
      'v1 orders of a market',
      `${traders}/markets/:id/orders`,
      (i) => `/v1/traders/${orders(i)}`,
    ),
    one('v1 hours', `${traders}/hourly_stats`, (i) => `/v1/traders/${trader(i)}/hourly_stats`),
    one('v1 market', '/v1/markets/:id', (i) => `/v1/markets/${id(i)}`),
    one('v1 market_data, 20 traders', '/v1/market_data/:id_or_slug', (i) => {
      return `/v1/market_data/${id(i)}?limit=20`;
    }),
    one('v2 leaderboard 7D', '/v2/analytics/leaderboard', (i) => {
      return `/v2/analytics/leaderboard?time_frame=7D&offset=${i}`;
    }),
    one('v2 trader', '/v2/traders/:address', (i) => `/v2/traders/${trader(i)}`),
    one('v2 active markets of a trader', '/v2/traders/:address/markets', (i) => {
      return `/v2/traders/${trader(i)}/markets?is_active=true`;
    }),
    one('v2 orders of a market', '/v2/traders/:address/markets/:id/orders', (i) => {
      return `/v2/traders/${orders(i)}`;
    }),
    one('v2 hours of a tag', '/v2/traders/:address/hourly_stats', (i) => {
      return `/v2/traders/${trader(i)}/hourly_stats?tag=crypto`;
    }),
    one('v2 market by slug', '/v2/markets/:id', (i) => `/v2/markets/question-${market(i)}`),
    one(
      'v2 market by condition',
      '/v2/markets/:id',
      (i) => `/v2/markets/${conditionId(market(i))}`,
    ),
  ];
}

async function issueKeys(natsUrl: string): Promise<readonly string[]> {
  const nats = await connectNats({ url: natsUrl, name: 'bench' });
  const bucket = await openKv(nats, KEYS_BUCKET);
  const keys = Array.from({ length: KEYS }, () => generateKey('pro'));
  for (const [i, key] of keys.entries()) {
    const record = { label: 'bench', tier: 'pro', account: `bench-${i}` } as const;
    await storeKey(bucket, key, { ...record, created_at: new Date().toISOString() });
  }
  await nats.close();
  return keys;
}

const row = ({ perSecond, p50, p99 }: Load) => ({
  'requests/s': readable(perSecond),
  'p50, ms': readable(p50),
  'p99, ms': readable(p99),
});

/** Throws unless every answer was one of these. */
function requireStatuses({ statuses }: Load, allowed: readonly number[], name: string): void {
  const wrong = [...statuses].filter(([status]) => !allowed.includes(status));
  if (wrong.length > 0) throw new Error(`${name}: ${wrong.map((one) => one.join(' × ')).join()}`);
}

async function measureCached(port: number, headers: (i: number) => Record<string, string>) {
  const path = '/v1/analytics/leaderboard';
  const response = await fetch(`http://127.0.0.1:${port}${path}`, { headers: headers(0) });
  const directory = mkdtempSync(join(tmpdir(), 'fillstream-bench-'));
  const file = join(directory, 'answer.json');
  writeFileSync(file, Buffer.from(await response.arrayBuffer()));
  const bare = start('test/bench/bare-express.ts', [file]);
  const barePort = Number((await bare.event('listening')).port);
  const rows = [];
  for (const connections of CONNECTIONS) {
    const how = { connections, seconds: SECONDS };
    const limits: Load[] = [];
    const owns: Load[] = [];
    // By turns, because the machine is not equally fast all the time.
    for (let round = 0; round < ROUNDS; round++) {
      const request = (i: number) => getRequest('/', headers(i));
      limits.push(await load({ ...how, port: barePort, request }));
      owns.push(await load({ ...how, port, request: (i) => getRequest(path, headers(i)) }));
    }
    const [limit, own] = [medianOf(limits), medianOf(owns)];
    requireStatuses(own, [200], 'cached leaderboard');
    rows.push({ connections, what: 'bare express handler', ...row(limit), ratio: '' });
    const ratio = percent(own.perSecond, limit.perSecond);
    rows.push({ connections, what: 'leaderboard from the cache', ...row(own), ratio });
  }
  await bare.stop();
  rmSync(directory, { recursive: true });
  return rows;
}

type Statement = Parameters<ClickHouseClient['query']>[0];

/** The statement with these keys in the place of their parameter. */
function withKeys(sql: string, name: string, { texts }: Bytes): string {
  const keys = [texts]
    .flat()
    .map((text) => `unhex('${text.slice(2)}')`)
    .join(', ');
  return sql.replaceAll(new RegExp(`\\{${name}:[^}]*\\}`, 'g'), `(${keys})`);
}

/** The statements of the first requests of a case, without answering anything. */
async function statementsOf(one: Case, client: ClickHouseClient): Promise<readonly Statement[][]> {
  const endpoint = ANALYTICS_ENDPOINTS.find(({ path }) => path === one.path);
  if (endpoint === undefined) throw new Error(`no endpoint ${one.path}`);
  const names = [...one.path.matchAll(/:(\w+)/g)].map((match) => match[1] ?? '');
  const form = new RegExp(`^${one.path.replaceAll(/:\w+/g, '([^/]+)')}$`);
  const calls: Statement[][] = [];
  const pages = createPages();
  // As the api has them after a while: what it remembers is asked once.
  const memories = createMemories(() => true);
  for (let i = 0; i < 400; i++) {
    const statements: Statement[] = [];
    const recorder: ClickHouseReader = {
      async select({ sql, parameters, settings }) {
        // The client library cannot bind bytes.
        const keys = Object.entries(parameters).filter(([, value]) => value instanceof Bytes);
        const statement: Statement = {
          query: keys.reduce((text, [name, value]) => withKeys(text, name, value as Bytes), sql),
          query_params: Object.fromEntries(
            Object.entries(parameters).filter(([, value]) => !(value instanceof Bytes)),
          ),
          clickhouse_settings: settings,
          format: 'JSONEachRow',
        };
        statements.push(statement);
        return (await (await client.query(statement)).json()) as unknown[];
      },
      close() {},
    };
    const url = new URL(one.ask(i % 200), 'http://localhost');
    const values = form.exec(url.pathname)?.slice(1) ?? [];
    const call = {
      ...{ clickhouse: recorder, queryMsMax: 5_000, now: Date.now, signal: null },
      caller: { tier: 'pro', account: '', keyHash: '' },
      // Uncached: every page is computed.
      memories,
      pages: { ...pages, page: ({ compute }: { compute: () => unknown }) => compute() },
    } as unknown as Call;
    const asked = {
      url: one.ask(i % 200),
      params: Object.fromEntries(names.map((name, at) => [name, values[at] ?? ''])),
      query: Object.fromEntries(url.searchParams),
      ...{ body: undefined, format: 'json' as const },
    };
    await endpoint.respond(call, asked).catch((error: Error) => {
      if (!error.message.includes('was ever seen')) throw error;
    });
    if (i >= 200) calls.push(statements);
  }
  return calls;
}

/** How often a second 16 at a time run the statements of a call, one after the other. */
async function measureBare(client: ClickHouseClient, calls: readonly Statement[][]) {
  const rates: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    let sent = 0;
    let done = 0;
    const startedAt = performance.now();
    const endAt = startedAt + SECONDS * 1_000;
    await Promise.all(
      Array.from({ length: 16 }, async () => {
        while (performance.now() < endAt) {
          for (const statement of calls[sent++ % calls.length] ?? []) {
            await (await client.query(statement)).text();
          }
          done++;
        }
      }),
    );
    rates.push((done / (performance.now() - startedAt)) * 1_000);
  }
  return percentile(rates, 0.5);
}

async function measureUncached(
  data: Dataset,
  port: number,
  headers: (i: number) => Record<string, string>,
) {
  const client = connectClickHouse({
    url: data.parts.env.CLICKHOUSE_URL,
    database: 'fillstream',
    name: 'bench',
  });
  const rows = [];
  for (const one of casesOf(data)) {
    let asked = 0;
    // No request is asked twice, so that none is answered from the cache.
    const request = () => getRequest(one.ask(asked++), headers(asked));
    await load({ port, connections: 1, seconds: WARM_CALLS / 50, request });
    const figures: Record<string, string> = { endpoint: one.name };
    let at16 = 0;
    let refused = 0;
    for (const connections of CONNECTIONS) {
      const found = await medianLoad(ROUNDS, () =>
        load({ port, connections, seconds: SECONDS, request }),
      );
      // At 64 a store without room answers 503 within its limit: that is told, not hidden.
      requireStatuses(found, [200, 404, 503], one.name);
      refused += found.statuses.get(503) ?? 0;
      figures[`${connections}: req/s`] = readable(found.perSecond);
      figures['p50'.padEnd(3 + CONNECTIONS.indexOf(connections))] = readable(found.p50);
      figures['p99'.padEnd(3 + CONNECTIONS.indexOf(connections))] = readable(found.p99);
      if (connections === 16) at16 = found.perSecond;
    }
    const bare = await measureBare(client, await statementsOf(one, client));
    rows.push({
      ...figures,
      'bare client at 16': readable(bare),
      ratio: percent(at16, bare),
      refused: String(refused),
    });
    console.log(Object.values(rows.at(-1) ?? {}).join('  '));
  }
  await client.close();
  return rows;
}

/** Largest resident memory that a process has had, MB. */
function peakMemory(pid: number): number {
  const [, kilobytes] = /VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Math.round(Number(kilobytes) / 1_000);
}

async function main(): Promise<void> {
  const data = await openDataset(FILLS);
  try {
    // Refreshed once and then not again: what is measured is the api.
    for (const frame of FRAMES) {
      await data.parts.query(`SYSTEM REFRESH VIEW leaderboard_${frame}_mv`);
      await data.parts.query(`SYSTEM WAIT VIEW leaderboard_${frame}_mv`);
      await data.parts.query(`SYSTEM STOP VIEW leaderboard_${frame}_mv`);
    }
    const keys = await issueKeys(data.parts.env.NATS_URL);
    const api = start('api/main.ts', [], {
      ...data.parts.env,
      NODE_OPTIONS: SMALL_YOUNG_SPACE,
      HTTP_CONNECTIONS_PER_ADDRESS_MAX: '1000',
      // A log line a request would be read and parsed by the process that makes the load.
      LOG_LEVEL: 'warn',
    });
    const port = Number((await api.event('listening')).port);
    const headers = (i: number) => ({ 'X-Service-Key': keys[i % KEYS] ?? '' });
    const { fills } = data.filling;
    console.log(
      `${readable(fills)} fills, ${readable(data.options.traders)} traders, ` +
        `${readable(data.options.markets)} markets; ${machine()}; ` +
        `medians of ${ROUNDS} rounds of ${SECONDS} s; the load, the api and ClickHouse share the cores`,
    );
    if (PARTS.includes('cached')) {
      printTable('Leaderboard from the cache', await measureCached(port, headers));
    }
    if (PARTS.includes('uncached')) {
      printTable('Every endpoint, uncached', await measureUncached(data, port, headers));
    }
    console.log(`largest resident memory of the api: ${peakMemory(api.pid)} MB`);
    await api.stop();
  } finally {
    for (const frame of FRAMES) {
      await data.parts.query(`SYSTEM START VIEW leaderboard_${frame}_mv`);
    }
    await data.parts.stop();
  }
}

await main();
