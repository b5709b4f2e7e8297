/**
 * The new tables of a rebuild: the database `<live>_rebuild`, made by the same migrations as the live one, with
 * its own leaderboards. Tables that are not computed from LEDGER stay where they are.
 * docs/decisions/0002-clickhouse-is-the-checkpoint.md explains why a plain EXCHANGE of tables with views is safe.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { LASTING_TABLES, refreshView } from '../infra/clickhouse.ts';
import { createTables } from '../sql/migrate.ts';

/** Not computed from LEDGER: the tables of METADATA, the tables that views fill from them, and the list of migrations. */
const NOT_PROJECTED = new Set([
  ...['markets', 'traders', 'balances', 'share_balances', 'migrations'],
  ...['search_words', 'search_variants'],
]);

const Names = z.array(z.object({ name: z.string() }));

/** Name of the database with the new tables. */
export function besideOf(live: string): string {
  return `${live}_rebuild`;
}

/** Drops the remains of an earlier rebuild and creates empty tables; returns the names of those that will be exchanged. */
export async function createBeside(
  client: ClickHouseClient,
  { url, live }: { readonly url: string; readonly live: string },
): Promise<readonly string[]> {
  const beside = besideOf(live);
  await dropBeside(client, live);
  await createTables({ url, database: beside });
  const tables = await namesOf(
    client,
    `SELECT name FROM system.tables
     WHERE database = {database:String} AND ${LASTING_TABLES} AND endsWith(engine, 'MergeTree')`,
    beside,
  );
  return tables.filter((name) => !NOT_PROJECTED.has(name));
}

export async function dropBeside(client: ClickHouseClient, live: string): Promise<void> {
  await client.command({
    query: `DROP DATABASE IF EXISTS ${besideOf(live)}`,
    // By default, servers refuse to drop tables above 50 GB. These can be recomputed.
    clickhouse_settings: { max_table_size_to_drop: '0', max_partition_size_to_drop: '0' },
  });
}

/** Computes the leaderboards and lists of the new tables; they need the tags of the live markets. */
export async function refreshBeside(client: ClickHouseClient, live: string): Promise<void> {
  await client.command({
    query: `INSERT INTO ${besideOf(live)}.markets SELECT * FROM ${live}.markets FINAL`,
  });
  await refreshAll(client, besideOf(live));
}

/** Exchanges all tables in one statement, so that a kill of this process cannot leave it half done. */
export async function exchangeTables(
  client: ClickHouseClient,
  live: string,
  tables: readonly string[],
): Promise<void> {
  // A running refresh would write a leaderboard of the old tables into the new one.
  for (const database of [live, besideOf(live)]) {
    for (const view of await refreshedViews(client, database)) {
      await client.command({ query: `SYSTEM CANCEL VIEW ${view}` });
    }
  }
  const pairs = tables.map((table) => `${live}.${table} AND ${besideOf(live)}.${table}`);
  await client.command({ query: `EXCHANGE TABLES ${pairs.join(', ')}` });
}

/**
 * Refreshes everything that is periodically computed from the tables of a database: the dictionary, then the
 * leaderboards and the list of markets, in order of their names, because market_stats reads market_counts.
 */
export async function refreshAll(client: ClickHouseClient, database: string): Promise<void> {
  await client.command({ query: `SYSTEM RELOAD DICTIONARY ${database}.market_dictionary` });
  for (const view of await refreshedViews(client, database)) await refreshView(client, view);
}

async function refreshedViews(client: ClickHouseClient, database: string) {
  const query =
    'SELECT view AS name FROM system.view_refreshes WHERE database = {database:String} ORDER BY view';
  return (await namesOf(client, query, database)).map((name) => `${database}.${name}`);
}

async function namesOf(client: ClickHouseClient, query: string, database: string) {
  const result = await client.query({
    query,
    query_params: { database },
    format: 'JSONEachRow',
  });
  return Names.parse(await result.json()).map(({ name }) => name);
}
