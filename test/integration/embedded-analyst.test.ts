// What the analyst of the embedded ClickHouse may run, and what is refused: writes, files, other servers,
// other settings, and attempts to hide one of these in the text.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { ClickHouseClient } from '@clickhouse/client';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { connect, start, stopAll } from './embedded-harness.ts';

const root = mkdtempSync(join(tmpdir(), 'embedded-analyst-'));
const secret = join(root, 'secret.csv');
let url: string;
let client: ClickHouseClient;

beforeAll(async () => {
  writeFileSync(secret, 'top,secret\n1,2\n');
  ({ url } = await start(join(root, 'data')));
  client = connect({ url });
  await client.command({ query: 'CREATE TABLE exact (id UInt8) ORDER BY id' });
  await client.command({ query: 'INSERT INTO exact VALUES (1)' });
});

afterAll(async () => {
  await client?.close();
  await stopAll();
  rmSync(root, { recursive: true, force: true });
});

async function count(): Promise<unknown> {
  const query = 'SELECT count() AS n FROM exact';
  return (await client.query({ query, format: 'JSONEachRow' })).json();
}

const ask = async (query: string, more = '') => {
  const headers = { 'X-ClickHouse-User': 'analyst' };
  const response = await fetch(`${url}/?${more}`, { method: 'POST', body: query, headers });
  return { status: response.status, text: await response.text() };
};
test.each([
  'SELECT count() > 0 FROM exact',
  '-- a question\nWITH 1 AS one SELECT one = 1',
  'EXISTS TABLE exact',
  "SELECT {word:String} = concat('fi', 'le')",
])('may run: %s', async (query) => {
  expect(await ask(query, 'param_word=file')).toEqual({
    status: 200,
    text: expect.stringMatching(/^(1|true)\n$/),
  });
  const basic = connect({ url, username: 'analyst', password: '' });
  expect(
    (await basic.query({ query: 'SHOW TABLES', format: 'JSONEachRow' })).query_id,
  ).toBeTruthy();
  await basic.close();
});

test.each([
  'INSERT INTO exact (id) VALUES (9)',
  'INSERT INTO exact (id) FORMAT CSV\n9',
  'CREATE TABLE x (n UInt8) ORDER BY n',
  'DROP TABLE exact',
  'KILL QUERY WHERE 1',
  'SYSTEM RELOAD DICTIONARIES',
  'SET readonly = 0',
  'SELECT 1; DROP TABLE exact',
  'SELECT 1 SETTINGS readonly = 0',
  'SELECT 1 SETTINGS max_memory_usage = 0',
  `SELECT * FROM exact INTO OUTFILE '${join(root, 'leak')}'`,
  `SELECT * FROM file('${secret}')`,
  `SELECT file('${secret}')`,
  `SELECT \`f\\x69le\`('${secret}')`,
  `SELECT * APPLY file FROM (SELECT '${secret}')`,
  `SELECT * FROM \`${secret}\``,
  `DESCRIBE file('${secret}')`,
  `DESCRIBE \`${secret}\``,
  `/**/ DESCRIBE file('${secret}')`,
  `EXPLAIN DESCRIBE file('${secret}')`,
  `EXPLAIN TABLE OVERRIDE file('${secret}') COLUMNS (a Int8)`,
  "SELECT * FROM url('http://127.0.0.1:1/', CSV)",
  "DESC url('http://127.0.0.1:1/x.csv')",
  "DESCRIBE s3('http://127.0.0.1:1/bucket/x.csv')",
  "SELECT * FROM remote('127.0.0.1', system.one)",
  "SELECT * FROM executable('true', CSV, 'a Int8')",
  'SELECT * FROM numbers(2000000)',
  'SELECT 1 FROM',
])('may not: %s', async (query) => {
  const { status, text } = await ask(query);
  expect(status).toBeGreaterThanOrEqual(400);
  expect(text).toMatch(/^Code: \d+\. DB::Exception: /);
  expect(text).not.toContain('secret"');
  expect(await count()).toEqual([{ n: '1' }]);
});

test.each(['readonly=0', 'max_memory_usage=0', 'max_execution_time=0', 'max_execution_time=99'])(
  'may not set %s',
  async (setting) => {
    expect((await ask('SELECT 1', setting)).text).toMatch(/^Code: 164\. /);
    expect((await ask('SELECT 1', 'max_execution_time=5')).text).toBe('1\n');
  },
);
