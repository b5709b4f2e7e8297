/**
 * `npm run bench:api`: requests per second and latency of every analytics endpoint on FILLS generated fills
 * (20,000,000 by default; fills.ts keeps them), at 1, 16 and 64 connections: the leaderboard from the
 * cache beside a bare express handler that sends the same bytes, everything uncached beside the bare
 * ClickHouse client that runs the same statements. Medians of ROUNDS (3) rounds of SECONDS (3).
 * Parts: `-- cached uncached`, `-- work` (endpoint-work.ts), `-- hot` (hot-keys.ts), `-- saturation` (saturation.ts: one api
 * and two), and `-- search` (search.ts: another data set).
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { createMetadata } from '../../../api/analytics/metadata-cache.ts';
import { QUERY_MS_MAX } from '../../../api/analytics/query.ts';
import { Bytes, connectClickHouse, createSelect, type Select } from '../../../infra/clickhouse.ts';
import { API_FLAGS } from '../../../infra/local/service.ts';
import { start } from '../../support/service.ts';
import { answerUncached, type Case, casesOf } from './endpoint-calls.ts';
import { measureWork } from './endpoint-work.ts';
import { type Dataset, openDataset } from './fills.ts';
import { issueKeys, measureHot } from './hot-keys.ts';
import { getRequest, type Load, load, medianOf } from './load.ts';
import { machine, median, percent, printTable, readable } from './report.ts';
import { measureSaturation } from './saturation.ts';
import { measureSearch } from './search.ts';

const FILLS = Number(process.env.FILLS || 20_000_000);
const ROUNDS = Number(process.env.ROUNDS || 3);
const SECONDS = Number(process.env.SECONDS || 3);
const PARTS = process.argv.length > 2 ? process.argv.slice(2) : ['cached', 'uncached'];
const CONNECTIONS = [1, 16, 64];
const WARM_CALLS = 20;
/** Nothing of the api is compiled when it starts. */
const START_SECONDS = 10;
/** Calls before those that the bare client repeats, which fill the metadata cache; and those. */
const WARM_UP_CALLS = 200;
const RECORDED_CALLS = 600;
const REFRESHED = [
  ...['1h', '4h', '1d', '3d', '7d', '30d'].map((frame) => `leaderboard_${frame}_mv`),
  ...['market_counts_mv', 'market_stats_mv'],
];

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
  const bare = start('test/release/bench/bare-express.ts', [file]);
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

/** The statements of some requests of a case, without answering anything. */
async function statementsOf(one: Case, select: Select): Promise<readonly Statement[][]> {
  const calls: Statement[][] = [];
  let statements: Statement[] = [];
  const recorder: Select = async (statement) => {
    const { sql, parameters, settings } = statement;
    // The client library cannot bind bytes.
    const keys = Object.entries(parameters).filter(([, value]) => value instanceof Bytes);
    statements.push({
      query: keys.reduce((text, [name, value]) => withKeys(text, name, value as Bytes), sql),
      query_params: Object.fromEntries(
        Object.entries(parameters).filter(([, value]) => !(value instanceof Bytes)),
      ),
      clickhouse_settings: settings,
      format: 'JSONCompactEachRow',
    });
    return await select(statement);
  };
  // Caches what the requests before asked for, as the api does.
  const metadata = createMetadata({ select: recorder, queryMsMax: QUERY_MS_MAX });
  for (let i = 0; i < WARM_UP_CALLS + RECORDED_CALLS; i++) {
    statements = [];
    await answerUncached(one, i, { select: recorder, metadata, now: Date.now });
    if (i >= WARM_UP_CALLS) calls.push(statements);
  }
  return calls;
}

/** How often a second 16 at a time run the statements of a call, one after the other. */
async function runBare(
  client: ClickHouseClient,
  next: () => readonly Statement[],
): Promise<number> {
  let done = 0;
  const startedAt = performance.now();
  const endAt = startedAt + SECONDS * 1_000;
  await Promise.all(
    Array.from({ length: 16 }, async () => {
      while (performance.now() < endAt) {
        for (const statement of next()) {
          await (await client.query(statement)).text();
        }
        done++;
      }
    }),
  );
  return (done / (performance.now() - startedAt)) * 1_000;
}

