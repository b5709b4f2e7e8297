/**
 * The new tables of a rebuild: the database `<live>_rebuild` with the same tables and incremental views, created from
 * the definitions of the live ones. Leaderboards, dictionary and analysts' views are not copied, because they read the
 * live tables by name, before and after the exchange. docs/decisions/0002-clickhouse-is-the-checkpoint.md explains why
 * a plain EXCHANGE of tables with views is safe.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { LASTING_TABLES, refreshView } from '../infra/clickhouse.ts';

const Definition = z.object({ name: z.string(), engine: z.string(), definition: z.string() });
type Definition = z.infer<typeof Definition>;

/** Matches a refreshable view and captures the table that each refresh replaces. */
const REFRESHED = /^CREATE MATERIALIZED VIEW \S+ REFRESH .*? TO \w+\.(\w+) /s;
/** Matches a view and captures the table that it fills. */
const FILLED = /^CREATE MATERIALIZED VIEW \S+ TO \w+\.(\w+) /;
/** Not computed from LEDGER: the tables of METADATA, those that views fill from them, and the list of migrations. */
const NOT_PROJECTED = new Set([
  ...['markets', 'traders', 'balances', 'migrations'],
  ...['search_words', 'search_variants'],
]);

/** Name of the database with the new tables. */
export function besideOf(live: string): string {
  return `${live}_rebuild`;
}

/** Drops the remains of an earlier rebuild and creates empty tables; returns their names. */
export async function createBeside(
  client: ClickHouseClient,
  live: string,
): Promise<readonly string[]> {
  const beside = besideOf(live);
  await dropBeside(client, live);
  await client.command({ query: `CREATE DATABASE ${beside}` });
  const { tables, views } = await projected(client, live);
  for (const { definition } of [...tables, ...views]) {
    const query = definition.replaceAll(new RegExp(`\\b${live}\\.`, 'g'), `${beside}.`);
    await client.command({ query });
  }
  return tables.map(({ name }) => name);
}

export async function dropBeside(client: ClickHouseClient, live: string): Promise<void> {
  await client.command({
    query: `DROP DATABASE IF EXISTS ${besideOf(live)}`,
    // By default, servers refuse to drop tables above 50 GB. These can be recomputed.
    clickhouse_settings: { max_table_size_to_drop: '0', max_partition_size_to_drop: '0' },
  });
}

/** Exchanges all tables in one statement, so that a kill of this process cannot leave it half done. */
export async function exchangeTables(
  client: ClickHouseClient,
  live: string,
  tables: readonly string[],
): Promise<void> {
  const pairs = tables.map((table) => `${live}.${table} AND ${besideOf(live)}.${table}`);
  await client.command({ query: `EXCHANGE TABLES ${pairs.join(', ')}` });
}

/**
 * Refreshes everything that is periodically computed from the tables: the dictionary, then the leaderboards and the
 * list of markets, in order of their names, because market_stats reads market_counts.
 */
export async function refreshReaders(client: ClickHouseClient, live: string): Promise<void> {
  await client.command({ query: `SYSTEM RELOAD DICTIONARY ${live}.market_dictionary` });
  const { refreshed } = await projected(client, live);
  for (const { name } of refreshed) {
    await refreshView(client, `${live}.${name}`);
  }
}

/** The projected tables, without the engine's own, which begin with a dot, and those that a refresh replaces. */
async function projected(client: ClickHouseClient, live: string) {
  const result = await client.query({
    query: `SELECT name, engine, create_table_query AS definition FROM system.tables
      WHERE database = {live:String} AND ${LASTING_TABLES} AND (endsWith(engine, 'MergeTree') OR engine = 'MaterializedView')
      ORDER BY name`,
    query_params: { live },
    format: 'JSONEachRow',
  });
  const all = z.array(Definition).parse(await result.json());
  const allViews = all.filter(({ engine }) => engine === 'MaterializedView');
  const refreshed = allViews.filter(({ definition }) => REFRESHED.test(definition));
  const left = new Set(refreshed.map(({ definition }) => REFRESHED.exec(definition)?.[1] ?? ''));
  const isTable = ({ name, engine }: Definition) =>
    engine !== 'MaterializedView' && !NOT_PROJECTED.has(name) && !left.has(name);
  return {
    tables: all.filter(isTable),
    views: allViews.filter((view) => {
      const isOfMetadata = NOT_PROJECTED.has(FILLED.exec(view.definition)?.[1] ?? '');
      return !refreshed.includes(view) && !isOfMetadata;
    }),
    refreshed,
  };
}
