/**
 * A ClickHouse directory with all migrations, created once per run. Each test copies it, which takes a third of the time
 * of migrating an empty one.
 */

import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { connectClickHouse } from '../../infra/clickhouse.ts';
import { migrate } from '../../sql/migrate.ts';
import { startEngine, stopEngine } from './stack.ts';

/** The service's refreshes yield to all other programs, so on a busy machine a test would wait for them for minutes. */
async function hurryRefreshes(client: ClickHouseClient): Promise<void> {
  const niceness = /, os_threads_nice_value_query = \d+/;
  const query = `SELECT name, as_select FROM system.tables
    WHERE database = currentDatabase() AND as_select LIKE '%os_threads_nice_value_query%'`;
  const found = await client.query({ query, format: 'JSONEachRow' });
  for (const { name, as_select: select } of await found.json<Record<string, string>>()) {
    await client.command({
      query: `ALTER TABLE ${name} MODIFY QUERY ${select?.replace(niceness, '')}`,
    });
  }
}

/** Vitest's global setup; the workers inherit the environment. */
export default async function setup(): Promise<() => void> {
  const root = mkdtempSync(join(tmpdir(), 'fillstream-template-'));
  const directory = join(root, 'clickhouse');
  const { child, serviceUrl: url } = await startEngine(directory);
  await migrate({ url, database: 'fillstream' });
  const client = connectClickHouse({ url, database: 'fillstream', name: 'test' });
  await hurryRefreshes(client);
  await client.close();
  await stopEngine(child, 'SIGTERM');
  process.env.TEST_TEMPLATE = directory;
  return () => rmSync(root, { recursive: true, force: true });
}
