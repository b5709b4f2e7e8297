/**
 * Applies sql/migrations in order, forward only. The table `migrations` records each file by name and SHA-256. If an
 * applied file was edited, or does not exist in this version, the run stops before it changes anything. Every file can
 * safely run twice, so a crash between a statement and its record is harmless. Then it replaces the analysts' views,
 * which are code and have no history. On a cluster, sql/cluster.ts rewrites every statement.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { type ClickHouseClient, ClickHouseError } from '@clickhouse/client';
import { z } from 'zod';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { runCommand } from '../infra/command.ts';
import { ClickHouseConfig, readConfig } from '../infra/config.ts';
import { ExpectedError } from '../infra/expected.ts';
import { retry } from '../infra/retry.ts';
import { clusterForm } from './cluster.ts';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
const ANALYST_VIEWS = new URL('./analyst/views/', import.meta.url);
/** Database of the analysts' views. The tables that they read are in the service's database. */
export const ANALYST_DATABASE = 'analyst';
/** Long, because a migration may rewrite a table. */
const STATEMENT_MS_MAX = 6 * 3_600_000;
const Applied = z.object({ name: z.string(), sha256: z.string() });

/** Another version created the database, or a migration was edited; the message says what to do. */
export class MigrationError extends ExpectedError {}

export type Target = {
  readonly url: string;
  readonly database: string;
  /** Name in remote_servers, or `{cluster}`; a single node without it. */
  readonly cluster?: string | undefined;
};

/** Creates the databases, applies missing migrations and replaces the views. Resolves with what was applied. */
export async function migrate(target: Target): Promise<readonly string[]> {
  const applied = await createTables(target);
  await within(target, ANALYST_DATABASE, async (client) => {
    for (const view of await readStatements(ANALYST_VIEWS)) await run(client, target, view.sql);
  });
  return applied;
}

/** The same without the views of the analysts, which read one database only. */
export async function createTables(target: Target): Promise<readonly string[]> {
  return within(target, target.database, (client) =>
    // Even if no migration is missing, because an earlier run may have been killed.
    applyMissing(client, target).finally(() => startRefreshes(client)),
  );
}

/** Creates a database and connects to it. */
async function within<T>(
  target: Target,
  database: string,
  work: (client: ClickHouseClient) => Promise<T>,
): Promise<T> {
  const { url } = target;
  const connect = (name: string) =>
    connectClickHouse({ url, database: name, name: 'migrate', requestTimeoutMs: STATEMENT_MS_MAX });
  const [server, client] = [connect('default'), connect(database)];
  try {
    await run(server, target, `CREATE DATABASE IF NOT EXISTS ${database}`);
    return await work(client);
  } finally {
    await Promise.all([server.close(), client.close()]);
  }
}

async function applyMissing(client: ClickHouseClient, target: Target) {
  await run(client, target, MIGRATIONS_TABLE);
  const result = await client.query({
    query: 'SELECT name, sha256 FROM migrations FINAL ORDER BY name',
    format: 'JSONEachRow',
  });
  const applied = new Map(
    z
      .array(Applied)
      .parse(await result.json())
      .map((row) => [row.name, row.sha256]),
  );
  const files = await readStatements(MIGRATIONS);
  refuseForeign(applied, files, target);
  const done: string[] = [];
  for (const file of files) {
    if (applied.has(file.name)) continue;
    await run(client, target, file.sql);
    await client.insert({
      table: 'migrations',
      columns: ['name', 'sha256'],
      values: [[file.name, file.sha256]],
      format: 'JSONCompactEachRow',
    });
    done.push(file.name);
  }
  return done;
}

