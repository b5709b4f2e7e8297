/**
 * Applies sql/migrations in order, forward only: one statement a file, recorded by name and SHA-256
 * in the table `migrations`. An applied file that was edited stops the run before anything is done.
 * Each file is safe to run again, so a crash between a statement and its record does no harm.
 */
import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { connectClickHouse } from '../infra/clickhouse.ts';
import { ConfigError, readConfig } from '../infra/config.ts';

const MIGRATIONS = new URL('./migrations/', import.meta.url);
const Applied = z.object({ name: z.string(), sha256: z.string() });

/** Thrown when a migration that was applied has another text now, or is gone. */
export class MigrationChangedError extends Error {}

/** Creates the database, applies what is missing, returns the names applied now. */
export async function migrate(options: {
  readonly url: string;
  readonly database: string;
}): Promise<readonly string[]> {
  const server = connectClickHouse({ url: options.url, database: 'default', name: 'migrate' });
  try {
    await server.command({ query: `CREATE DATABASE IF NOT EXISTS ${options.database}` });
  } finally {
    await server.close();
  }
  const client = connectClickHouse({ ...options, name: 'migrate' });
  try {
    return await applyMissing(client, options.database);
  } finally {
    await client.close();
  }
}

async function applyMissing(client: ClickHouseClient, database: string) {
  await client.command({
    query: `CREATE TABLE IF NOT EXISTS migrations
      (name String, sha256 String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
      ENGINE = ReplacingMergeTree ORDER BY name`,
  });
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
  const files = await readMigrations();
  refuseChanged(applied, files);
  const done: string[] = [];
  for (const file of files) {
    if (applied.has(file.name)) continue;
    await client.command({ query: file.sql.replaceAll('{database}', database) });
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

type MigrationFile = { readonly name: string; readonly sql: string; readonly sha256: string };

async function readMigrations(): Promise<readonly MigrationFile[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => name.endsWith('.sql')).sort();
  return Promise.all(
    names.map(async (name) => {
      const sql = await readFile(new URL(name, MIGRATIONS), 'utf8');
      return { name, sql, sha256: createHash('sha256').update(sql).digest('hex') };
    }),
  );
}

function refuseChanged(applied: Map<string, string>, files: readonly MigrationFile[]): void {
  const byName = new Map(files.map((file) => [file.name, file.sha256]));
  for (const [name, sha256] of applied) {
    if (byName.get(name) !== sha256) {
      throw new MigrationChangedError(
        `${name} was applied with another text. Migrations are forward only: restore the file ` +
          'and put the change into a new one.',
      );
    }
  }
}

if (import.meta.main) {
  try {
    const config = readConfig();
    const done = await migrate({
      url: config.CLICKHOUSE_URL,
      database: config.CLICKHOUSE_DATABASE,
    });
    console.log(done.length === 0 ? 'nothing to migrate' : `applied ${done.join(', ')}`);
  } catch (error) {
    if (!(error instanceof ConfigError) && !(error instanceof MigrationChangedError)) throw error;
    console.error(error.message);
    process.exitCode = 1;
  }
}
