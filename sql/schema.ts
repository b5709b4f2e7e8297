/**
 * Writes sql/schema.sql: the schema after all migrations and views, as the engine prints it, so that a review shows a
 * schema change as one diff. A test compares the file with the engine. Nothing else reads it.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { ClickHouseClient } from '@clickhouse/client';
import { z } from 'zod';
import { connectClickHouse, LASTING_TABLES } from '../infra/clickhouse.ts';
import { ANALYST_DATABASE, migrate } from './migrate.ts';

const SNAPSHOT = new URL('./schema.sql', import.meta.url);
const ENGINE = fileURLToPath(new URL('../local/clickhouse/main.ts', import.meta.url));
const DATABASE = 'fillstream';
const HEADER = `-- Written by \`npm run schema\` from the engine's SHOW CREATE. Do not edit: change sql/migrations or
-- sql/analyst/views and run it again.
`;

/** SHOW CREATE of all tables, views and dictionaries of both databases, sorted by name. */
export async function describeSchema(client: ClickHouseClient, database: string): Promise<string> {
  const tables = await rowsOf(
    client,
    `SELECT concat(database, '.', name) AS full_name FROM system.tables
     WHERE database IN ('${ANALYST_DATABASE}', '${database}') AND NOT is_temporary
       AND ${LASTING_TABLES}
     ORDER BY full_name`,
    z.object({ full_name: z.string() }),
  );
  const statements: string[] = [];
  for (const { full_name: name } of tables) {
    // SHOW CREATE TABLE also works for views and dictionaries.
    const Row = z.object({ statement: z.string() });
    const [row] = await rowsOf(client, `SHOW CREATE TABLE ${name}`, Row);
    if (row === undefined) throw new Error(`SHOW CREATE TABLE ${name} returned nothing`);
    statements.push(`${row.statement.trimEnd()};\n`);
  }
  return [HEADER, ...statements].join('\n');
}

async function rowsOf<Row>(client: ClickHouseClient, query: string, schema: z.ZodType<Row>) {
  const result = await client.query({ query, format: 'JSONEachRow' });
  return z.array(schema).parse(await result.json());
}

async function writeSnapshot(): Promise<void> {
  const data = await mkdtemp(join(tmpdir(), 'fillstream-schema-'));
  const child = spawn(process.execPath, [ENGINE, '--data', data, '--port', '0'], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  });
  if (child.stdout === null) throw new Error('the child has no stdout');
  const exited = once(child, 'exit');
  try {
    const [line] = await Promise.race([once(child.stdout, 'data'), exited]);
    const Listening = z.object({ url: z.string() });
    const listening = new URL(Listening.parse(JSON.parse(String(line))).url);
    listening.username = 'service';
    listening.password = await readFile(join(data, 'password'), 'utf8');
    const url = listening.href;
    await migrate({ url, database: DATABASE });
    const client = connectClickHouse({ url, database: DATABASE, name: 'schema' });
    await writeFile(SNAPSHOT, await describeSchema(client, DATABASE));
    await client.close();
  } finally {
    child.kill('SIGTERM');
    await exited;
    await rm(data, { recursive: true, force: true });
  }
}

if (import.meta.main) await writeSnapshot();
