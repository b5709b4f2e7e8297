/**
 * The schema of a cluster on the embedded engine, which has no Keeper, no replicas and no ON CLUSTER, but has
 * Distributed tables. Both shards are this engine; a filter that knows the number of the shard lets each read its own rows
 * only. So statements are planned, and their results merged, as over two servers.
 */
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { SHARDED_TABLES } from '../../sql/cluster.ts';
import { ANALYST_DATABASE, runStatement, startRefreshes, statementsOf } from '../../sql/migrate.ts';
import { DATABASE, startEngine, stopEngine } from './stack.ts';

const SQL = join(import.meta.dirname, '../../sql');
/** The engine listens on no port, but treats this address as its own and opens no connection. */
const SHARD = '<shard><replica><host>127.0.0.1</host><port>9000</port></replica></shard>';
const CONFIG = `<clickhouse>
  <tcp_port>9000</tcp_port>
  <macros><cluster>shards</cluster></macros>
  <remote_servers><shards>${SHARD}${SHARD}</shards></remote_servers>
</clickhouse>`;
const BOARDS = ['1h', '4h', '1d', '3d', '7d', '30d'].map((frame) => `leaderboard_${frame}`);
/** The column that distinguishes the rows of the shards; all other tables have a trader. */
const KEYS = new Map([
  ['market_minutes', 'minute'],
  ['market_days', 'day'],
  ['market_marks', 'condition_id'],
]);
const FILTERS = [...SHARDED_TABLES, ...BOARDS].map((table) => {
  const key = KEYS.get(table) ?? 'trader';
  return `'${DATABASE}.${table}_local': 'cityHash64(${key}) % 2 = shardNum() - 1'`;
});
/** For every read; the first as in the users.xml of a cluster. */
const SETTINGS = {
  distributed_product_mode: 'global',
  additional_table_filters: `{${FILTERS.join(', ')}}`,
};

/** Like `startClickHouse`; reads through `url` see the shards, `client` writes. */
export async function startTwoShards(dataDir: string) {
  mkdirSync(join(dataDir, 'config.d'), { recursive: true });
  writeFileSync(join(dataDir, 'config.d', 'shards.xml'), CONFIG);
  const { child, serviceUrl: url } = await startEngine(dataDir);
  const server = connectClickHouse({ url, database: 'default', name: 'test' });
  for (const name of [DATABASE, ANALYST_DATABASE]) {
    await server.command({ query: `CREATE DATABASE ${name}` });
  }
  await server.close();
  const client = connectClickHouse({ url, database: DATABASE, name: 'test' });
  for (const query of statements()) await runStatement(client, query);
  await startRefreshes(client);
  const front = await serve(url);
  return {
    url: front.url,
    client,
    async stop() {
      front.close();
      await client.close();
      await stopEngine(child);
    },
  };
}

function statements(): readonly string[] {
  const target = { database: DATABASE, cluster: '{cluster}' };
  return ['migrations', 'analyst/views']
    .flatMap((folder) => readdirSync(join(SQL, folder)).map((name) => join(SQL, folder, name)))
    .flatMap((path) => statementsOf(readFileSync(path, 'utf8'), target))
    .map(withoutKeeper);
}

function withoutKeeper(statement: string): string {
  const text = statement
    .replace(/ ON CLUSTER '[^']*'/, '')
    .replace(/Replicated(\w*MergeTree)\('[^']*', '[^']*'(?:, (\w+))?\)/, '$1($2)')
    // Both parts of an insert go to the same table with one token.
    .replace(
      /\breplicated_deduplication_window = \d+, replicated_deduplication_window_seconds = \d+/,
      'non_replicated_deduplication_window = 0',
    );
  const readsAllShards =
    /^CREATE MATERIALIZED VIEW (?!.*leaderboard_).*\sREFRESH /s.test(text) ||
    /^ALTER TABLE (?!leaderboard_)\w+_mv\s+MODIFY QUERY/.test(text);
  if (!readsAllShards) return text;
  const { distributed_product_mode: mode, additional_table_filters: filters } = SETTINGS;
  const settings = `distributed_product_mode = '${mode}', additional_table_filters = ${filters}`;
  return `${text}${/\sSETTINGS\s/.test(text) ? ', ' : '\nSETTINGS '}${settings}`;
}

/** Passes requests on to the engine, which has no profile for settings. */
async function serve(url: string) {
  const server = createServer((given, response) => {
    const target = new URL(given.url ?? '/', url);
    for (const [name, value] of Object.entries(SETTINGS)) target.searchParams.set(name, value);
    const { headers, method } = given;
    const sent = request(target, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 500, answer.headers);
      answer.pipe(response);
    });
    sent.on('error', () => response.destroy());
    given.pipe(sent);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const front = new URL(url);
  front.port = String((server.address() as AddressInfo).port);
  return {
    url: front.href,
    close() {
      server.close();
      server.closeAllConnections();
    },
  };
}
