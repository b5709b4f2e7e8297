/**
 * The tables beside the live ones: the database `<live>_rebuild` with the same tables and incremental
 * views, made from the live ones' own definitions. Leaderboards, dictionary and analysts' views are not
 * copied: they read the live tables by name, before and after the exchange. Why a plain EXCHANGE of the
 * tables is sound although views stand on them: docs/decisions/0002-clickhouse-is-the-checkpoint.md.
 */
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';

const Definition = z.object({ name: z.string(), engine: z.string(), definition: z.string() });
type Definition = z.infer<typeof Definition>;

/** A refreshable view, with the table that each refresh replaces. */
const REFRESHED = /^CREATE MATERIALIZED VIEW \S+ REFRESH .*? TO \w+\.(\w+) /s;
/** Filled from METADATA, or a record of what was done to the database: nothing that LEDGER says. */
const NOT_PROJECTED = new Set(['markets', 'traders', 'balances', 'migrations']);

/** Name of the database beside `live`. */
export function besideOf(live: string): string {
  return `${live}_rebuild`;
}

/** Drops what an earlier rebuild left and creates empty tables; returns their names. */
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
    // A server refuses to drop a table above 50 GB; these are ours, and made anew.
    clickhouse_settings: { max_table_size_to_drop: '0', max_partition_size_to_drop: '0' },
  });
}

/** Exchanges the tables by one statement, so that the death of this process cannot divide it. */
export async function exchangeTables(
  client: ClickHouseClient,
  live: string,
  tables: readonly string[],
): Promise<void> {
  const pairs = tables.map((table) => `${live}.${table} AND ${besideOf(live)}.${table}`);
  await client.command({ query: `EXCHANGE TABLES ${pairs.join(', ')}` });
}

/** Brings what is computed from the tables now and then up to date: dictionary and leaderboards. */
export async function refreshReaders(client: ClickHouseClient, live: string): Promise<void> {
  await client.command({ query: `SYSTEM RELOAD DICTIONARY ${live}.market_dictionary` });
  const { refreshed } = await projected(client, live);
  for (const { name } of refreshed) {
    // A refresh that runs by now may have read the old tables: it is waited for first.
    await client.command({ query: `SYSTEM WAIT VIEW ${live}.${name}` });
    await client.command({ query: `SYSTEM REFRESH VIEW ${live}.${name}` });
    await client.command({ query: `SYSTEM WAIT VIEW ${live}.${name}` });
  }
}

/** Names with a dot in front are the engine's own: a refreshable view fills such a table while it refreshes. */
async function projected(client: ClickHouseClient, live: string) {
  const result = await client.query({
    query: `SELECT name, engine, create_table_query AS definition FROM system.tables
      WHERE database = {live:String} AND NOT startsWith(name, '.') AND (endsWith(engine, 'MergeTree') OR engine = 'MaterializedView')
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
    views: allViews.filter((view) => !refreshed.includes(view)),
    refreshed,
  };
}