const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS migrations
(
    name String COMMENT 'file in sql/migrations',
    sha256 String COMMENT 'of its text',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3) COMMENT 'when it was applied, UTC'
)
ENGINE = ReplacingMergeTree
ORDER BY name
COMMENT 'migrations that were applied'`;

/**
 * The statements of a file on this target. In a file, a semicolon at the end of a line ends a statement, and the lines
 * below `-- For each {a}, {b}:` repeat all of them with these values.
 */
export function statementsOf(sql: string, target: Pick<Target, 'database' | 'cluster'>) {
  const { database, cluster } = target;
  const statements = sql
    .replaceAll(/^--.*$/gm, '')
    .replaceAll('{database}', database)
    .split(/;\s*$/m)
    .filter((statement) => statement.trim() !== '');
  const repeated = valuesOf(sql).flatMap((values) =>
    statements.map((statement) =>
      values.reduce((text, [name, value]) => text.replaceAll(name, value), statement),
    ),
  );
  if (cluster === undefined) return repeated;
  return repeated.flatMap((statement) => clusterForm(statement, { cluster, database }));
}

/** The replacements of each repetition; a single empty one for a file without a list. */
function valuesOf(sql: string): readonly (readonly (readonly [string, string])[])[] {
  const [, names, rows] = /^-- For each (.+):\n((?:-- {3}.+\n)+)/m.exec(sql) ?? [];
  if (names === undefined || rows === undefined) return [[]];
  return rows
    .trim()
    .split('\n')
    .map((row) => row.replace(/^-- +/, '').split(', '))
    .map((values) => names.split(', ').map((name, i) => [name, values[i] ?? ''] as const));
}

/** Other servers of a cluster keep refreshing: a statement on a table that is being replaced is retried for this long. */
const CANCELLED_POLL_MS = 50;
const REPLACED_MS_MAX = 30_000;

async function run(client: ClickHouseClient, target: Target, sql: string): Promise<void> {
  for (const query of statementsOf(sql, target)) await runStatement(client, query);
}

/**
 * A refresh ends by replacing its table with one that it made when it began, and a change between the two is lost without
 * an error. So refreshes are stopped, and the running ones cancelled, before a table is changed. `startRefreshes` ends that.
 */
export async function runStatement(client: ClickHouseClient, query: string): Promise<void> {
  if (/^ALTER TABLE/m.test(query)) await stopRefreshes(client);
  await retry(() => client.command({ query }), {
    isRetryable: (error) =>
      error instanceof ClickHouseError &&
      /it was renamed|has different UUID|\.tmp\.inner_id\./.test(error.message),
    giveUpAfterMs: REPLACED_MS_MAX,
  });
}

async function stopRefreshes(client: ClickHouseClient): Promise<void> {
  await client.command({ query: 'SYSTEM STOP VIEWS' });
  // A cancelled refresh ends a moment later.
  const endsAt = performance.now() + REPLACED_MS_MAX;
  while (performance.now() < endsAt) {
    const query = `SELECT view FROM system.view_refreshes WHERE status = 'Running' LIMIT 1`;
    const running = await (await client.query({ query, format: 'JSONEachRow' })).json();
    if (running.length === 0) return;
    await delay(CANCELLED_POLL_MS);
  }
}

export async function startRefreshes(client: ClickHouseClient): Promise<void> {
  await client.command({ query: 'SYSTEM START VIEWS' });
}

type StatementFile = { readonly name: string; readonly sql: string; readonly sha256: string };

async function readStatements(directory: URL): Promise<readonly StatementFile[]> {
  const names = (await readdir(directory)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(new URL(name, directory), 'utf8');
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

function refuseForeign(
  applied: ReadonlyMap<string, string>,
  files: readonly StatementFile[],
  { database }: Target,
): void {
  const byName = new Map(files.map((file) => [file.name, file.sha256]));
  for (const [name, sha256] of applied) {
    const known = byName.get(name);
    if (known === undefined) {
      throw new MigrationError(
        `the ClickHouse database ${database} was created by another version (migration ${name}), such as 0.1, ` +
          'whose data this version cannot read: stop the service, drop the database (with npm start: delete ' +
          'the directory clickhouse in its data directory) and start again; it is refilled from LEDGER',
      );
    }
    if (known !== sha256) {
      throw new MigrationError(
        `${name} was edited after it was applied. Migrations are forward only: restore the file ` +
          'and put the change into a new one.',
      );
    }
  }
}

if (import.meta.main) {
  await runCommand('migrate', async () => {
    const config = readConfig(ClickHouseConfig);
    const done = await migrate({
      url: config.CLICKHOUSE_URL,
      database: config.CLICKHOUSE_DATABASE,
      cluster: config.CLICKHOUSE_CLUSTER,
    });
    console.log(done.length === 0 ? 'nothing to migrate' : `applied ${done.join(', ')}`);
    return undefined;
  });
}
