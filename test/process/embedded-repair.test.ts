// A kill at a full disk leaves empty definitions in the directory of the embedded ClickHouse. Those of refreshed
// tables and of their views are created again. For any other, the error says what to do, and that repairs it.
import { once } from 'node:events';
import { mkdtempSync, readdirSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connectClickHouse, refreshView } from '../../infra/clickhouse.ts';
import { migrate } from '../../sql/migrate.ts';
import { describeSchema } from '../../sql/schema.ts';
import { refusal, startEngine, stopEngine, stopEngines } from '../support/stack.ts';

const root = mkdtempSync(join(tmpdir(), 'embedded-repair-'));
const data = join(root, 'data');
let schema: string;

beforeAll(async () => {
  const { child, serviceUrl: url } = await startEngine(data);
  await migrate({ url, database: 'fillstream' });
  schema = await described(url);
  await stopEngine(child, 'SIGKILL');
});

afterAll(async () => {
  await stopEngines();
  rmSync(root, { recursive: true, force: true });
});

/** The schema without the pauses of views, which the projector sets. */
async function described(url: string): Promise<string> {
  const client = connectClickHouse({ url, database: 'fillstream', name: 'test' });
  try {
    return await describeSchema(client, 'fillstream');
  } finally {
    await client.close();
  }
}

function definitions(): string {
  return realpathSync(join(data, 'engine', 'metadata', 'fillstream'));
}

test('empty definitions of refreshed tables, of their views and of temporary tables do not prevent a start', async () => {
  for (const name of ['leaderboard_1h', 'leaderboard_30d_mv', 'market_stats', 'market_stats_mv']) {
    writeFileSync(join(definitions(), `${name}.sql`), '');
  }
  writeFileSync(join(definitions(), 'leaderboard_7d.sql'), Buffer.alloc(4096));
  const temporary = '%2Etmp%2Einner_id%2E0b7.sql';
  writeFileSync(join(definitions(), temporary), '');
  const { child, serviceUrl: url } = await startEngine(data);
  expect(await described(url)).toBe(schema);
  const client = connectClickHouse({ url, database: 'fillstream', name: 'test' });
  for (const view of ['leaderboard_1h_mv', 'leaderboard_30d_mv', 'market_stats_mv']) {
    await refreshView(client, view);
  }
  await client.close();
  expect(readdirSync(definitions())).not.toContain(temporary);
  await stopEngine(child, 'SIGTERM');
});

test('a damaged definition of any other table is named with a remedy, and the remedy works', async () => {
  writeFileSync(join(definitions(), 'bookings.sql'), '');
  const [code, error] = await refusal(['--data', data, '--port', '0']);
  expect(code).toBe(1);
  expect(error.trimEnd().split('\n').at(-1)).toBe(
    `${data} cannot be opened (the definition of the table fillstream.bookings is damaged): ` +
      'restore a backup of ClickHouse, or delete this directory and start again; then LEDGER fills the tables.',
  );
  rmSync(data, { recursive: true });
  const { child } = await startEngine(data);
  child.kill('SIGTERM');
  await once(child, 'exit');
});