async function measureUncached(
  data: Dataset,
  port: number,
  headers: (i: number) => Record<string, string>,
) {
  const store = { url: data.parts.env.CLICKHOUSE_URL, database: 'fillstream', name: 'bench' };
  const client = connectClickHouse(store);
  const select = createSelect(store);
  const rows = [];
  const health = () => getRequest('/healthz', headers(0));
  await load({ port, connections: 1, seconds: START_SECONDS, request: health });
  for (const one of casesOf(data).filter(({ body }) => body === undefined)) {
    let asked = 0;
    // No request is asked twice, so that none is answered from the cache.
    const request = () => getRequest(one.ask(asked++), headers(asked));
    await load({ port, connections: 1, seconds: WARM_CALLS / 50, request });
    const figures: Record<string, string> = { endpoint: one.name };
    let refused = 0;
    const statements = await statementsOf(one, select);
    // As new to ClickHouse as what the api is asked, as far as they go.
    let sent = 0;
    const next = () => statements[sent++ % statements.length] ?? [];
    // By turns, because the machine is not equally fast all the time.
    const loads = new Map<number, Load[]>();
    const bares: number[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      for (const connections of CONNECTIONS) {
        const found = await load({ port, connections, seconds: SECONDS, request });
        loads.set(connections, [...(loads.get(connections) ?? []), found]);
        // At 64 a store without room answers 503 within its limit: that is reported, not hidden.
        requireStatuses(found, [200, 404, 503], one.name);
        refused += found.statuses.get(503) ?? 0;
        if (connections === 16) bares.push(await runBare(client, next));
      }
    }
    const at16 = (loads.get(16) ?? []).map((found, round) => found.perSecond / (bares[round] ?? 0));
    for (const connections of CONNECTIONS) {
      const found = medianOf(loads.get(connections) ?? []);
      figures[`${connections}: req/s`] = readable(found.perSecond);
      figures['p50'.padEnd(3 + CONNECTIONS.indexOf(connections))] = readable(found.p50);
      figures['p99'.padEnd(3 + CONNECTIONS.indexOf(connections))] = readable(found.p99);
    }
    rows.push({
      ...figures,
      'bare client at 16': readable(median(bares)),
      'ratio, median of the rounds': percent(median(at16), 1),
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
    for (const view of REFRESHED) {
      await data.parts.query(`SYSTEM REFRESH VIEW ${view}`);
      await data.parts.query(`SYSTEM WAIT VIEW ${view}`);
      await data.parts.query(`SYSTEM STOP VIEW ${view}`);
    }
    const keys = await issueKeys(data.parts.env.NATS_URL);
    const env = {
      ...data.parts.env,
      HTTP_CONNECTIONS_PER_ADDRESS_MAX: '1000',
      // A log line a request would be read and parsed by the process that makes the load.
      LOG_LEVEL: 'warn',
    };
    const { OTHER } = process.env;
    const api = start('api/main.ts', [], env, API_FLAGS);
    const other = OTHER && start(join(OTHER, 'api/main.ts'), [], env, API_FLAGS);
    const port = Number((await api.event('listening')).port);
    const headers = (i: number) => ({ 'X-Service-Key': keys[i % keys.length] ?? '' });
    const { fills, traders, markets } = data;
    console.log(
      `${readable(fills)} fills, ${readable(traders.length)} traders, ` +
        `${readable(markets.length)} markets; ${machine()}; ` +
        `medians of ${ROUNDS} rounds of ${SECONDS} s; the load, the api and ClickHouse share the cores`,
    );
    if (PARTS.includes('cached')) {
      printTable('Leaderboard from the cache', await measureCached(port, headers));
    }
    if (PARTS.includes('work')) {
      printTable('Work for a request', await measureWork(data));
    }
    if (PARTS.includes('uncached')) {
      printTable('Every endpoint, uncached', await measureUncached(data, port, headers));
    }
    if (PARTS.includes('hot')) {
      const apis = [{ name: 'own', port }];
      if (other) apis.push({ name: 'other', port: Number((await other.event('listening')).port) });
      const how = { data, rounds: ROUNDS, seconds: SECONDS };
      printTable('Few keys get most requests', await measureHot({ ...how, apis, headers }));
    }
    if (PARTS.includes('saturation')) {
      const second = start('api/main.ts', [], env, API_FLAGS);
      const secondPort = Number((await second.event('listening')).port);
      const apis = [
        { port, pid: api.pid },
        { port: secondPort, pid: second.pid },
      ] as const;
      const storePid = data.parts.clickhousePid;
      const how = { data, headers, storePid, rounds: ROUNDS, seconds: SECONDS };
      printTable('One api and two, a mix of requests', await measureSaturation({ ...how, apis }));
      await second.stop();
    }
    console.log(`largest resident memory of the api: ${peakMemory(api.pid)} MB`);
    await api.stop();
    if (other) await other.stop();
  } finally {
    for (const view of REFRESHED) {
      await data.parts.query(`SYSTEM START VIEW ${view}`);
    }
    await data.parts.stop();
  }
}

if (PARTS.includes('search')) printTable('Search', await measureSearch());
if (PARTS.some((part) => part !== 'search')) await main();
